package builds_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tollgate/rediskv/testkit"
)

// TestPayouts: the workers of the first release and of this one close the same days.
// Each names a payout in a way of its own, this one by what it pays; whoever makes it,
// a group stands in exactly one.
func TestPayouts(t *testing.T) {
	s := newSite(t, needBuilds(t))
	pays := newPayStep(t)
	first, this := s.sandbox(builds.first), s.sandbox(builds.this, pays.env()...)
	s.provision(builds.first)
	first.authenticate()
	this.authenticate()
	var captured, fees int64
	in := map[string]string{} // captures: the payout
	for day := range 6 {
		for i, at := range []*instance{first, this} {
			p := at.pay(t, fmt.Sprintf("%d0.00", 1+day+i), `,"capture_method":"automatic"`)
			captured += cents(t, p.at("amount_captured"))
			fees += cents(t, p.at("fee_total"))
			in[this.get(t, "/v1/transactions?type=capture&payment_id="+p.at("id")).at("data.0.id")] = ""
		}
		s.advance(t, 24*time.Hour, first, this)
		testkit.Eventually(t, "the last captures are settled", func() bool {
			return this.get(t, "/v1/transactions?type=capture&limit=1&merchant_account_id="+s.account()).at("data.0.status") == "settled"
		})
	}
	var told int64
	payouts := all(t, "/v1/payouts?limit=100&merchant_account_id="+s.account(), this)
	for _, payout := range payouts {
		for _, x := range all(t, "/v1/transactions?limit=100&payout_id="+payout, this, first) {
			before, captured := in[x]
			if captured && before != "" {
				t.Errorf("%s is in %s and in %s", x, before, payout)
			}
			if captured {
				in[x] = payout
			}
		}
		p := this.get(t, "/v1/payouts/"+payout)
		told += cents(t, p.at("amount"))
		if p.at("status") != "paid" {
			t.Errorf("%s", p.Text)
		}
		if asked, ok := pays.asked()[payout]; ok && asked.Amount != p.at("amount") {
			t.Errorf("%s: %s were paid", p.Text, asked.Amount)
		}
		if own := p.at("history_id") != ""; own != (pays.asked()[payout].Amount != "") {
			t.Logf("%s was made by one and carried on by the other", payout)
		}
	}
	for x, payout := range in {
		if payout == "" {
			t.Errorf("%s is in no payout", x)
		}
	}
	if told != captured-fees || len(payouts) == 0 {
		t.Errorf("%d cents less %d of fees were captured, and %d payouts are of %d", captured, fees, len(payouts), told)
	}
	for _, in := range []*instance{first, this} {
		if found := in.Complaints(); len(found) > 0 {
			t.Errorf("%s complains:\n%s", in.Process.Name, strings.Join(found, "\n"))
		}
	}
}
