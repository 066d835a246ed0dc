package record

import (
	"crypto/sha1"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
)

// Entry is an entry of a log: its JSON around the number that the script gives it, and
// what stands beside it. An audit record has nothing beside.
type Entry struct {
	Head, Tail        []byte
	ID, Type, Account string
}

// Envelope is that of the entry in the log at a key. Behind the checksum stands where
// the number begins, so that both parts are known exactly.
func (e *Entry) Envelope(key string) string {
	return enveloped(e.sum(key), int64(len(e.Head)))
}

// given is what the script gives an event: its number and the history. Then the
// checksum of both stands behind the envelope. Events of earlier releases have the
// number alone, and so have audit records.
var given = regexp.MustCompile(`^[1-9][0-9]*(,"history_id":"his_[0-9a-z]+")?`)

func givenSum(key, given string) string {
	sum := sha1.Sum([]byte(key + given))
	return hex.EncodeToString(sum[:digits/2])
}

func (e *Entry) sum(key string) uint32 {
	return sum(key, func(s *summer) {
		s.bytes(e.Head)
		s.bytes(e.Tail)
		s.text(e.ID)
		s.text(e.Type)
		s.text(e.Account)
	})
}

// CheckEntry reports that an entry, by its fields, is not what was written to the log
// at a key.
func CheckEntry(key string, f map[string]any) error {
	get := func(name string) string { text, _ := f[name].(string); return text }
	envelope, text := get(Field), get("b")
	if envelope == "" {
		for name := range f {
			if stray(get(name)) {
				return errName
			}
		}
		return nil // of before
	}
	found, err := sumIn(envelope)
	if err != nil || found == "" {
		return err
	}
	sum, head := found[:digits], found[digits:]
	for _, byScript := range []string{"", head[max(0, len(head)-digits):]} {
		at, err := strconv.ParseInt(strings.TrimSuffix(head, byScript), 16, 32)
		if err != nil || at > int64(len(text)) {
			continue
		}
		numbered := given.FindStringSubmatch(text[at:])
		if numbered == nil || (numbered[1] != "") != (byScript != "") || byScript != "" && byScript != givenSum(key, numbered[0]) {
			continue
		}
		e := Entry{Head: []byte(text[:at]), Tail: []byte(text[int(at)+len(numbered[0]):]), ID: get("i"), Type: get("t"), Account: get("a")}
		if is(e.sum(key), sum) {
			return nil
		}
	}
	return errSum
}

// Anew is the envelope that an entry, which CheckEntry has found sound, gets with another text:
// the same one up to its number and what a script gave with that. It is empty where the entry
// has none.
func Anew(key string, f map[string]any, text string) (string, error) {
	get := func(name string) string { text, _ := f[name].(string); return text }
	found, err := sumIn(get(Field))
	if err != nil || found == "" {
		return get(Field), err
	}
	was := get("b")
	for _, byScript := range []string{"", found[max(digits, len(found)-digits):]} {
		at, err := strconv.ParseInt(strings.TrimSuffix(found[digits:], byScript), 16, 32)
		if err != nil || at > int64(min(len(was), len(text))) || was[:at] != text[:at] {
			continue
		}
		number := given.FindString(was[at:])
		of := func(text string) uint32 {
			e := Entry{Head: []byte(text[:at]), Tail: []byte(text[int(at)+len(number):]), ID: get("i"), Type: get("t"), Account: get("a")}
			return e.sum(key)
		}
		if number != "" && strings.HasPrefix(text[at:], number) && is(of(was), found[:digits]) {
			b := hexOf(of(text))
			return begin + string(b[:]) + found[digits:], nil
		}
	}
	return "", errSum
}

// Row is the envelope of an entry that is one JSON text, without a number.
func Row(key, text string) string { return enveloped(rowSum(key, text), -1) }

func rowSum(key, text string) uint32 { return sum(key, func(s *summer) { s.text(text) }) }

// CheckRow is CheckEntry for one of which Row has made the envelope.
func CheckRow(key string, f map[string]any) error {
	text, _ := f["b"].(string)
	envelope, _ := f[Field].(string)
	found, err := sumIn(envelope)
	if envelope == "" {
		return CheckEntry(key, f)
	}
	if err == nil && found != "" && !is(rowSum(key, text), found) {
		return errSum
	}
	return err
}
