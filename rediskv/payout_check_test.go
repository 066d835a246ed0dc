package rediskv_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/testkit"
)

// releasePayout recounts, decides and commits, as a handler does.
func (f *fixture) releasePayout(t testing.TB, id, reason string) error {
	t.Helper()
	_, err := rediskv.Retried(func() (rediskv.Result, error) {
		was, err := f.StoredPayout(t.Context(), f.Caller.Organization, id)
		if err != nil {
			return rediskv.Result{}, err
		}
		recount, err := f.Recount(t.Context(), was)
		if err != nil {
			return rediskv.Result{}, err
		}
		ch, err := tollgate.ReleasePayout(f.NewID, f.Origin(f.Caller), was.StoredPayout, recount, reason)
		if err != nil {
			return rediskv.Result{}, err
		}
		return f.CommitPayout(t.Context(), f.Caller, nil, was, ch, rediskv.Answer{Status: 200})
	})
	return err
}

// endPayout records what the payout step said, as a worker does.
func (f *fixture) endPayout(ctx context.Context, p *tollgate.Payout, said tollgate.PayoutOutcome) error {
	_, err := rediskv.Retried(func() (rediskv.Result, error) {
		was, err := f.StoredPayout(ctx, p.OrganizationID, p.ID)
		if err != nil {
			return rediskv.Result{}, err
		}
		account, err := f.PayoutAccount(ctx, p.OrganizationID, p.MerchantAccountID)
		if err != nil {
			return rediskv.Result{}, err
		}
		ch, err := tollgate.EndPayout(f.NewID, f.Origin(f.Caller), was.StoredPayout, said, account)
		if err != nil || ch == nil {
			return rediskv.Result{}, err
		}
		return f.CommitPayout(ctx, rediskv.Caller{Organization: p.OrganizationID}, nil, was, ch, rediskv.Answer{})
	})
	return err
}

// duePayout is a payout of two captures that is made and not looked at yet.
func (f *fixture) duePayout(t testing.TB) (id string) {
	t.Helper()
	f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	f.Pay(t, eur(2500), tollgate.CaptureAutomatic)
	f.days(7)
	if _, err := f.CloseDays(t.Context(), f.Caller.Organization, f.Config.MerchantAccounts[0].ID); err != nil {
		t.Fatal(err)
	}
	return *f.payouts(t)[0].PayoutID
}

// set changes a field of what is stored under a name, as a mistake and no damage
// would: what it leaves has no checksum. It returns what it was.
func (f *fixture) set(t testing.TB, id, field string, change func(string) string) (was string) {
	t.Helper()
	raw := rawClient(t, f.URL)
	if strings.HasPrefix(id, tollgate.PrefixTransaction) {
		k := f.Space(f.Caller.Organization)
		of := testkit.TransactionOf(t, raw, k, id)
		was = testkit.TransactionField(t, raw, k, of, field)
		testkit.SetTransaction(t, raw, k, of, field, change(was))
		return was
	}
	key := scanKeys(t, raw, "*:"+id)[0]
	if was = testkit.Field(t, raw, key, field); was == "" {
		t.Fatalf("%s has no %q", id, field)
	}
	testkit.SetField(t, raw, key, field, change(was))
	must(t, raw.HSet(t.Context(), key, rediskv.EnvelopeField, rediskv.Envelope).Err())
	return was
}

// wrongPayout is one whose stored sum has a digit that is another one.
func (f *fixture) wrongPayout(t testing.TB) (id string) {
	id = f.duePayout(t)
	f.set(t, id, "grp", func(groups string) string { return strings.Replace(groups, " 3500 ", " 8500 ", 1) })
	return id
}

func (f *fixture) release(t testing.TB, id string) {
	t.Helper()
	if err := f.releasePayout(t, id, "looked at"); err != nil {
		t.Fatal(err)
	}
}

// step carries a payout on and reports how it stands.
func (f *fixture) step(t testing.TB, id string) *tollgate.Payout {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = f.MovePayout(t.Context(), f.Caller.Organization, id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.BeginPayout(t.Context(), f.Caller.Organization, id, time.Minute); err != nil {
		t.Fatal(err)
	}
	p, err := f.Payout(t.Context(), f.Caller, id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Whatever digit of what a payout's sum is made of is another one, it is held
// before anybody is asked to pay it, and released it pays what its captures say.
func TestPayoutThatDoesNotAddUp(t *testing.T) {
	flip := func(digits ...string) func(string) string {
		return func(text string) string { return strings.NewReplacer(digits...).Replace(text) }
	}
	for _, c := range []struct {
		what, object, field string // object: payout, payout's transaction, capture
		change              func(string) string
		says                string // why it is held
		released            bool   // as it is
	}{
		{"the captured sum", "payout", "grp", flip(" 3500 ", " 8500 "), "captured 35.00", true},
		{"the count", "payout", "grp", func(s string) string { return strings.TrimSuffix(s, " 2") + " 3" }, "2 captures), and it says", true},
		{"its transaction's amount", "own", "amt", flip("3", "8"), "its own transaction is of 84.65", true},
		{"a capture's amount", "capture", "amt", flip("1", "9"), "captured 115.00", false},
		{"a capture's currency", "capture", "cur", flip("EUR", "USD"), "of another account or currency", false},
		{"a capture's account", "capture", "ma", func(string) string { return "ma_other" }, "of another account or currency", false},
		{"a capture that cannot be read", "capture", "amt", flip("1", "x"), "cannot be read", false},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := newFixture(t)
			id := f.duePayout(t)
			right := f.payout(t, id).Amount()
			object := map[string]string{"payout": id, "own": tollgate.PayoutTransactionOf(id), "capture": f.captures(t)[0].ID}[c.object]
			was := f.set(t, object, c.field, c.change)
			p := f.step(t, id)
			if p.Status != tollgate.PayoutStatusHeld || !strings.Contains(p.HeldReason, c.says) || p.Asked != 0 {
				t.Fatalf("it is %s, asked %d times: %q", p.Status, p.Asked, p.HeldReason)
			}
			if again := f.step(t, id); again.Status != tollgate.PayoutStatusHeld || again.UpdatedAt != p.UpdatedAt {
				t.Errorf("held, it is carried on: %+v", again)
			}
			if held, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Types: tollgate.TypeFilter{"payout.held"}, Limit: 10}); err != nil || len(held) != 1 {
				t.Errorf("%d events payout.held, %v", len(held), err)
			}
			err := f.releasePayout(t, id, "looked at")
			if !c.released {
				if e, ok := err.(*tollgate.Error); !ok || e.Code != tollgate.CodePayoutStateInvalid {
					t.Fatalf("released: %v", err)
				}
				f.set(t, object, c.field, func(string) string { return was })
				f.release(t, id)
			} else if err != nil {
				t.Fatal(err)
			}
			if p := f.step(t, id); p.Status != tollgate.PayoutStatusInTransit || p.Amount() != right || p.Asked != 1 {
				t.Errorf("released it is %s of %s, not %s", p.Status, p.Amount(), right)
			}
			own := f.allTransactions(t, ledger.TransactionQuery{Types: []tollgate.TransactionType{tollgate.TransactionPayout}, Limit: 10})
			if len(own) != 1 || own[0].Amount != right || own[0].Status != string(tollgate.PayoutStatusInTransit) {
				t.Errorf("its own transaction is %+v", own)
			}
			if err := f.releasePayout(t, id, "again"); code(err) != string(tollgate.CodePayoutStateInvalid) {
				t.Errorf("a payout in transit is released: %v", err)
			}
		})
	}
}

func (f *fixture) payout(t testing.TB, id string) *tollgate.Payout {
	t.Helper()
	p, err := f.Payout(t.Context(), f.Caller, id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (f *fixture) captures(t testing.TB) []tollgate.Transaction {
	t.Helper()
	return f.allTransactions(t, ledger.TransactionQuery{Types: []tollgate.TransactionType{tollgate.TransactionCapture}, Limit: 100})
}

// A payout that an earlier release made, or had begun to move, is checked, too.
func TestPayoutOfAnEarlierRelease(t *testing.T) {
	f := newFixture(t)
	id := f.wrongPayout(t)
	f.set(t, id, "step", func(string) string { return "pay" })
	if p := f.step(t, id); p.Status != tollgate.PayoutStatusHeld {
		t.Errorf("it is %s", p.Status)
	}
}
