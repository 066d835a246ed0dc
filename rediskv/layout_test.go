package rediskv_test

import (
	"slices"
	"strings"
	"testing"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/testkit"
)

// keysOf are how many keys a payment has that was captured and refunded, and of which one
// endpoint was told. Marks of operations, which are gone after five minutes, are not among
// them, and neither are indexes, which payments share.
func keysOf(t *testing.T, layout rediskv.Layout) (keys []string) {
	f := newFixture(t)
	must(t, f.WriteLayout(t.Context(), layout))
	f.endpoint(t)
	raw := rawClient(t, f.URL)
	all := "*" + f.Caller.Organization + "*"
	tell := func() {
		t.Helper()
		f.fanOut(t, "a")
		for _, w := range f.take(t, 10) {
			f.record(t, w, succeeded)
		}
	}
	story := func() {
		p := f.Pay(t, eur(1000), tollgate.CaptureManual)
		must(t, f.Capture(t.Context(), p.ID, 1000, true))
		must(t, f.GiveBack(t.Context(), p.ID, 100, false))
		tell()
	}
	story() // the indexes are there
	before := scanKeys(t, raw, all)
	story()
	return slices.DeleteFunc(scanKeys(t, raw, all), func(key string) bool {
		return slices.Contains(before, key) || strings.Contains(key, ":op:")
	})
}

// A slot moves key by key, and each is the slower the more there are.
func TestKeysOfAPayment(t *testing.T) {
	for layout, most := range map[rediskv.Layout]int{rediskv.Together: 12, rediskv.Apart: 17} {
		if keys := keysOf(t, layout); len(keys) > most {
			t.Errorf("layout %d: a payment has %d keys, at most %d: %s", layout, len(keys), most, strings.Join(keys, " "))
		} else {
			t.Logf("layout %d: %d keys", layout, len(keys))
		}
	}
}

// A payment goes on as it began, whatever the layout is by then; lists have both.
func TestLayoutChangesBetween(t *testing.T) {
	f := newFixture(t)
	var made []*tollgate.Payment
	for _, layout := range []rediskv.Layout{rediskv.Apart, rediskv.Together, rediskv.Apart} {
		must(t, f.WriteLayout(t.Context(), layout))
		for _, p := range made {
			must(t, f.Capture(t.Context(), p.ID, 100, false))
			must(t, f.GiveBack(t.Context(), p.ID, 50, false))
		}
		made = append(made, f.Pay(t, eur(1000), tollgate.CaptureManual))
	}
	for i, p := range made {
		now, _ := f.Read(t, p.ID)
		if want := int64(100 * (2 - i)); now.AmountCaptured.Minor != want || now.AmountRefunded.Minor != want/2 {
			t.Errorf("payment %d: %s captured, %s refunded", i, now.AmountCaptured, now.AmountRefunded)
		}
		if together := now.Numbers > 0; together != (i == 1) {
			t.Errorf("payment %d has numbered %d", i, now.Numbers)
		}
		own := f.allTransactions(t, ledger.TransactionQuery{PaymentID: p.ID, Limit: 100})
		all := slices.DeleteFunc(f.allTransactions(t, ledger.TransactionQuery{Limit: 2}), func(x tollgate.Transaction) bool {
			return x.PaymentID == nil || *x.PaymentID != p.ID
		})
		if !slices.EqualFunc(own, all, func(a, b tollgate.Transaction) bool { return a.ID == b.ID && a.Status == b.Status }) || len(own) != 1+4*(2-i) {
			t.Errorf("payment %d has %d transactions, and the list of all has %d", i, len(own), len(all))
		}
		refunds, err := f.Refunds(t.Context(), f.Caller, p.ID)
		must(t, err)
		if len(refunds) != 2-i {
			t.Errorf("payment %d: %d refunds", i, len(refunds))
		}
		for _, r := range refunds {
			if one, err := f.Refund(t.Context(), f.Caller, r.ID); err != nil || one.Amount.Minor != 50 {
				t.Errorf("%s: %v", r.ID, err)
			}
		}
	}
	f.days(7)
	f.mustSettle(t)
	if paid := f.payouts(t); len(paid) == 0 {
		t.Error("nothing was paid")
	}
	testkit.Consistent(t, f.Store)
}

// An organization is where it was when it was made: its partition is CRC-16 (XMODEM) of
// its identifier, bit by bit.
func TestPartitions(t *testing.T) {
	f := newFixture(t)
	for _, org := range []string{"123456789", "", "org_01m88k5gtf29qq6jm636mvtn3p", f.Caller.Organization} {
		crc := 0
		for _, b := range []byte(org) {
			crc ^= int(b) << 8
			for range 8 {
				if crc <<= 1; crc > 0xffff {
					crc ^= 0x11021
				}
			}
		}
		if got := f.Partition(org); got != crc%f.Partitions() {
			t.Errorf("%q is in partition %d, not %d of %d", org, got, crc, f.Partitions())
		}
	}
}
