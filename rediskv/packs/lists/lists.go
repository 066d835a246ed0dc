// Package lists is the only one that knows how a pack has lists of transactions: what was
// in sorted sets of Redis. A row is a piece of one list, of entries in the order of their
// places:
//
//	{"id":"org_…/txns/0000000000001234","places":[1200,16,18],"members":["…","…","…"]}
//
// The identifier is that of the organization, the list's key behind the organization's, and
// the place of the piece's last entry, so that the piece with a place, or the one after it,
// is the first row that is not before. places are the first one, and then how far each is
// from the one before.
package lists

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"tollgate/rediskv/packs"
)

// Kind is that of a pack of lists.
const Kind = "lists"

// piece is how many entries a row has at most: some 4 KB.
const piece = 128

// Entry is one of a list.
type Entry struct {
	Position int64
	Member   string
}

// row is a piece of a list.
type row struct {
	ID      string   `json:"id"`
	Places  []int64  `json:"places"`
	Members []string `json:"members"`
}

// ID is the identifier of a piece that ends at a place.
func ID(organization, list string, place int64) string {
	return fmt.Sprintf("%s%016d", Prefix(organization, list), max(place, 0))
}

// Prefix is how the identifiers of a list's pieces begin.
func Prefix(organization, list string) string { return organization + "/" + list + "/" }

// Add adds a list to a pack, in the order of its entries' places. Lists are added in the
// order of their prefixes.
func Add(to *packs.Writer, organization, list string, entries []Entry) error {
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Position, b.Position), strings.Compare(a.Member, b.Member))
	})
	for len(entries) > 0 {
		n := min(piece, len(entries))
		for n < len(entries) && entries[n].Position == entries[n-1].Position { // which only damage has
			n++
		}
		r := row{ID: ID(organization, list, entries[n-1].Position)}
		before := int64(0)
		for _, e := range entries[:n] {
			r.Places, r.Members = append(r.Places, e.Position-before), append(r.Members, e.Member)
			before = e.Position
		}
		entries = entries[n:]
		text, err := json.Marshal(&r)
		if err != nil {
			return err
		}
		if err := to.Add(r.ID, text); err != nil {
			return err
		}
	}
	return nil
}

// Read reads a piece.
func Read(text []byte) (entries []Entry, err error) {
	var r row
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("piece of a list: %w", err)
	}
	if len(r.Places) != len(r.Members) || len(r.Places) == 0 {
		return nil, fmt.Errorf("piece %s of a list has %d places and %d members", r.ID, len(r.Places), len(r.Members))
	}
	at := int64(0)
	for i, place := range r.Places {
		at += place
		entries = append(entries, Entry{at, r.Members[i]})
	}
	return entries, nil
}
