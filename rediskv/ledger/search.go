package ledger

import (
	"context"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/postings"
)

// source hands out the members that a search looks at next, in its order. end says that
// there are no more of them.
type source interface {
	next(ctx context.Context) (members []Indexed, end bool, err error)
	// told is how many of the members that it has handed out last were looked for.
	told(matches int)
	// bounded says that a search may stop after rediskv.ScanLimit members and have found
	// nothing: nobody knows how many are left.
	bounded() bool
}

// Search is Transactions with another hash beside each, read at the same moment:
// that of the object whose id beside makes of the transaction's (nil: none).
func (s *Store) Search(ctx context.Context, c rediskv.Caller, q TransactionQuery, beside func(id string) string) (rows []FoundTransaction, next int64, more bool, err error) {
	k := s.db.Space(c.Organization)
	first := &scanned{s, c, k, q, q.After, bounds{after: q.CreatedAfter, before: q.CreatedBefore, high: Highest}}
	first.q.PageSize = q.Limit + 1 // enough when all of them match
	sources := []source{first}
	next = q.After
	for looked := 0; len(sources) > 0; {
		members, end, err := sources[0].next(ctx)
		if err != nil {
			return nil, 0, false, err
		}
		behind := first != nil && len(members) > q.Limit && q.indexed()
		if behind { // the page: nobody has to read that now
			members, end = members[:q.Limit], false
			first.at = members[q.Limit-1].Position
		}
		found, err := s.ReadTransactions(ctx, c, k, members, beside)
		if err != nil {
			return nil, 0, false, err
		}
		if q.PaymentID != "" {
			found = q.placed(found)
		}
		before := len(rows)
		for _, t := range found {
			if t.ID != "" && q.Match(t) {
				if len(rows) == q.Limit {
					return rows, next, true, nil
				}
				_ = s.db.Noticed(ctx, k, t.Stored.Err())
				rows = append(rows, t)
			}
			next = t.Position
		}
		sources[0].told(len(rows) - before)
		looked += len(members)
		switch {
		case end:
			sources = sources[1:]
		case behind && len(rows) == q.Limit:
			return rows, next, true, nil
		case first != nil:
			if sources, err = s.behind(ctx, first); err != nil {
				return nil, 0, false, err
			}
			first = nil
		case looked >= rediskv.ScanLimit && (len(rows) > 0 || sources[0].bounded()):
			return rows, next, true, nil
		}
	}
	return rows, next, false, nil
}

// indexed says that all that is in the query's indexes is what it looks for.
func (q *TransactionQuery) indexed() bool {
	return len(q.values()) == 0 && q.PaymentID+q.PayoutID == "" && q.CreatedAfter|q.CreatedBefore == 0 &&
		(len(q.Types) == 0 || q.authorizations()) && (len(q.Statuses) == 0 || len(q.Accounts) == 0) && len(q.Accounts) <= rediskv.MostIndexes
}

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

// values are what a query looks for that has postings.
func (q *TransactionQuery) values() (values []postings.Value) {
	if q.Payee != "" {
		values = append(values, postings.Value{Field: postings.Payee, Text: tollgate.PayeeText(q.Payee)})
	}
	if q.Reference != "" {
		values = append(values, postings.Value{Field: postings.Reference, Text: q.Reference})
	}
	if q.Currency != "" {
		values = append(values, postings.Value{Field: postings.Currency, Text: q.Currency})
	}
	if len(q.Types) != 1 {
		return values
	}
	switch t := q.Types[0]; t {
	case tollgate.TransactionAuthorization, tollgate.TransactionCapture, tollgate.TransactionFee:
		// Where another value is looked for, its postings say the types: these are of nearly
		// every payment. Alone, the indexes of payments' statuses hold nothing else.
		if len(values) > 0 || t == tollgate.TransactionAuthorization && len(q.Statuses) > 0 {
			return values
		}
	}
	return append(values, postings.Value{Field: postings.Type, Text: string(q.Types[0])})
}

// scanned looks through indexes.
type scanned struct {
	s  *Store
	c  rediskv.Caller
	k  rediskv.Space
	q  TransactionQuery
	at int64 // the position of the last one
	b  bounds
}

func (f *scanned) next(ctx context.Context) (members []Indexed, end bool, err error) {
	err = f.c.InTurn(ctx, func() (err error) {
		members, end, err = f.s.scan(ctx, f.c, f.k, f.q, f.at, &f.b)
		return err
	})
	if len(members) > 0 {
		f.at = members[len(members)-1].Position
	}
	f.q.PageSize = min(2*f.q.PageSize, rediskv.ScanPage)
	return members, end, err
}

func (*scanned) told(int) {}

func (*scanned) bounded() bool { return true }
