package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/history"
	"tollgate/rediskv/postings"
)

const (
	// postPage is how many transactions are posted by one script, which others wait for.
	postPage = 250
	// postTurn is how many of an organization are posted before the next one's turn.
	postTurn = 50_000
)

// latest is the last moment that JSON has.
var latest = tollgate.At(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))

// bitsOf are the types that a posting tells apart; all others share the last one.
var bitsOf = []tollgate.TransactionType{
	tollgate.TransactionAuthorization, tollgate.TransactionCapture, tollgate.TransactionFee, tollgate.TransactionRelease, tollgate.TransactionRefund, tollgate.TransactionPayout,
}

func typesOf(list []tollgate.TransactionType) (types postings.Types) {
	for _, t := range list {
		i := slices.Index(bitsOf, t)
		if i < 0 {
			i = len(bitsOf)
		}
		types |= 1 << i
	}
	return types
}

// PostTransactions posts what is new in a partition, so that it is found by its payee,
// reference, currency, type and time, and returns how many transactions that was.
func (s *Store) PostTransactions(ctx context.Context, partition int) (posted int, err error) {
	orgs, err := s.db.OrganizationsIn(ctx, partition)
	if err != nil {
		return 0, err
	}
	var failed error
	for some := range slices.Chunk(orgs, rediskv.ReadTogether) {
		last, states, err := s.posted(ctx, some)
		if err != nil {
			return posted, err
		}
		for i, org := range some {
			if states[i].Foreign() || last[i] == states[i].Upto && !states[i].Stale {
				continue
			}
			n, err := s.postOrganization(ctx, org, states[i], last[i])
			posted += n
			if err != nil && !errors.Is(err, rediskv.ErrConflict) && !errors.Is(err, rediskv.ErrStale) && failed == nil {
				failed = fmt.Errorf("posting the transactions of %s: %w", org, err)
			}
		}
	}
	return posted, failed
}

// posted are the last events of organizations, and how far each is posted.
func (s *Store) posted(ctx context.Context, orgs []string) (last []int64, states []postings.State, err error) {
	numbers, texts := make([]*redis.StringCmd, len(orgs)), make([]*redis.StringCmd, len(orgs))
	err = s.db.Timed(ctx, "posted", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		for i, org := range orgs {
			k := s.db.Space(org)
			numbers[i], texts[i] = pipe.HGet(ctx, k.Sequences(), "event"), pipe.Get(ctx, postings.StateKey(k))
			s.dropComplete(ctx, pipe, k)
		}
		return rediskv.Answered(pipe.Exec(ctx))
	})
	if err != nil {
		s.dropped.Clear() // it is not known which were
	}
	for i, org := range orgs {
		n, _ := strconv.ParseInt(numbers[i].Val(), 10, 64) // a check says that it is none
		last, states = append(last, n), append(states, postings.StateOf(s.db.Space(org), texts[i].Val()))
	}
	return last, states, err
}

// CoolPostings moves postings of events of before a moment to the archive, if there is one
// (postings.Store.Cool).
func (s *Store) CoolPostings(ctx context.Context, partition int, before tollgate.Instant) error {
	orgs, err := s.db.OrganizationsIn(ctx, partition)
	if err != nil || len(orgs) == 0 {
		return err
	}
	now, err := s.db.HistoryFor(ctx, orgs[0])
	if err != nil || !now.Open {
		return err
	}
	var spaces []rediskv.Space
	var states []postings.State
	for some := range slices.Chunk(orgs, rediskv.ReadTogether) {
		_, of, err := s.posted(ctx, some)
		if err != nil {
			return err
		}
		states = append(states, of...)
	}
	for _, org := range orgs {
		spaces = append(spaces, s.db.Space(org))
	}
	return s.postings.Cool(history.Within(ctx, now.ID), partition, spaces, states, before)
}

func (s *Store) postOrganization(ctx context.Context, org string, st postings.State, last int64) (posted int, err error) {
	now, err := s.db.HistoryFor(ctx, org)
	if err != nil || !now.Open {
		return 0, err
	}
	ctx = history.Within(ctx, now.ID)
	k := s.db.Space(org)
	if st.Stale || st.Upto > last {
		if err := s.postings.Clear(ctx, k, st, max(st.Upto, last)); err != nil {
			return 0, err
		}
		st = postings.State{}
	}
	for st.Upto < last && posted < postTurn && ctx.Err() == nil {
		members, _, err := s.scan(ctx, rediskv.Caller{Organization: org}, k, TransactionQuery{PageSize: postPage}, 0, &bounds{low: (st.Upto + 1) * 16, high: last*16 + 15})
		if err != nil {
			return posted, err
		}
		upto := last
		if len(members) == postPage { // the last event may have more
			upto = members[postPage-1].Position/16 - 1
			members = slices.DeleteFunc(members, func(m Indexed) bool { return m.Position/16 > upto })
		}
		events, err := s.toPost(ctx, org, members)
		if err != nil {
			return posted, err
		}
		if st, err = s.postings.Post(ctx, k, st, events, upto); err != nil {
			return posted, err
		}
		posted += len(members)
	}
	return posted, s.settlePayouts(ctx, k, st)
}

// settlePayouts posts the references of payouts that have come to an end since they were
// posted themselves.
func (s *Store) settlePayouts(ctx context.Context, k rediskv.Space, st postings.State) error {
	if !st.Usable() {
		return nil
	}
	c := rediskv.Caller{Organization: k.Org}
	open, err := s.postings.Read(ctx, c, k, []postings.Value{{Field: postings.Open}}, false, st.Cold, st.Upto, math.MaxInt32)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(open[0].Events, mostEvents) {
		settled, err := s.ended(ctx, c, k, some)
		if err == nil && len(settled) > 0 {
			st, err = s.postings.Settle(ctx, k, st, settled)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ended are the payouts of some events that have come to an end.
func (s *Store) ended(ctx context.Context, c rediskv.Caller, k rediskv.Space, events []postings.Event) (settled []postings.Settled, err error) {
	numbers := make([]int64, len(events))
	for i, e := range events {
		numbers[i] = e.Number
	}
	members, err := s.membersOfEvents(ctx, c, k, TransactionQuery{}, numbers)
	if err != nil {
		return nil, err
	}
	found, err := s.ReadTransactions(ctx, c, k, members, nil)
	for i, t := range found {
		if t.ID == "" || t.Stored.Err() != nil || t.Type != tollgate.TransactionPayout || isOpen(t.Transaction) {
			continue
		}
		one := postings.Settled{Number: members[i].Position / 16, Of: typesOf([]tollgate.TransactionType{t.Type})}
		if t.Reference != nil {
			one.Reference = *t.Reference
		}
		settled = append(settled, one)
	}
	return settled, err
}

// isOpen reports whether a transaction is a payout that may still be given a reference.
func isOpen(t *tollgate.Transaction) bool {
	return t.Type == tollgate.TransactionPayout && t.Status != string(tollgate.PayoutStatusPaid) && t.Status != string(tollgate.PayoutStatusFailed)
}

// toPost reads transactions, and what each is to be found by.
func (s *Store) toPost(ctx context.Context, org string, members []Indexed) (events []postings.Transactions, err error) {
	k := s.db.Space(org)
	found, err := s.ReadTransactions(ctx, rediskv.Caller{Organization: org}, k, members, nil)
	for i, t := range found {
		if t.ID == "" {
			continue
		}
		number := members[i].Position / 16
		if len(events) == 0 || events[len(events)-1].Number != number {
			events = append(events, postings.Transactions{Number: number})
		}
		types := typesOf([]tollgate.TransactionType{t.Type})
		e := &events[len(events)-1]
		if t.Stored.Err() != nil {
			e.Add(1, postings.AllTypes, postings.Value{Field: postings.Unreadable})
			e.Add(latest, 0) // made at any time
			continue
		}
		e.Add(t.CreatedAt, types, valuesOf(t.Transaction)...)
	}
	return events, err
}

// Unposted hands over the transactions that a search would not find, why that is so, and
// what has all lists made again. It says nothing of those that are not posted yet.
func (s *Store) Unposted(ctx context.Context, k rediskv.Space, members []Indexed, each func(i int, why string, remake func(*rediskv.Commit))) error {
	st, err := s.postings.State(ctx, k)
	if err != nil || !st.Usable() {
		return err
	}
	found, err := s.ReadTransactions(ctx, rediskv.Caller{Organization: k.Org}, k, members, nil)
	if err != nil {
		return err
	}
	var wanted []postings.Posting
	var of []int // -1: where it may be instead of the one before
	for i, t := range found {
		number := members[i].Position / 16
		if t.ID == "" || t.Stored.Err() != nil || number > st.Upto {
			continue
		}
		want := func(v postings.Value, i int) {
			wanted = append(wanted, postings.Posting{Number: number, Value: v, Type: typesOf([]tollgate.TransactionType{t.Type}), At: t.CreatedAt})
			of = append(of, i)
		}
		for _, v := range valuesOf(t.Transaction) {
			want(v, i)
		}
		if t.Type == tollgate.TransactionPayout && t.Reference != nil { // it may not be settled yet
			want(postings.Value{Field: postings.Open}, -1)
		}
	}
	has, err := s.postings.Has(ctx, k, st, wanted)
	for i, there := range has {
		instead := i+1 < len(of) && of[i+1] < 0 && has[i+1]
		if !there && !instead && of[i] >= 0 {
			each(of[i], fmt.Sprintf("a search for %s %q does not find it", wanted[i].Field, wanted[i].Text), st.Remake)
		}
	}
	return err
}

// valuesOf are what a transaction is found by.
func valuesOf(t *tollgate.Transaction) []postings.Value {
	values := []postings.Value{{Field: postings.Currency, Text: string(t.Currency)}, {Field: postings.Type, Text: string(t.Type)}}
	if t.Payee != nil {
		values = append(values, postings.Value{Field: postings.Payee, Text: tollgate.PayeeText(*t.Payee)})
	}
	if t.Reference != nil {
		values = append(values, postings.Value{Field: postings.Reference, Text: *t.Reference})
	}
	if isOpen(t) {
		values = append(values, postings.Value{Field: postings.Open})
	}
	return values
}
