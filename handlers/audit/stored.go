package audit

import (
	"context"
	"encoding/base64"
	"errors"

	"tollgate/handlers/tlog"
	"tollgate/rediskv/audittree"
	"tollgate/rediskv/store"
)

// errChanged: an entry is not what was sealed.
var errChanged = errors.New("it is no leaf of the tree that was sealed: 'tollgate audit verify' says more")

// Stored is a tree as Redis has it.
func Stored(ctx context.Context, s *store.Store, org string, t *audittree.Tree) *tlog.Tree {
	return tlog.New(t.Size, func(tile tlog.Tile) ([]tlog.Hash, error) {
		hashes, err := s.AuditTile(ctx, org, t.HistoryID, tile.Level, tile.Index)
		return tlog.Split(hashes), err
	})
}

func base64Of(hashes []tlog.Hash) []string {
	list := make([]string, len(hashes))
	for i := range hashes {
		list[i] = base64.StdEncoding.EncodeToString(hashes[i][:])
	}
	return list
}
