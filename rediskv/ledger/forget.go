package ledger

import (
	"context"
	"errors"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/postings"
)

// Placed is a transaction and its place in the lists.
type Placed struct {
	tollgate.Transaction
	Position int64
}

// Forget takes what is not to be found any more out of the posting lists: payees and references
// of transactions that were erased, as they were before. Those of one event are forgotten
// together.
func (s *Store) Forget(ctx context.Context, k rediskv.Space, was []Placed) error {
	of := map[int64]map[postings.Value]postings.Types{}
	for i := range was {
		number := was[i].Position / 16
		if of[number] == nil {
			of[number] = map[postings.Value]postings.Types{}
		}
		for _, v := range valuesOf(&was[i].Transaction) {
			of[number][v] |= typesOf([]tollgate.TransactionType{was[i].Type})
		}
	}
	var gone []postings.Posting
	for number, values := range of {
		for v, types := range values {
			if v.Field != postings.Payee && v.Field != postings.Reference {
				continue
			}
			kept := false // another value that stays is found by the same posting
			for w := range values {
				kept = kept || w.Field != postings.Payee && w.Field != postings.Reference && v.Meets(k, w, number)
			}
			if !kept {
				gone = append(gone, postings.Posting{Number: number, Value: v, Type: types})
			}
		}
	}
	for {
		st, err := s.postings.State(ctx, k)
		if err != nil || st.Foreign() || st.Stale { // what is made again is made of what is there then
			return err
		}
		if _, err = s.postings.Forget(ctx, k, st, gone); !errors.Is(err, rediskv.ErrConflict) || ctx.Err() != nil {
			return err
		}
	}
}

// Unlist has all posting lists of an organization made again.
func (s *Store) Unlist(ctx context.Context, k rediskv.Space) error {
	_, err := rediskv.Retried(func() (bool, error) {
		st, err := s.postings.State(ctx, k)
		if err != nil || st.Foreign() || st.Stale {
			return false, err
		}
		c := s.db.NewCommit(rediskv.Caller{Organization: k.Org}, nil)
		st.Remake(c)
		_, err = c.Run(ctx)
		return true, err
	})
	return err
}
