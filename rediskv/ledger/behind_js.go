package ledger

import "context"

// behind is where a search looks behind its first page. The edge's program has no room for
// what reads posting lists (it may have 29 MB): it looks through the indexes, as every
// instance does for what is not posted.
func (*Store) behind(_ context.Context, first *scanned) ([]source, error) {
	return []source{first}, nil
}
