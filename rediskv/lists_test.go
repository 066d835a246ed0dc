package rediskv_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/ledger"
)

// exercise runs every operation of the store once.
func exercise(t testing.TB, f *fixture) {
	t.Helper()
	ctx := t.Context()
	a := f.Pay(t, eur(1000), tollgate.CaptureManual)
	b := f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(f.Capture(ctx, a.ID, 400, false))
	check(f.Move(ctx, a.ID, tollgate.TriggerCancel))
	_, err := f.Ticket(ctx, f.Caller, b.TicketID)
	check(err)
	_, err = f.RefusePayment(ctx, f.Caller, "create", f.Key("refused"), f.MerchantAccount(t), rediskv.Answer{Status: 422, Body: []byte("{}")}, "rule")
	check(err)
	_, _, err = f.FindRepeated(ctx, f.Caller, f.Key("refused"))
	check(err)
	check(f.Audit(ctx, f.Caller, tollgate.AuditEntry{Type: "access", Outcome: "denied"}))
	check(f.burn(ctx, f.issue("jti")))
	check(f.BurnProof(ctx, f.Caller.Organization, "thumbprint", "jti", time.Minute))
	check(f.RevokeToken(ctx, f.issue("revoke"), "tok_other", f.Clock.Now().Add(time.Minute)))
	_, _, err = f.ReadResource(ctx, f.Caller, "merchant_account", a.MerchantAccountID)
	check(err)
	f.export(t, tollgate.DatasetTransactions, tollgate.FormatCSV, tollgate.ExportFilter{})
	f.audit(t)
}

// burn uses up an assertion for a token.
func (f *fixture) burn(ctx context.Context, u accounts.AssertionUse) error {
	return f.UseAssertion(ctx, u, "token.issue", tollgate.AuditTarget{Type: "client", ID: u.Actor.ClientID})
}

func (f *fixture) issue(jti string) accounts.AssertionUse {
	return accounts.AssertionUse{Caller: f.Caller, JTI: jti, Expires: f.Clock.Now().Add(time.Minute), Now: f.Clock.Now(), ClientRevision: 1, OrganizationRevision: 1}
}

// Twenty writers write while events are listed: none is skipped or repeated,
// in either direction; transactions the same.
func TestListsWhileOthersWrite(t *testing.T) {
	f := newFixture(t)
	const writers, each = 20, 15
	var g sync.WaitGroup
	for range writers {
		g.Go(func() {
			for range each {
				f.Pay(t, eur(100), tollgate.CaptureManual)
			}
		})
	}
	done := make(chan struct{})
	go func() { g.Wait(); close(done) }()

	seen := map[int64]int{}
	q := eventlog.EventQuery{Limit: 7, Types: tollgate.TypeFilter{"payment.*"}}
	tx := ledger.TransactionQuery{Limit: 7, Types: []tollgate.TransactionType{tollgate.TransactionAuthorization}}
	listed := map[string]int{}
	for last := false; ; {
		select {
		case <-done:
			last = true
		default:
		}
		events, next, more, err := f.Events(t.Context(), f.Caller, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			seen[sequence(t, e)]++
		}
		q.After = next
		rows, position, moreRows, err := f.Transactions(t.Context(), f.Caller, tx)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range rows {
			listed[x.ID]++
		}
		tx.After = position
		if last && !more && !moreRows {
			break
		}
	}
	if len(seen) != writers*each || len(listed) != writers*each {
		t.Errorf("%d events and %d transactions of %d", len(seen), len(listed), writers*each)
	}
	for n, times := range seen {
		if times != 1 {
			t.Errorf("event %d came %d times", n, times)
		}
	}
	for id, times := range listed {
		if times != 1 {
			t.Errorf("%s came %d times", id, times)
		}
	}
	q = eventlog.EventQuery{Limit: 9, Descending: true}
	previous := int64(1 << 60)
	for more := true; more; {
		var events []jsontext.Value
		var err error
		if events, q.After, more, err = f.Events(t.Context(), f.Caller, q); err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if n := sequence(t, e); n >= previous {
				t.Fatalf("%d after %d, descending", n, previous)
			} else {
				previous = n
			}
		}
	}
	if previous != 1 {
		t.Errorf("descending ends at %d", previous)
	}
}

func sequence(t testing.TB, event jsontext.Value) int64 {
	t.Helper()
	var e struct {
		Sequence int64 `json:"sequence"`
	}
	if err := json.Unmarshal(event, &e); err != nil {
		t.Fatal(err)
	}
	return e.Sequence
}

func TestTransactionFilters(t *testing.T) {
	f := newFixture(t)
	a := f.Pay(t, eur(1000), tollgate.CaptureManual)
	f.Clock.Advance(time.Hour)
	between := f.Now()
	f.Clock.Advance(time.Hour)
	b := f.Pay(t, tollgate.Money{Minor: 500, Currency: "JPY"}, tollgate.CaptureAutomatic)
	for name, c := range map[string]struct {
		q    ledger.TransactionQuery
		want int
	}{
		"all":          {ledger.TransactionQuery{}, 4 - 1},
		"authorized":   {ledger.TransactionQuery{Statuses: []string{"authorized"}}, 1},
		"two statuses": {ledger.TransactionQuery{Statuses: []string{"authorized", "pending"}}, 3 - 0},
		"type":         {ledger.TransactionQuery{Types: []tollgate.TransactionType{"fee"}}, 1},
		"currency":     {ledger.TransactionQuery{Currency: "JPY"}, 3},
		"payment":      {ledger.TransactionQuery{PaymentID: b.ID}, 3},
		"no payment":   {ledger.TransactionQuery{PaymentID: "pay_none"}, 0},
		"not an id":    {ledger.TransactionQuery{PaymentID: "x"}, 0},
		"account":      {ledger.TransactionQuery{Accounts: []string{a.MerchantAccountID}}, 4},
		"other":        {ledger.TransactionQuery{Accounts: []string{f.Config.MerchantAccounts[1].ID}}, 0},
		"payee":        {ledger.TransactionQuery{Payee: "shop.example"}, 4},
		"before":       {ledger.TransactionQuery{CreatedBefore: between}, 1},
		"after":        {ledger.TransactionQuery{CreatedAfter: between}, 3},
		"neither":      {ledger.TransactionQuery{CreatedAfter: between, CreatedBefore: between}, 0},
	} {
		if name == "all" {
			c.want = 4
		}
		for _, descending := range []bool{false, true} {
			c.q.Limit, c.q.Descending = 2, descending
			if got := f.allTransactions(t, c.q); len(got) != c.want {
				t.Errorf("%s (descending %v): %d, want %d", name, descending, len(got), c.want)
			}
		}
	}
}

func TestEventFilters(t *testing.T) {
	f := newFixture(t)
	a := f.Pay(t, eur(1000), tollgate.CaptureManual)
	if err := f.Capture(t.Context(), a.ID, 100, true); err != nil {
		t.Fatal(err)
	}
	f.Pay(t, eur(1000), tollgate.CaptureManual)
	for name, c := range map[string]struct {
		q    eventlog.EventQuery
		want int
	}{
		"type":          {eventlog.EventQuery{Types: tollgate.TypeFilter{"payment.captured"}}, 1},
		"pattern":       {eventlog.EventQuery{Types: tollgate.TypeFilter{"payment.*"}}, 3},
		"payment":       {eventlog.EventQuery{ObjectID: a.ID}, 2},
		"ticket":        {eventlog.EventQuery{ObjectID: a.TicketID}, 2},
		"no object":     {eventlog.EventQuery{ObjectID: "shop.example"}, 0},
		"account":       {eventlog.EventQuery{MerchantAccountID: a.MerchantAccountID}, 4},
		"covered":       {eventlog.EventQuery{Accounts: []string{f.Config.MerchantAccounts[1].ID}}, 1},
		"contradiction": {eventlog.EventQuery{Accounts: []string{"ma_x"}, MerchantAccountID: a.MerchantAccountID}, 0},
	} {
		c.q.Limit = 100
		events, _, more, err := f.Events(t.Context(), f.Caller, c.q)
		if err != nil || more || len(events) != c.want {
			t.Errorf("%s: %d events, more %v, %v; want %d", name, len(events), more, err, c.want)
		}
	}
}

// A log that was trimmed says so, and one that lost its tail: whoever has a cursor of
// it knows more than there is.
func TestCursorsOfLogsThatChanged(t *testing.T) {
	f := newFixture(t)
	for range 4 {
		f.Pay(t, eur(100), tollgate.CaptureManual)
	}
	_, early, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	_, end, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	raw, key := f.raw(t)
	ids, err := raw.XRange(t.Context(), key, "-", "+").Result()
	if err != nil {
		t.Fatal(err)
	}
	// The last event is lost, and another takes its place.
	if err := raw.XDel(t.Context(), key, ids[len(ids)-1].ID).Err(); err != nil {
		t.Fatal(err)
	}
	f.Pay(t, eur(200), tollgate.CaptureManual)
	if _, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 100, After: end}); code(err) != string(tollgate.CodeHistoryLost) {
		t.Errorf("after a cut: %v", err)
	}
	if err := raw.XTrimMinID(t.Context(), key, ids[len(ids)-2].ID).Err(); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 1, After: early}); code(err) != string(tollgate.CodeCursorExpired) {
		t.Errorf("a position that was trimmed: %v", err)
	}
}

// raw is a client beside the store, and the key of the organization's events.
func (f *fixture) raw(t testing.TB) (redis.UniversalClient, string) {
	t.Helper()
	c := rawClient(t, f.URL)
	keys := scanKeys(t, c, "*:"+f.Caller.Organization+":events")
	if len(keys) != 1 {
		t.Fatal(keys)
	}
	return c, keys[0]
}

func TestWaitEvents(t *testing.T) {
	f := newFixture(t)
	_, end, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := f.WaitEvents(ctx, f.Caller.Organization, end); err != nil || ctx.Err() == nil {
		t.Errorf("returned %v before anything happened", err)
	}
	woken := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		err := f.WaitEvents(ctx, f.Caller.Organization, end)
		if ctx.Err() != nil {
			err = errors.New("slept through the event")
		}
		woken <- err
	}()
	f.Pay(t, eur(100), tollgate.CaptureManual)
	if err := <-woken; err != nil {
		t.Error(err)
	}
}
