package record

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tollgate/rediskv/bodies"
)

// Request is the record of a request, of which each member is a line.
type Request struct {
	Operation   string // its id, client and reach
	Fingerprint string
	Status      int
	Location    string
	Body        []byte // of the answer
	// Shown stands for Location and Body where these show an object as it was then and can
	// be made again; else it is empty.
	Shown string
}

// shown is the codec of a record with Shown. Earlier builds refuse it.
const shown = "p"

const plainly, shortly = begin, Format + ";" + shown + ";" // how envelopes of both begin

// At is the record as it is kept at a key, and its envelope.
func (r *Request) At(key string) (text, envelope string) {
	text = r.Operation + "\n" + r.Fingerprint + "\n" + strconv.Itoa(r.Status) + "\n"
	begin := plainly
	if r.Shown == "" {
		text += r.Location + "\n" + string(r.Body)
	} else {
		text += "\n" + packShown(r.Shown)
		begin = shortly
	}
	envelope = begin + enveloped(rowSum(key, text), -1)[len(plainly):] + "/"
	return envelope + text, envelope
}

// packShown packs Shown, of which each line is a text, and the first has several.
func packShown(shown string) string {
	head, rest, _ := strings.Cut(shown, "\n")
	texts := make([]string, 1, 32)
	for word := range strings.SplitSeq(head, " ") {
		texts = append(texts, word)
	}
	texts[0] = strconv.Itoa(len(texts) - 1)
	for line := range strings.SplitSeq(rest, "\n") {
		texts = append(texts, line)
	}
	return string(bodies.PackTexts(make([]byte, 0, 128), texts))
}

func unpackShown(packed string) (string, error) {
	texts, err := bodies.UnpackTexts(packed)
	if err != nil || len(texts) < 3 {
		return "", errShown
	}
	words, err := strconv.Atoi(texts[0])
	if err != nil || words < 1 || words > len(texts)-2 {
		return "", errShown
	}
	return strings.Join(texts[1:1+words], " ") + "\n" + strings.Join(texts[1+words:], "\n"), nil
}

var errShown = errors.New("redis: what an idempotency record shows cannot be read")

// OperationIn is what stands in a record that was read behind its envelope.
func OperationIn(line string) string {
	if _, operation, is := strings.Cut(line, "/"); is {
		return operation
	}
	return line
}

// Reach is the end of Operation, if it has one: what the answer is about.
func (r *Request) Reach() []string {
	if line := strings.SplitN(r.Operation, " ", 3); len(line) == 3 {
		return strings.Split(line[2], ",")
	}
	return nil
}

// ReadRequest reads a record, which CheckRequest has found sound.
func ReadRequest(text string) (r Request, err error) {
	part := strings.SplitN(text, "\n", 5)
	if len(part) != 5 {
		return r, fmt.Errorf("redis: an idempotency record has %d parts", len(part))
	}
	r = Request{Operation: part[0], Fingerprint: part[1], Location: part[3]}
	if strings.HasPrefix(text, shortly) {
		if r.Shown, err = unpackShown(part[4]); err != nil {
			return r, err
		}
	} else {
		r.Body = []byte(part[4])
	}
	if r.Status, err = strconv.Atoi(part[2]); err != nil {
		err = fmt.Errorf("redis: an idempotency record has status %q", part[2])
	}
	return r, err
}

// CheckRequest reports that the record of a request is not what was written at a key.
func CheckRequest(key, text string) error {
	line, _, _ := strings.Cut(text, "\n")
	envelope, _, ok := strings.Cut(line, "/")
	if !ok || strings.Contains(envelope, " ") {
		if strings.Count(text[:min(len(text), len(shortly)+digits)], ";") == 2 {
			return errName
		}
		return nil // of before
	}
	rest := text[len(envelope):]
	if sum, ok := strings.CutPrefix(envelope, shortly); ok {
		envelope = plainly + sum
	}
	found, err := sumIn(envelope)
	if err == nil && found != "" && !is(rowSum(key, rest[1:]), found) {
		return errSum
	}
	return err
}
