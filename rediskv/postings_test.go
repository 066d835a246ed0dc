package rediskv_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/postings"
	"tollgate/rediskv/record"
	"tollgate/rediskv/testkit"
)

// market makes payments such as a marketplace has: payees and references that are
// frequent, rare and unique, in all states, over some days.
type market struct {
	*fixture
	random *rand.Rand
	made   int
}

func newMarket(t *testing.T) *market {
	return &market{newFixture(t), rand.New(rand.NewPCG(1, 2)), 0}
}

var (
	marketPayees     = []string{"shop.example", "books.example", "tea.example", "rare.example", "nobody.example"}
	marketCurrencies = []string{"EUR", "JPY", "BHD", "CLF"}
	marketReferences = []string{"usual", "seldom", "never"}
)

// often picks one of a list, the first ones far more often than the last, and never the
// very last.
func often[T any](r *rand.Rand, list []T) T {
	return list[min(int(r.ExpFloat64()*0.8), len(list)-2)]
}

func (m *market) pay(t *testing.T) {
	t.Helper()
	m.made++
	account, err := m.Account(t.Context(), m.Caller.Organization, m.Config.MerchantAccounts[m.made%7/6].ID)
	must(t, err)
	currency := tollgate.Currency(often(m.random, marketCurrencies))
	if m.made%7 == 6 && currency == "EUR" {
		currency = "USD"
	}
	method := tollgate.CaptureManual
	if m.random.IntN(3) == 0 {
		method = tollgate.CaptureAutomatic
	}
	payee := often(m.random, marketPayees)
	if m.random.IntN(5) == 0 {
		payee = fmt.Sprintf("p%d.example", m.made)
	}
	ch, ans := m.Draft(t, account, tollgate.Money{Minor: 10_000, Currency: currency}, payee, method)
	reference := often(m.random, marketReferences)
	if m.random.IntN(2) == 0 {
		reference = fmt.Sprintf("order %d", m.made)
	}
	for i := range ch.Transactions {
		ch.Transactions[i].Reference = &reference
	}
	ch.Payment.Reference = &reference
	_, err = m.CreatePayment(t.Context(), m.Caller, m.Key(m.NewID("")), account, ch, ans)
	must(t, err)
	switch m.random.IntN(6) {
	case 0:
		err = m.Capture(t.Context(), ch.Payment.ID, 4_000, true)
	case 1:
		err = m.Move(t.Context(), ch.Payment.ID, tollgate.TriggerCancel)
	}
	if method == tollgate.CaptureManual {
		must(t, err)
	}
	m.Clock.Advance(time.Duration(m.random.IntN(600)) * time.Second)
}

// post has what there is found by searches.
func (f *fixture) post(t testing.TB) {
	t.Helper()
	_, err := f.PostTransactions(t.Context(), f.Partition(f.Caller.Organization))
	must(t, err)
}

// query is one of what people may ask.
func (m *market) query(first time.Time) (q ledger.TransactionQuery) {
	r := m.random
	pick := func(n int) bool { return r.IntN(n) == 0 }
	if pick(2) {
		q.Payee = marketPayees[r.IntN(len(marketPayees))]
		if pick(4) {
			q.Payee = fmt.Sprintf("P%d.example", r.IntN(m.made))
		}
	}
	if pick(3) {
		q.Reference = marketReferences[r.IntN(len(marketReferences))]
		if pick(2) {
			q.Reference = fmt.Sprintf("order %d", r.IntN(m.made))
		}
	}
	if pick(3) {
		q.Currency = marketCurrencies[r.IntN(len(marketCurrencies))]
	}
	if pick(4) {
		q.Types = []tollgate.TransactionType{tollgate.TransactionType(tollgate.TransactionTypes[r.IntN(len(tollgate.TransactionTypes))])}
	}
	if pick(4) {
		q.Statuses = []string{tollgate.TransactionStatuses[r.IntN(len(tollgate.TransactionStatuses))]}
	}
	if pick(5) {
		q.Accounts = []string{m.Config.MerchantAccounts[r.IntN(2)].ID}
	}
	moment := func() tollgate.Instant {
		return tollgate.At(first.Add(time.Duration(r.Int64N(int64(m.Clock.Now().Sub(first))))))
	}
	if pick(4) {
		q.CreatedAfter = moment()
	}
	if pick(4) {
		q.CreatedBefore = moment()
	}
	q.Descending, q.Limit = pick(2), []int{2, 7, 20, 100}[r.IntN(4)]
	return q
}

// all reads every page of a search. No page but the last may be empty.
func (m *market) all(t *testing.T, q ledger.TransactionQuery) (ids []string) {
	t.Helper()
	for more := true; more; {
		var rows []tollgate.Transaction
		var err error
		rows, q.After, more, err = m.Transactions(t.Context(), m.Caller, q)
		must(t, err)
		for _, r := range rows {
			ids = append(ids, r.ID)
		}
		if more && len(rows) == 0 {
			t.Fatalf("%+v: an empty page, and there are more", q)
		}
	}
	return ids
}

// TestSearches: whatever is asked for, and however much of it is posted, a search finds
// what looking at all transactions finds, in the same order.
func TestSearches(t *testing.T) {
	t.Parallel()
	m := newMarket(t)
	m.searched(t, 50, 0, func(int) {})
}

// searched makes so many payments twelve times, and after each time what then is to be done, and
// compares what searches find from one of these steps on.
func (m *market) searched(t *testing.T, payments, from int, then func(step int)) {
	t.Helper()
	first := m.Clock.Now()
	for step := range 12 {
		for range payments {
			m.pay(t)
		}
		if step%3 == 2 { // some payouts are posted before they have a reference, some are never
			m.days(3)
			must(t, m.settle(t.Context(), func(p *tollgate.Payout) tollgate.PayoutOutcome {
				if step != 5 {
					m.post(t)
				}
				return tollgate.PayoutOutcome{Reference: often(m.random, marketReferences), Failure: []string{"", "closed"}[m.random.IntN(2)]}
			}))
		}
		if step%5 != 1 && step%5 != 2 && step != 3 {
			m.post(t)
		}
		if then(step); step < from {
			continue
		}
		everything, _, more, err := m.Transactions(t.Context(), m.Caller, ledger.TransactionQuery{Limit: 1 << 20})
		if must(t, err); more {
			t.Fatal("not all")
		}
		for range 30 {
			q := m.query(first)
			var want []string
			for _, one := range everything {
				if q.Match(ledger.FoundTransaction{Transaction: &one, Stored: new(rediskv.Stored)}) {
					want = append(want, one.ID)
				}
			}
			if q.Descending {
				slices.Reverse(want)
			}
			if got := m.all(t, q); !slices.Equal(got, want) {
				t.Fatalf("of %d transactions, %+v finds %d, not %d:\n%v\n%v", len(everything), q, len(got), len(want), got, want)
			}
		}
	}
}

// found is how many payments a search for a reference finds.
func (m *market) found(t *testing.T, reference string) int {
	t.Helper()
	return len(m.all(t, ledger.TransactionQuery{Reference: reference, Types: []tollgate.TransactionType{tollgate.TransactionAuthorization}, Descending: true, Limit: 2}))
}

// TestPostingTogether: several workers post at once, while others write. Each transaction
// is found once.
func TestPostingTogether(t *testing.T) {
	t.Parallel()
	m := newMarket(t)
	for range 300 { // more than one script posts
		m.pay(t)
	}
	usual := m.found(t, "usual")
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() { m.post(t) })
	}
	workers.Go(func() { m.pay(t) })
	workers.Wait()
	k, lists := m.Space(m.Caller.Organization), postings.New(m.DB)
	before, err := lists.State(t.Context(), k)
	must(t, err)
	m.pay(t)
	m.post(t)
	for upto, want := range map[int64]error{before.Upto + 1: rediskv.ErrConflict, before.Upto + 100: rediskv.ErrConflict} {
		if _, err := lists.Post(m.withinHistory(t), k, before, nil, upto); !errors.Is(err, want) {
			t.Errorf("behind another worker: %v", err)
		}
	}
	if got := m.found(t, "usual"); got != usual && got != usual+1 {
		t.Errorf("%d are found, and there were %d", got, usual)
	}
	testkit.Consistent(t, m.Store)
}

// TestPostingsMadeAgain: lists that are not what was written, or say that they are to be
// made again, are, and those of a later release stay. Searches find the same all the time.
func TestPostingsMadeAgain(t *testing.T) {
	t.Parallel()
	m := newMarket(t)
	for range 40 {
		m.pay(t)
	}
	usual := m.found(t, "usual")
	raw, events := m.raw(t)
	key := strings.TrimSuffix(events, "events") + "postings"
	lists := func() []string { return scanKeys(t, raw, key+":*") }
	state := func() string {
		t.Helper()
		text, err := raw.Get(t.Context(), key).Result()
		must(t, err)
		return text
	}
	m.post(t)
	whole, written := lists(), state()
	for what, text := range map[string]string{
		"damaged":              strings.Replace(written, "1;;", "1;;0", 1),
		"no JSON":              "{",
		"of an earlier form":   record.EnvelopedJSON(key, `{"form":1,"upto":7}`),
		"to be made again":     record.EnvelopedJSON(key, `{"form":2,"stale":true}`),
		"cleared by another":   "",
		"ahead of all events":  record.EnvelopedJSON(key, `{"form":2,"upto":1000}`),
		"of a negative number": record.EnvelopedJSON(key, `{"form":2,"upto":-1}`),
	} {
		must(t, raw.Del(t.Context(), lists()...).Err())
		must(t, raw.Set(t.Context(), key, text, 0).Err())
		if text == "" {
			must(t, raw.Del(t.Context(), key).Err())
		}
		if got := m.found(t, "usual"); got != usual && what != "ahead of all events" {
			t.Errorf("%s: %d are found, not %d", what, got, usual)
		}
		m.post(t)
		if got := m.found(t, "usual"); got != usual || state() != written || !slices.Equal(lists(), whole) {
			t.Errorf("%s, and posted: %d are found, not %d: %s, %v", what, got, usual, state(), lists())
		}
	}
	must(t, raw.Set(t.Context(), key, record.EnvelopedJSON(key, `{"form":4,"upto":3}`), 0).Err())
	m.post(t)
	if got := m.found(t, "usual"); got != usual || !strings.Contains(state(), `"form":4`) || !slices.Equal(lists(), whole) {
		t.Errorf("of a later release: %d are found, not %d: %s", got, usual, state())
	}
}

// TestPostingsOfUnreadable: a transaction that could not be read when it was posted is
// found as before, by whatever it may be.
func TestPostingsOfUnreadable(t *testing.T) {
	t.Parallel()
	m := newMarket(t)
	m.pay(t)
	var damaged string
	for _, one := range m.all(t, ledger.TransactionQuery{Limit: 100}) {
		damaged = one
	}
	raw, _ := m.raw(t)
	k := m.Space(m.Caller.Organization)
	testkit.SetTransaction(t, raw, k, testkit.TransactionOf(t, raw, k, damaged), "payee", "")
	for range 20 {
		m.pay(t)
	}
	q := ledger.TransactionQuery{Payee: "nobody.example", Limit: 2, CreatedBefore: m.Now()}
	for _, descending := range []bool{true, false} {
		q.Descending = descending
		if before := m.all(t, q); !slices.Equal(before, []string{damaged}) {
			t.Fatalf("before: %v", before)
		}
	}
	m.post(t)
	if st, err := postings.New(m.DB).State(t.Context(), k); err != nil || !st.Usable() {
		t.Errorf("%+v, %v", st, err)
	}
	for _, descending := range []bool{true, false} {
		q.Descending = descending
		if after := m.all(t, q); !slices.Equal(after, []string{damaged}) {
			t.Errorf("after: %v", after)
		}
	}
	// One of which nobody knows when it was made may have been made at any time.
	m.pay(t)
	last := m.all(t, ledger.TransactionQuery{Limit: 1, Descending: true})[0]
	testkit.SetTransaction(t, raw, k, testkit.TransactionOf(t, raw, k, last), "crt", "")
	m.post(t)
	for _, q := range []ledger.TransactionQuery{{CreatedAfter: m.Now().Add(time.Hour), Limit: 2}, {CreatedBefore: 2, Limit: 2}} {
		if found := m.all(t, q); !slices.Equal(found, []string{last}) {
			t.Errorf("%+v finds %v, not %s", q, found, last)
		}
	}
}

// TestPostingsOfPayouts: a payout is given its reference after it was posted. It is found
// by it at any time, and a check agrees.
func TestPostingsOfPayouts(t *testing.T) {
	t.Parallel()
	m := newMarket(t)
	id := m.duePayout(t)
	find := func(when string, want int) {
		t.Helper()
		for _, q := range []ledger.TransactionQuery{{Reference: "B-1", Limit: 2}, {Reference: "B-1", Limit: 2, Descending: true, Types: []tollgate.TransactionType{tollgate.TransactionPayout}}} {
			if found := m.all(t, q); len(found) != want {
				t.Errorf("%s: %+v finds %v", when, q, found)
			}
		}
		testkit.Consistent(t, m.Store)
	}
	for m.made < 60 { // more than a search looks through before it reads lists
		m.pay(t)
	}
	m.post(t)
	find("open", 0)
	m.step(t, id)
	p := m.payout(t, id)
	m.post(t)
	find("in transit", 0)
	must(t, m.endPayout(t.Context(), p, tollgate.PayoutOutcome{Reference: "B-1"}))
	find("paid", 1)
	m.post(t)
	find("settled", 1)
	k, lists := m.Space(m.Caller.Organization), postings.New(m.DB)
	st, err := lists.State(t.Context(), k)
	must(t, err)
	open, err := lists.Read(t.Context(), rediskv.Caller{Organization: k.Org}, k, []postings.Value{{Field: postings.Open}}, false, 0, st.Upto, 1000)
	if must(t, err); len(open[0].Events) > 0 || st.Settled != 1 {
		t.Errorf("%v are open, %+v", open[0].Events, st)
	}
	m.post(t)
	find("posted again", 1)
}

var postingResends = []resend{
	{"settle", "a payout's reference, and another worker goes on", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		p := f.begun(t)
		f.post(t)
		must(t, f.endPayout(t.Context(), p, tollgate.PayoutOutcome{Reference: "B-1"}))
		return f.posts(t), func() {
			f.Pay(t, eur(100), tollgate.CaptureManual)
			f.post(t)
		}
	}},
	{"post", "a page, and another worker goes on", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		f.Pay(t, eur(100), tollgate.CaptureManual)
		return f.posts(t), func() {
			f.Pay(t, eur(100), tollgate.CaptureManual)
			f.post(t)
		}
	}},
	{"clear_postings", "some lists, and another worker clears and posts all", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		f.Pay(t, eur(100), tollgate.CaptureManual)
		f.post(t)
		raw, events := f.raw(t)
		key := strings.TrimSuffix(events, "events") + "postings"
		must(t, raw.Set(t.Context(), key, record.EnvelopedJSON(key, `{"form":2,"stale":true}`), 0).Err())
		return f.posts(t), func() { f.post(t) }
	}},
}

func (f *fixture) posts(t *testing.T) func(*fixture) error {
	return func(through *fixture) error {
		_, err := through.PostTransactions(t.Context(), f.Partition(f.Caller.Organization))
		return err
	}
}
