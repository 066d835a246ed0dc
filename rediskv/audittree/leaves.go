package audittree

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/streams"
)

const (
	// tileWidth is how many leaves a tile has at level 0, and hashSize how many bytes
	// the hash of one (package tlog).
	tileWidth = 256
	hashSize  = 32
)

// Leaf is a row of the tree as it is listed: the hash of a leaf, and the entry that is at
// the same place in the log. Whoever compares the two finds what was changed.
type Leaf struct {
	Object string  `json:"object"` // "audit_leaf"
	Index  int64   `json:"index"`  // 0, 1, 2 …
	Hash   *string `json:"hash"`   // base64; null: not sealed yet
	Entry  *string `json:"entry"`  // the exact text; null: no longer kept
}

// AuditLeaves returns one page of the tree of a history, of "" the current one, from
// leaf 0 on, and the place to go on from; it is empty at the end. Behind the leaves of
// the current tree are the entries that are not sealed yet.
func (s *Store) AuditLeaves(ctx context.Context, c rediskv.Caller, history, after string, limit int) (rows []Leaf, next string, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	trees, err := s.AuditTrees(ctx, c.Organization)
	if err != nil {
		return nil, "", err
	}
	t, last := trees.Of(history), "+"
	switch {
	case t == nil && history != "":
		return nil, "", nil
	case t == nil:
		t = &Tree{After: Beginning}
	case t != trees.Last():
		last = t.Until
	}
	at := walk{tree: t}
	at.begin(after)
	for len(rows) < limit {
		n := limit - len(rows)
		hashes, err := s.hashes(ctx, c, t, at.index, n)
		if err != nil {
			return nil, "", err
		}
		entries, err := s.entries(ctx, c, k, &at, last, n)
		if err != nil {
			return nil, "", err
		}
		page := at.pair(hashes, entries, n)
		rows = append(rows, page...)
		if len(page) == 0 || (at.index >= t.Size && len(entries) == 0) {
			return rows, "", nil
		}
	}
	more := at.index < t.Size
	if !more {
		rest, err := s.entries(ctx, c, k, &at, last, 1)
		if more = len(rest) > 0; err != nil {
			return nil, "", err
		}
	}
	if !more {
		return rows, "", nil
	}
	return rows, at.String(), nil
}

// walk is how far a listing of leaves has come: the next leaf, and the last entry.
type walk struct {
	tree  *Tree
	index int64
	place string
}

func (w *walk) String() string { return strconv.FormatInt(w.index, 10) + "/" + w.place }

func (w *walk) begin(after string) {
	index, place, ok := strings.Cut(after, "/")
	if !ok {
		w.place = w.tree.After
		return
	}
	w.index, _ = strconv.ParseInt(index, 10, 64) // a cursor is as we wrote it
	w.place = place
}

// unkept is how many of the next leaves have no entry in the log: the seam, and what the
// retention has removed.
func (w *walk) unkept() int64 {
	none := w.tree.KeptFrom
	if w.tree.Seam != "" {
		none = max(none, 1)
	}
	return max(none-w.index, 0)
}

// pair makes up to so many rows of the next hashes and entries.
func (w *walk) pair(hashes []string, entries []redis.XMessage, limit int) (rows []Leaf) {
	for len(rows) < limit && (len(hashes) > 0 || len(entries) > 0) {
		row := Leaf{Object: "audit_leaf", Index: w.index}
		if len(hashes) > 0 {
			row.Hash, hashes = &hashes[0], hashes[1:]
		} else if w.index < w.tree.Size {
			break // the rest of the tile is read next
		}
		switch {
		case w.index == 0 && w.tree.Seam != "":
			row.Entry = &w.tree.Seam
		case w.unkept() == 0 && len(entries) > 0:
			text := rediskv.Text(entries[0], "b")
			row.Entry, w.place, entries = &text, entries[0].ID, entries[1:]
		case w.unkept() == 0 && w.index >= w.tree.Size:
			return rows
		}
		rows = append(rows, row)
		w.index++
	}
	return rows
}

// hashes are those of the next leaves, at most of one tile.
func (s *Store) hashes(ctx context.Context, c rediskv.Caller, t *Tree, from int64, limit int) (list []string, err error) {
	n := min(int64(limit), t.Size-from, tileWidth-from%tileWidth)
	if n <= 0 {
		return nil, nil
	}
	var stored []byte
	if err := c.InTurn(ctx, func() (err error) {
		stored, err = s.AuditTile(ctx, c.Organization, t.HistoryID, 0, from/tileWidth)
		return err
	}); err != nil {
		return nil, err
	}
	within := from % tileWidth
	if int64(len(stored)) < (within+n)*hashSize {
		return nil, tollgate.Damage("audit_tree", c.Organization, fmt.Errorf("tile %d has %d bytes", from/tileWidth, len(stored)))
	}
	for i := within; i < within+n; i++ {
		list = append(list, base64.StdEncoding.EncodeToString(stored[i*hashSize:(i+1)*hashSize]))
	}
	return list, nil
}

// entries are those of the log that stand beside the next leaves.
func (s *Store) entries(ctx context.Context, c rediskv.Caller, k rediskv.Space, w *walk, last string, limit int) (found []redis.XMessage, err error) {
	n := int64(limit) - w.unkept()
	if n <= 0 {
		return nil, nil
	}
	err = c.InTurn(ctx, func() (err error) {
		found, err = streams.Range(ctx, s.db, k.Audit(), "("+w.place, last, int(n))
		return err
	})
	if err != nil || len(found) > 0 && w.tree.Likely(eventlog.NumberOf(found[0])) == w.index+w.unkept() {
		return found, err
	}
	// What was trimmed is in packs.
	packed, err := s.logs.Trimmed(ctx, k, eventlog.LogAudit, w.place, last, int(n))
	if len(packed) > 0 {
		end := packed[len(packed)-1].ID
		found = append(packed, slices.DeleteFunc(found, func(m redis.XMessage) bool { return !streams.Less(end, m.ID) })...)
	}
	return found[:min(len(found), int(n))], err
}
