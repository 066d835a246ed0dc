package record

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tollgate"
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

// shown is the codec of a record with Shown, and dense that of one whose identifiers and
// fingerprint are in binary. Earlier builds refuse both. Two bits are between the letters:
// the checksum does not cover them.
const shown, dense = "p", "d"

const plainly, shortly, densely = begin, Format + ";" + shown + ";", Format + ";" + dense + ";" // how envelopes begin

// denseRoom is where the envelope of a dense record goes.
const denseRoom = densely + "00000000/"

// In a dense record the id of the operation, that of its client and the beginning of the
// fingerprint have as many bytes each. The status and what is shown stand behind them.
const (
	raw      = 16
	rawFront = 3*raw + len("201")
)

// At is the record as it is kept at a key, and its envelope.
func (r *Request) At(key string, form Form) (text, envelope string) {
	if form >= Dense && r.Shown != "" {
		if text, ok := r.dense(key); ok {
			return text, text[:len(denseRoom)]
		}
	}
	text = r.Operation + "\n" + r.Fingerprint + "\n" + strconv.Itoa(r.Status) + "\n"
	begin := plainly
	if r.Shown == "" {
		text += r.Location + "\n" + string(r.Body)
	} else {
		text += "\n" + string(packShown(make([]byte, 0, 128), r.Shown, Plain))
		begin = shortly
	}
	envelope = begin + enveloped(rowSum(key, text), -1)[len(plainly):] + "/"
	return envelope + text, envelope
}

// dense is the record in few bytes; false where one of its members has another form than
// they have for requests that show something.
func (r *Request) dense(key string) (string, bool) {
	id, client, _ := strings.Cut(r.Operation, " ")
	named, is := strings.CutPrefix(client, tollgate.PrefixClient)
	text := bodies.AppendIdentifier(bodies.AppendIdentifier(append(make([]byte, 0, 192), denseRoom...), id), named)
	if !is || len(text) != len(denseRoom)+2*raw || len(r.Fingerprint) != hex.EncodedLen(sha256.Size) || r.Status < 200 || r.Status > 599 {
		return "", false
	}
	text, err := hex.AppendDecode(text, []byte(r.Fingerprint[:hex.EncodedLen(raw)]))
	if err != nil {
		return "", false
	}
	text = packShown(strconv.AppendInt(text, int64(r.Status), 10), r.Shown, Dense)
	b := hexOf(sum(key, func(s *summer) { s.bytes(text[len(denseRoom):]) }))
	copy(text[len(densely):], b[:])
	return string(text), true
}

// readDense reads what dense has made, behind its envelope.
func readDense(text string) (r Request, err error) {
	if len(text) < rawFront {
		return r, errShown
	}
	r.Operation = bodies.IdentifierOf(text[:raw]) + " " + tollgate.PrefixClient + bodies.IdentifierOf(text[raw:2*raw])
	r.Fingerprint = hex.EncodeToString([]byte(text[2*raw : 3*raw]))
	if r.Status, err = strconv.Atoi(text[3*raw : rawFront]); err != nil {
		return r, errShown
	}
	r.Shown, err = unpackShown(text[rawFront:])
	return r, err
}

// packShown packs Shown, of which each line is a text, and the first has several.
func packShown(b []byte, shown string, form Form) []byte {
	head, rest, _ := strings.Cut(shown, "\n")
	texts := make([]string, 1, 32)
	texts = appendSplit(texts, head, " ")
	texts[0] = strconv.Itoa(len(texts) - 1)
	texts = appendSplit(texts, rest, "\n")
	return packTexts(b, texts, form, "")
}

func appendSplit(texts []string, s, by string) []string {
	for more := true; more; {
		var one string
		one, s, more = strings.Cut(s, by)
		texts = append(texts, one)
	}
	return texts
}

func unpackShown(packed string) (string, error) {
	texts, err := bodies.UnpackTexts(packed, "")
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
	if strings.HasPrefix(text, densely) {
		envelope, rest, _ := strings.Cut(text, "/")
		r, err = readDense(rest)
		r.Operation = envelope + "/" + r.Operation
		return r, err
	}
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
	line := text
	if !strings.HasPrefix(text, densely) {
		line, _, _ = strings.Cut(text, "\n")
	}
	envelope, _, ok := strings.Cut(line, "/")
	if !ok || strings.Contains(envelope, " ") {
		if strings.Count(text[:min(len(text), len(shortly)+digits)], ";") == 2 {
			return errName
		}
		return nil // of before
	}
	rest := text[len(envelope):]
	for _, begin := range []string{shortly, densely} {
		if sum, ok := strings.CutPrefix(envelope, begin); ok {
			envelope = plainly + sum
		}
	}
	found, err := sumIn(envelope)
	if err == nil && found != "" && !is(rowSum(key, rest[1:]), found) {
		return errSum
	}
	return err
}
