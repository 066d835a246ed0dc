//go:build !js

package ledger

import (
	"context"

	"tollgate/rediskv/postings"
)

// behind is where a search looks behind its first page, which it has looked through: for
// what is posted there are lists, and the rest, which is not much while a worker runs, is
// looked through as well. Where the log of events says where times are, these are none of
// what lists are needed for.
func (s *Store) behind(ctx context.Context, first *scanned) ([]source, error) {
	q, b, values := first.q, first.b, first.q.values()
	if q.PaymentID != "" || len(values) == 0 && !b.open {
		return []source{first}, nil
	}
	var err error
	if b.posted == nil {
		var st postings.State
		st, err = s.postings.State(ctx, first.k)
		b.posted = &st
	}
	st := b.posted
	if err != nil || !st.Usable() {
		return []source{first}, err
	}
	from, to, err := s.postings.Between(ctx, first.k, *st, q.CreatedAfter, q.CreatedBefore)
	if err != nil {
		return nil, err
	}
	from, to = max(from, b.low/16), min(to, b.high/16)
	q.After = first.at
	var known source
	if len(values) == 0 {
		known = &scanned{s, first.c, first.k, q, q.After, bounds{low: from * 16, high: to*16 + 15}}
	} else {
		known = newListed(s, first.c, first.k, q, values, st.Upto, from, to)
	}
	rest := *first
	rest.b.low = max(b.low, (st.Upto+1)*16)
	sources := []source{known, &rest}
	if q.Descending {
		sources = []source{&rest, known}
	}
	past := q.After/16 > st.Upto
	if q.Descending != past {
		sources = sources[1:]
	}
	return sources, nil
}
