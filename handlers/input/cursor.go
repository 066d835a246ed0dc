package input

import (
	"encoding/base64"
	"maps"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers/secret"
)

// Cursors makes cursors that only this service can read or make: a client
// learns nothing of positions and can change nothing (interface §4).
type Cursors struct{ Vault *secret.Vault }

// cursor is where a listing goes on: filters, direction and position. P is the
// position of that kind of listing.
type cursor[P any] struct {
	Filters  Values `json:"f,omitempty"`
	Order    string `json:"o"`
	History  string `json:"h,omitempty"` // of the organization's log; empty in those of earlier releases
	Position P      `json:"p"`
}

var cursorText = base64.RawURLEncoding.Strict()

// listing is what a cursor is bound to.
type listing struct{ path, organization string }

// sealCursor prints a cursor. It is bound to the listing and the organization.
func sealCursor[P any](s *Cursors, of listing, c cursor[P]) (string, error) {
	text, err := json.Marshal(c, json.Deterministic(true))
	if err != nil {
		return "", err
	}
	return cursorText.EncodeToString(s.Vault.SealCursor(text, of.bound())), nil
}

// openCursor reads what sealCursor printed for the same listing and
// organization; anything else is CodeCursorInvalid.
func openCursor[P any](s *Cursors, of listing, text string) (c cursor[P], err error) {
	sealed, err := cursorText.DecodeString(text)
	if err != nil || cursorText.EncodeToString(sealed) != text { // the decoder skips line breaks
		return c, cursorInvalid(err)
	}
	plain, err := s.Vault.OpenCursor(sealed, of.bound())
	if err != nil {
		return c, cursorInvalid(err)
	}
	if err := json.Unmarshal(plain, &c); err != nil {
		return c, cursorInvalid(err)
	}
	return c, nil
}

func (l listing) bound() []byte { return []byte("cursor/1\n" + l.path + "\n" + l.organization) }

func cursorInvalid(cause error) *tollgate.Error {
	return &tollgate.Error{
		Code: tollgate.CodeCursorInvalid, Param: "cursor", Cause: cause,
		Message: "The cursor is not one that this listing gave out.",
	}
}

// Page is where a request's listing begins: what it said, or what its cursor
// carries.
type Page[P any] struct {
	cursor[P]
	Limit   int
	seal    *Cursors
	listing listing
}

// ReadPage reads limit, cursor and order, and, with read, the filters; a
// cursor brings its own filters and order, and others sent along must be the
// same. read, nil for no filters, runs again on the cursor's filters, so that it sees one kind of
// request.
func ReadPage[P any](seal *Cursors, path, organization string, query Values, order string, read func(*Query)) (Page[P], error) {
	q := &Query{Values: maps.Clone(query)}
	p := Page[P]{Limit: q.limit(), seal: seal, listing: listing{path, organization}}
	p.Order = q.Choice("order", order, "asc", "desc")
	if read == nil {
		read = func(*Query) {}
	}
	read(q)
	if err := q.Err(); err != nil {
		return p, err
	}
	sent := maps.Clone(q.Values)
	for _, name := range []string{"limit", "cursor", "order", "after", "wait"} {
		delete(sent, name)
	}
	p.Filters = sent
	text, ok := query["cursor"]
	if !ok {
		return p, nil
	}
	var err error
	if p.cursor, err = openCursor[P](seal, p.listing, text); err != nil {
		return p, err
	}
	carried := &Query{Values: maps.Clone(p.Filters)}
	if carried.Values == nil {
		carried.Values = make(Values)
	}
	read(carried)
	if err := carried.Err(); err != nil {
		return p, cursorInvalid(err)
	}
	p.Filters = carried.Values // in the spelling of now
	for name, value := range sent {
		if p.Filters[name] != value {
			return p, cursorMismatch(name)
		}
	}
	if sent, ok := query["order"]; ok && sent != p.Order {
		return p, cursorMismatch("order")
	}
	return p, nil
}

func cursorMismatch(name string) *tollgate.Error {
	return &tollgate.Error{
		Code: tollgate.CodeCursorMismatch, Param: name,
		Message: "The cursor was made with other filters; send it alone, or start again without it.",
	}
}

// Next is the cursor behind position.
func (p Page[P]) Next(position P) (string, error) {
	p.Position = position
	return sealCursor(p.seal, p.listing, p.cursor)
}
