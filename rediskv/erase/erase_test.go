package erase_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/erase"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/streams"
	"tollgate/rediskv/testkit"
)

// whom is what must be nowhere in the end.
var whom = []string{"jane-doe.example", "Order of Jane Doe", "for Jane Doe", "janes-metadata"}

type fixture struct{ *testkit.Shop }

func newFixture(t testing.TB, layout rediskv.Layout) *fixture {
	t.Helper()
	f := &fixture{testkit.NewShop(t, rediskv.Options{URL: redistest.URL(t), Rules: []tollgate.RuleRef{testkit.CardFee}}, testkit.NewClock(), nil)}
	if err := f.WriteLayout(t.Context(), layout); err != nil {
		t.Fatal(err)
	}
	return f
}

// pay makes a payment for Jane, or for another one, that is captured.
func (f *fixture) pay(t testing.TB, n int, payee string) *tollgate.Payment {
	t.Helper()
	ch, ans := f.Draft(t, f.MerchantAccount(t), testkit.EUR(int64(1000+n)), payee, tollgate.CaptureAutomatic)
	note := "another"
	if payee == whom[0] {
		note = whom[3]
		ch.Payment.Reference, ch.Payment.Description, ch.Payment.Metadata = &whom[1], &whom[2], tollgate.Metadata{"note": whom[3]}
		ch.Capture.Reference, ch.Capture.Metadata = &whom[1], tollgate.Metadata{"note": whom[3]}
		for i := range ch.Transactions {
			ch.Transactions[i].Reference = &whom[1]
		}
		for _, text := range []*[]byte{(*[]byte)(&ch.Event.Data)} {
			*text = []byte(strings.Replace(string(*text), `"reference":null`, `"reference":"`+whom[1]+`"`, 1))
		}
	}
	idem := rediskv.Idempotency{Scope: "ma", Key: fmt.Sprint("key", n), Fingerprint: strings.Repeat("0f", 32)}
	body := []byte(`{"object":"payment","id":"` + ch.Payment.ID + `","payee":"` + payee + `","reference":null,"metadata":{"a":"` + note + `"}}`)
	ans.Body, ans.Shows = body, false
	if _, err := f.CreatePayment(t.Context(), f.Caller, idem, f.MerchantAccount(t), ch, ans); err != nil {
		t.Fatal(err)
	}
	return ch.Payment
}

// grep are the keys of a Redis that have one of some texts.
func (f *fixture) grep(t testing.TB, texts ...string) (found []string) {
	t.Helper()
	var keys []string
	if err := f.Masters(t.Context(), func(ctx context.Context, _ string, node rediskv.Client) error {
		some, err := node.Keys(ctx, "*").Result()
		keys = append(keys, some...) // one after the other
		return err
	}); err != nil {
		t.Fatal(err)
	}
	c := f.Redis
	for _, key := range keys {
		var all string
		switch c.Type(t.Context(), key).Val() {
		case "string":
			all = c.Get(t.Context(), key).Val()
			if entries, err := streams.Unpack(all); err == nil {
				all = fmt.Sprint(entries)
			}
		case "hash":
			for name, value := range c.HGetAll(t.Context(), key).Val() {
				all += name + "\n" + value + "\n"
			}
		case "stream":
			all = fmt.Sprint(c.XRange(t.Context(), key, "-", "+").Val())
		case "zset":
			all = fmt.Sprint(c.ZRangeArgs(t.Context(), redis.ZRangeArgs{Key: key, Start: 0, Stop: -1}).Val())
		case "set":
			all = fmt.Sprint(c.SMembers(t.Context(), key).Val())
		case "list":
			all = fmt.Sprint(c.LRange(t.Context(), key, 0, -1).Val())
		}
		for _, text := range texts {
			if strings.Contains(key+all, text) || strings.Contains(all, hex.EncodeToString([]byte(text))) {
				found = append(found, key+": "+text)
			}
		}
	}
	return found
}

// TestErased: nothing in Redis has the payee of an erased payment, and what it was found by;
// all else is as it was, and a check finds nothing.
func TestErased(t *testing.T) {
	for _, layout := range []rediskv.Layout{rediskv.Apart, rediskv.Together, rediskv.Compact} {
		t.Run(fmt.Sprint(layout), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, layout)
			var janes, others []*tollgate.Payment
			for n := range 40 {
				payee := "other.example"
				if n%4 == 1 {
					payee = whom[0]
				}
				p := f.pay(t, n, payee)
				f.Clock.Advance(time.Minute)
				if payee == whom[0] {
					janes = append(janes, p)
				} else {
					others = append(others, p)
				}
			}
			k := f.Space(f.Caller.Organization)
			if _, err := streams.Cut(t.Context(), f.DB, streams.Bounds{Entries: 8, Bytes: 1 << 20}, []string{k.Events()}); err != nil {
				t.Fatal(err)
			}
			if _, err := f.PostTransactions(t.Context(), k.Partition); err != nil {
				t.Fatal(err)
			}
			if found := f.grep(t, whom...); len(found) < 10 {
				t.Fatalf("too little to erase: %v", found)
			}
			s := erase.New(f.Store, nil, nil)
			list, err := s.To(t.Context(), f.Caller.Organization, whom[0])
			if err != nil || len(list) != len(janes) {
				t.Fatal(list, err)
			}
			var ids []string
			for _, one := range list {
				ids = append(ids, one.Payment)
			}
			if err := s.Erase(t.Context(), f.Caller.Organization, ids); err != nil {
				t.Fatal(err)
			}
			if found := f.grep(t, whom...); len(found) > 0 {
				t.Errorf("still there: %s", strings.Join(found, "\n"))
			}
			for _, one := range janes {
				p, ticket, err := f.Payment(t.Context(), f.Caller, one.ID)
				if err != nil || p.Payee != "" || p.Reference != nil || p.Description != nil || len(p.Metadata) != 0 || p.Amount != one.Amount || p.Revision != one.Revision {
					t.Errorf("%+v, %v", p, err)
				}
				if err == nil && (ticket.ErasedAt == 0 || ticket.Payee != "" || len(ticket.Lines) != 1) {
					t.Errorf("%+v", ticket)
				}
			}
			for _, one := range others {
				p, ticket, err := f.Payment(t.Context(), f.Caller, one.ID)
				if err != nil || p.Payee != one.Payee || ticket.ErasedAt != 0 {
					t.Errorf("%+v, %v", p, err)
				}
			}
			if list, err := s.To(t.Context(), f.Caller.Organization, whom[0]); err != nil || len(list) != 0 {
				t.Error(list, err)
			}
			if begun, err := s.Begun(t.Context(), f.Caller.Organization); err != nil || len(begun) != 0 {
				t.Error(begun, err)
			}
			rows, _, _, err := f.Payments(t.Context(), f.Caller, ledger.TransactionQuery{Payee: "other.example", Limit: 100})
			if err != nil || len(rows) != len(others) {
				t.Errorf("%d others, %v", len(rows), err)
			}
			testkit.Consistent(t, f.Store)
		})
	}
}
