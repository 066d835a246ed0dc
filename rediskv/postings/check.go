package postings

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

// Posting is what should be in a list: an event, one of its values, and the type of a
// transaction that has it, made at a moment.
type Posting struct {
	Number int64
	Value
	Type Types // one
	At   tollgate.Instant
}

type (
	findPostingsKeys struct{ Postings string }
	findPostingsArgs struct{ State string }
)

var scriptFindPostings = script.NewRead[findPostingsKeys, findPostingsArgs](lua, "find_postings")

// Has says of each of some postings whether a search finds it. Where the lists have
// changed since the State was read, nothing is said: there is no answer.
func (s *Store) Has(ctx context.Context, k rediskv.Space, st State, wanted []Posting) (has []bool, err error) {
	inv := scriptFindPostings.With(findPostingsKeys{StateKey(k)}, findPostingsArgs{st.text})
	for _, p := range wanted {
		inv.Keys = append(inv.Keys, p.list(k, classOf(p.Number)))
		inv.Args = append(inv.Args, p.Number, string(binary.BigEndian.AppendUint16(nil, p.tag())), int(p.Type))
	}
	_, rest, err := s.db.Run(ctx, inv)
	if errors.Is(err, rediskv.ErrConflict) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i, p := range wanted {
		at := p.Number / spanEvents
		first, last := tollgate.Instant(st.First), tollgate.Instant(st.Last)
		if at < st.Upto/spanEvents {
			if first, last, err = s.span(ctx, k, at); err != nil {
				return nil, err
			}
		}
		has = append(has, rest[i] == int64(1) && first <= p.At && p.At <= last)
	}
	return has, nil
}

// span is between which moments the transactions of one complete span were made.
func (s *Store) span(ctx context.Context, k rediskv.Space, at int64) (first, last tollgate.Instant, err error) {
	err = s.db.Timed(ctx, "posting_times", func(ctx context.Context) error {
		text, err := s.db.Redis.GetRange(ctx, timesKey(k), at*spanSize, at*spanSize+spanSize-1).Bytes()
		if err == nil && len(text) == spanSize {
			first, last = spanIn(text)
		}
		return err
	})
	return first, last, err
}

// Remake has all lists made again, if the State still is as it was read.
func (st *State) Remake(c *rediskv.Commit) {
	key := StateKey(c.Space)
	c.Still(st.text, "GET", key)
	c.Do("SET", key, record.EnvelopedJSON(key, fmt.Sprintf(`{"form":%d,"stale":true}`, form)))
}
