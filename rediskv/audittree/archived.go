package audittree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
	"tollgate/rediskv/streams"
)

// hashed are the hashes of leaves by the entries beside them (RFC 6962 §2.1).
func hashed(entries []Entry) (all []byte) {
	for _, m := range entries {
		h := sha256.Sum256(append([]byte{0}, Text(m)...))
		all = append(all, h[:]...)
	}
	return all
}

// folded is the hash of a full tile.
func folded(hashes []byte) []byte {
	for len(hashes) > hashSize {
		next := make([]byte, 0, len(hashes)/2)
		for pair := range slices.Chunk(hashes, 2*hashSize) {
			h := sha256.Sum256(append([]byte{1}, pair...))
			next = append(next, h[:]...)
		}
		hashes = next
	}
	return hashes
}

// madeAgain makes a tile of its entries, which are in packs, and compares its hash with that
// in the tile above.
func (s *Store) madeAgain(ctx context.Context, k rediskv.Space, history string, index int64, stored tile) ([]byte, error) {
	entries, err := s.logs.Trimmed(ctx, k, eventlog.LogAudit, streams.Previous(stored.First), stored.Last, tileWidth)
	if err != nil {
		return nil, err
	}
	_, _, above, err := s.tile(ctx, k, history, 1, index/tileWidth)
	if err != nil {
		return nil, err
	}
	all, at := hashed(entries), int(index%tileWidth)*hashSize
	if len(entries) != tileWidth || len(above) < at+hashSize || !bytes.Equal(folded(all), above[at:at+hashSize]) {
		return nil, s.damaged(ctx, k, 0, index, fmt.Errorf("the %d entries that packs have from %s to %s are not those that were sealed", len(entries), stored.First, stored.Last))
	}
	return all, nil
}

type (
	forgetTileKeys struct{ Tile string }
	forgetTileArgs struct{ Before, After string }
)

var scriptForgetTile = script.New[forgetTileKeys, forgetTileArgs](lua, "forget_tile")

// ForgetLeaves removes the hashes of leaves whose entries packs have, in whole tiles, within
// the history of ctx (history.Within): they are made again of these. Where they do not come
// out the same, both stay, and the error is damage.
func (s *Store) ForgetLeaves(ctx context.Context, org string) (tiles int, err error) {
	if !s.logs.Archives() {
		return 0, nil
	}
	k := s.db.Space(org)
	in, err := s.logs.Packed(ctx, k, eventlog.LogAudit)
	if err != nil || in == nil {
		return 0, err
	}
	trees, err := s.AuditTrees(ctx, org)
	for i := range trees.List {
		if t := &trees.List[i]; err == nil && streams.Less(t.After, in.Last) && !streams.Less(t.Until, in.First) {
			var n int
			n, err = s.forgetLeaves(ctx, k, t, in)
			tiles += n
		}
	}
	return tiles, err
}

func (s *Store) forgetLeaves(ctx context.Context, k rediskv.Space, t *Tree, in *eventlog.Packed) (tiles int, err error) {
	after := t.After
	if streams.Less(after, in.First) {
		after = streams.Previous(in.First)
	}
	first, err := s.logs.Trimmed(ctx, k, eventlog.LogAudit, after, t.Until, 1)
	if err != nil || len(first) == 0 {
		return 0, err
	}
	leaf := t.Likely(eventlog.NumberOf(first[0])) // the first that packs have
	low, high := (leaf+tileWidth-1)/tileWidth, t.Size/tileWidth
	next, err := s.firstWhole(ctx, k, t, low, high)
	switch {
	case err != nil:
		return 0, err
	case next > low:
		_, before, _, err := s.tile(ctx, k, t.HistoryID, 0, next-1)
		if err != nil {
			return 0, err
		}
		after = before.Last
	case low*tileWidth > leaf:
		some, err := s.logs.Trimmed(ctx, k, eventlog.LogAudit, after, t.Until, int(low*tileWidth-leaf))
		if err != nil || len(some) == 0 {
			return 0, err
		}
		after = some[len(some)-1].ID
	}
	for ; next < high; next++ {
		if after, err = s.forget(ctx, k, t, next, after); err != nil || after == "" {
			return tiles, err
		}
		tiles++
	}
	return tiles, nil
}

// forget removes the hashes of a tile: they are of the entries behind a place. last is the place
// of the last of these; empty: packs do not have all of them yet.
func (s *Store) forget(ctx context.Context, k rediskv.Space, t *Tree, index int64, after string) (last string, err error) {
	entries, err := s.logs.Trimmed(ctx, k, eventlog.LogAudit, after, t.Until, tileWidth)
	if err != nil || len(entries) < tileWidth {
		return "", err
	}
	text, _, hashes, err := s.tile(ctx, k, t.HistoryID, 0, index)
	if err != nil {
		return "", err
	}
	if !bytes.Equal(hashed(entries), hashes) {
		return "", s.damaged(ctx, k, 0, index, fmt.Errorf("the entries that packs have from %s on are not those that were sealed", entries[0].ID))
	}
	last = entries[len(entries)-1].ID
	key := k.AuditTile(t.HistoryID, 0, index)
	next, err := record.Enveloped(key, tile{First: entries[0].ID, Last: last})
	if err != nil {
		return "", err
	}
	_, _, err = s.db.Run(ctx, scriptForgetTile.With(forgetTileKeys{key}, forgetTileArgs{text, string(next)}))
	return last, err
}

// probes is how many tiles are looked at in one round trip.
const probes = 31

// firstWhole is the first full tile from low on that has its hashes: those before have none.
func (s *Store) firstWhole(ctx context.Context, k rediskv.Space, t *Tree, low, high int64) (int64, error) {
	const whole = tileWidth * hashSize // bytes at least; without hashes it has a few hundred
	for low < high {
		step := (high - low + probes - 1) / probes
		var lengths []*redis.IntCmd
		if err := s.db.Timed(ctx, "audit_tiles", func(ctx context.Context) error {
			pipe := s.db.Redis.Pipeline()
			for i := low; i < high; i += step {
				lengths = append(lengths, pipe.StrLen(ctx, k.AuditTile(t.HistoryID, 0, i)))
			}
			return rediskv.Answered(pipe.Exec(ctx))
		}); err != nil {
			return 0, err
		}
		from, to := low, high
		for i, n := range lengths {
			if at := from + int64(i)*step; n.Val() >= whole {
				to = at
				break
			} else if at+1 > low {
				low = at + 1
			}
		}
		high = to
	}
	return low, nil
}
