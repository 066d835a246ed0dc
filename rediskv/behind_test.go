package rediskv_test

import (
	"fmt"
	"strings"
	"testing"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/erase"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/record"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// partsLayouts are those in which a payment has its parts in one hash.
var partsLayouts = []rediskv.Layout{rediskv.Together, rediskv.Compact, rediskv.Dense}

// listed is a page of all transactions, each read by itself.
func (f *fixture) listed(t *testing.T) []tollgate.Transaction {
	t.Helper()
	rows, _, _, err := f.Transactions(t.Context(), f.Caller, ledger.TransactionQuery{Limit: 100})
	must(t, err)
	return rows
}

// TestLaterTransactionsRepeatTheFirst: in whichever layout a payment was made, and in whichever
// it is captured, each of its transactions is read by itself, and together, as it was
// written; after an erasure too, and then nothing is left of the payee.
func TestLaterTransactionsRepeatTheFirst(t *testing.T) {
	for _, made := range partsLayouts {
		for _, captured := range partsLayouts {
			t.Run(fmt.Sprintf("made in %d, captured in %d", made, captured), func(t *testing.T) {
				f := &fixture{Shop: testkit.NewShop(t, rediskv.Options{URL: redistest.URL(t), Rules: []tollgate.RuleRef{testkit.CardFee}}, testkit.NewClock(), func(c *tollgate.Config) {
					c.MerchantAccounts[0].Cutoff.SettlementDelayDays, c.MerchantAccounts[0].Cutoff.Calendar = 0, "none" // a text that each has twice
				})}
				raw, _ := f.raw(t)
				k := f.Space(f.Caller.Organization)
				must(t, f.WriteLayout(t.Context(), made))
				p := f.Pay(t, eur(1000), tollgate.CaptureManual)
				must(t, f.WriteLayout(t.Context(), captured))
				must(t, f.Capture(t.Context(), p.ID, 600, false))
				must(t, f.Capture(t.Context(), p.ID, 300, true))
				must(t, f.GiveBack(t.Context(), p.ID, 100, false))
				parts := func() (hash map[string]string, all string) {
					hash, err := raw.HGetAll(t.Context(), k.Parts(p.ID)).Result()
					must(t, err)
					for _, number := range []string{"00", "01", "02", "03", "04", "05", "06"} {
						all += hash[number] + hash[number+".+"] + hash[number+".++"] + "\n"
					}
					return hash, all
				}
				hash, text := parts()
				if dense := captured == rediskv.Dense; record.IsBehind(hash["01"]) != dense || (strings.Count(text, string(p.Payee)) == 1) != dense {
					t.Errorf("they are %q", text)
				}
				look := func(payee string) {
					t.Helper()
					rows := f.listed(t)
					if len(rows) < 7 {
						t.Errorf("%d transactions", len(rows))
					}
					for _, row := range rows {
						of := ""
						if row.Payee != nil {
							of = *row.Payee
						}
						if row.Damaged || of != payee || row.MerchantAccountID != p.MerchantAccountID || *row.PaymentID != p.ID || *row.TicketID != p.TicketID {
							t.Errorf("%s is %+v", row.ID, row)
						}
					}
					members, found := ledger.PartsIn(k, p.ID[14:28], hash)
					for i, m := range members {
						if x, stored := ledger.TransactionOf(m.ID, found[i]); stored.Err() != nil || *x.PaymentID != p.ID || x.Amount != rows[i].Amount || x.CreatedAt != rows[i].CreatedAt {
							t.Errorf("%s is %+v, %v", m.ID, x, stored.Err())
						}
					}
					testkit.Consistent(t, f.Store)
				}
				look(string(p.Payee))
				must(t, erase.New(f.Store, nil, nil).Erase(t.Context(), k.Org, []string{p.ID}))
				hash, text = parts()
				if strings.Contains(text, string(p.Payee)) {
					t.Errorf("after the erasure they are %q", text)
				}
				look("")
			})
		}
	}
}

// TestLostFirstTransaction: where the first transaction of a payment is not there, or is
// another one's, the later ones are damaged, each in its place.
func TestLostFirstTransaction(t *testing.T) {
	for what, spoil := range map[string]func(first, other map[string]any) map[string]any{
		"lost":          func(map[string]any, map[string]any) map[string]any { return nil },
		"another one's": func(_, other map[string]any) map[string]any { return other },
		"of before": func(map[string]any, map[string]any) map[string]any {
			return map[string]any{"00": `{"crt":"1795914453694"}`}
		},
		"without one": func(first, _ map[string]any) map[string]any { return map[string]any{"00": first["00"]} }, // of two
	} {
		f := newFixture(t)
		raw, _ := f.raw(t)
		k := f.Space(f.Caller.Organization)
		p, _ := f.Read(t, f.payTo(t, "a-payee-with-a-long-name.example", 1)[0])
		q, _ := f.Read(t, f.payTo(t, "another-payee-of-that-name.example", 1)[0])
		texts := func(id string) map[string]any {
			all := map[string]any{}
			values, err := raw.HMGet(t.Context(), k.Parts(id), "00", "00.+", "00.++").Result()
			must(t, err)
			for i, name := range []string{"00", "00.+", "00.++"} {
				if values[i] != nil {
					all[name] = values[i]
				}
			}
			return all
		}
		next := spoil(texts(p.ID), texts(q.ID))
		must(t, raw.HDel(t.Context(), k.Parts(p.ID), "00", "00.+", "00.++").Err())
		if next != nil {
			must(t, raw.HSet(t.Context(), k.Parts(p.ID), next).Err())
		}
		damaged := map[string]bool{}
		for _, row := range f.listed(t) {
			if !row.Damaged && *row.PaymentID != p.ID && *row.PaymentID != q.ID {
				t.Errorf("%s: %s is %+v", what, row.ID, row)
			}
			if row.Damaged {
				damaged[row.ID] = true
			}
		}
		members, _ := ledger.PartsIn(k, p.ID[14:28], map[string]string{"00": "", "01": "", "02": ""})
		for _, m := range members {
			of, number, _ := tollgate.NumberIn(m.ID)
			if is := damaged[tollgate.PartID(tollgate.PrefixTransaction, p.CreatedAt, of, number)]; !is {
				t.Errorf("%s: %s of the payment is not damaged: %v", what, number, damaged)
			}
		}
		if len(damaged) != 3 {
			t.Errorf("%s: %d are damaged", what, len(damaged))
		}
	}
}
