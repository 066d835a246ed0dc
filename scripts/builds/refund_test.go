package builds_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv/testkit"
)

// TestRefunds: a refund is this build's alone. "Update every instance before you
// give a grant payments:refund" (changelog): this is what the previous build does
// where somebody did not, or goes back to it afterwards. It does not show the refund,
// and nothing that it does moves a wrong amount or spoils a record.
func TestRefunds(t *testing.T) {
	s := newSite(t, needBuilds(t))
	pays, to := newPayStep(t), newReceiver(t)
	before := s.sandbox(builds.older, pays.env()...)
	this := s.sandbox(builds.this, pays.env()...)
	s.provision(builds.older)
	s.refunds = true
	s.provision(builds.this)
	before.authenticate()
	this.authenticate()
	cashier := this.cashier()

	// A rule that charges refunds prices payments with both builds.
	this.publishRule(t, "rule:back_fee@v1", `refunds = true
[[fee]]
percentage = "0.5"
[refund]
[[refund.fee]]
currencies = ["EUR"]
fixed = "0.25"
`, `, {"kind":"refund","amount":"100.00","currency":"EUR","payee":"shop.example","lines":[{"label":"Site fee","amount":"0.25"}]}`)
	this.post(t, "/v1/rule-sets/"+s.ids[tollgate.PrefixRuleSet]+"/activations", `{"rule":"rule:back_fee@v1","adds":true,"merchant_account_ids":["`+s.account()+`"]}`)
	quote := `{"amount":"100.00","currency":"EUR","payee":"shop.example","merchant_account_id":"` + s.account() + `"}`
	testkit.Eventually(t, "both price with it", func() bool {
		return before.do(t, "POST", "/v1/quotes", "", quote).at("lines.2.amount") == "0.50" && this.do(t, "POST", "/v1/quotes", "", quote).at("lines.2.amount") == "0.50"
	})

	hook := before.post(t, "/v1/webhooks", `{"url":"`+to.URL+`","event_types":["payment.*"]}`).at("id")
	whole := before.pay(t, "40.00", `,"capture_method":"automatic"`)
	part := before.pay(t, "50.00", "")
	partly := "/v1/payments/" + part.at("id")
	before.post(t, partly+"/captures", `{"amount":"30.00","final_capture":false}`)
	for _, p := range []answer{whole, part} {
		cashier.post(t, "/v1/payments/"+p.at("id")+"/refunds", `{"amount":"10.00"}`)
	}

	t.Run("payments are read, without the refund", func(t *testing.T) {
		for _, p := range []answer{whole, part} {
			same(t, "/v1/payments/"+p.at("id"), before, this)
		}
		same(t, "/v1/payments", before, this)
	})
	t.Run("its transactions are damaged rows, all others are read", func(t *testing.T) {
		types := ""
		a := before.get(t, "/v1/transactions?order=asc&payment_id="+whole.at("id"))
		for i := range 5 {
			row := fmt.Sprintf("data.%d.", i)
			types += a.at(row+"type") + a.at(row+"damaged") + " "
		}
		if types != "authorization capture fee true true " {
			t.Errorf("%s: %s", types, a.Text)
		}
	})
	t.Run("there is no route, and no type to filter", func(t *testing.T) {
		for path, status := range map[string]int{partly + "/refunds": 404, "/v1/transactions?type=refund": 400, "/v1/events?types=payment.refunded": 400} {
			if a, err := before.send("GET", path, "", ""); err != nil || a.StatusCode != status {
				t.Errorf("%s: %v %d %s", path, err, a.StatusCode, a.Text)
			}
		}
	})
	t.Run("its events are listed by both, by pattern by this build", func(t *testing.T) {
		if a, b := all(t, "/v1/events?limit=5", before, this), all(t, "/v1/events?limit=5", this); fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("%v\n%v", a, b)
		}
		if a, b := all(t, "/v1/events?types=payment.*", before), all(t, "/v1/events?types=payment.*", this); len(b) != len(a)+2 {
			t.Errorf("%v\n%v", a, b)
		}
	})
	t.Run("its events are delivered by both, each of them", func(t *testing.T) {
		named := this.post(t, "/v1/webhooks", `{"url":"`+to.URL+`/named","event_types":["payment.refunded"]}`).at("id")
		same(t, "/v1/webhooks/"+named, before, this)
		n := 0
		testkit.Eventually(t, "both deliver some", func() bool {
			cashier.post(t, "/v1/payments/"+whole.at("id")+"/refunds", `{"amount":"0.01"}`)
			n++
			return n >= 20 && to.delivered(builds.older, "payment.refunded") && to.delivered(builds.this, "payment.refunded")
		})
		ids := all(t, "/v1/events?types=payment.refunded&limit=100", this)
		for at, path := range map[string][]string{hook: ids, named: ids[2:]} {
			testkit.Eventually(t, "all are delivered", func() bool {
				done := len(all(t, "/v1/webhooks/"+at+"/deliveries?event_type=payment.refunded&state=succeeded&limit=100", this))
				return done == len(path)
			})
		}
		for _, id := range []string{hook, named} {
			before.do(t, "DELETE", "/v1/webhooks/"+id, "", "")
		}
	})
	t.Run("a capture after the refund keeps the ticket", func(t *testing.T) {
		before.post(t, partly+"/captures", `{"amount":"5.00","final_capture":false}`)
		cashier.post(t, partly+"/refunds", `{"amount":"3.00"}`)
		before.post(t, partly+"/captures", `{"amount":"1.00","final_capture":false}`)
		before.post(t, partly+"/cancel", ``)
		this.verify(t, this, part.at("ticket_id"))
		a := this.get(t, partly)
		if got := a.at("status") + " " + a.at("amount_captured") + " " + a.at("amount_refunded"); got != "captured 36.00 13.00" {
			t.Errorf("it is %s", got)
		}
		if fees := this.get(t, "/v1/tickets/"+part.at("ticket_id")).at("total"); a.at("fee_total") != fees {
			t.Errorf("fees of %s, in the ticket %s", a.at("fee_total"), fees)
		}
	})
	t.Run("exports", func(t *testing.T) {
		for _, dataset := range []string{"payments", "tickets", "events", "transactions"} {
			job := before.post(t, "/v1/exports/preview", `{"dataset":"`+dataset+`","format":"ndjson"}`).at("id")
			awaitExport(t, this, job)
			same(t, "/v1/exports/"+job+"/file", before, this)
		}
	})
	t.Run("a client that may refund gets no token, others do", func(t *testing.T) {
		if a := before.ask(s.ids["cashier"]); a.StatusCode != http.StatusInternalServerError {
			t.Errorf("%d %s", a.StatusCode, a.Text)
		}
		before.authenticate()
		s.refunds = false
		if text := s.provision(builds.older); !strings.HasPrefix(text, "nothing to change") {
			t.Errorf("provisioning what it knows: %s", text)
		}
		if a := before.get(t, "/readyz"); a.at("status") != "ready" {
			t.Error(a.Text)
		}
	})
	t.Run("a payout that it makes is held, and paid right by this build", func(t *testing.T) {
		this.Process.End("KILL")
		s.advance(t, 24*time.Hour, before)
		var id string
		testkit.Eventually(t, "a payout is held", func() bool {
			a := before.get(t, "/v1/payouts")
			id = a.at("data.0.id")
			return a.at("data.0.status") == "held"
		})
		if len(pays.asked()) != 0 {
			t.Errorf("it was paid: %v", pays.asked())
		}
		if a, err := before.send("POST", "/v1/payouts/"+id+"/release", "", `{"reason":"try"}`); err != nil || a.StatusCode != http.StatusConflict {
			t.Errorf("released: %v %s", err, a.Text)
		}
		again := s.sandbox(builds.this, pays.env()...).authenticate()
		again.post(t, "/v1/payouts/"+id+"/release", `{"reason":"all are updated"}`)
		testkit.Eventually(t, "it is paid", func() bool { return again.get(t, "/v1/payouts/"+id).at("status") == "paid" })
		a := again.get(t, "/v1/payouts/"+id)
		if got := cents(t, a.at("amount_captured")) - cents(t, a.at("amount_refunded")) - cents(t, a.at("fee_total")); got != cents(t, pays.asked()[id].Amount) || a.at("amount_captured") != "76.00" || cents(t, a.at("amount_refunded")) != refunded(t, again, whole, part) {
			t.Errorf("%s was paid of %s", pays.asked()[id].Amount, a.Text)
		}
		if a, err := before.send("GET", "/v1/payouts/"+id, "", ""); err != nil || a.at("code") != "record_damaged" {
			t.Errorf("%v %s", err, a.Text)
		}
		// Once it is gone, nothing of this is left.
		before.Process.End("KILL")
		next := again.pay(t, "20.00", `,"capture_method":"automatic"`)
		path := "/v1/payments/" + next.at("id")
		again.cashier().post(t, path+"/refunds", `{"amount":"5.00"}`)
		s.advance(t, 24*time.Hour, again)
		testkit.Eventually(t, "the next capture is paid", func() bool {
			return again.get(t, "/v1/transactions?type=capture&payment_id="+next.at("id")).at("data.0.status") == "settled"
		})
		if a := again.get(t, "/v1/payouts?limit=1"); cents(t, a.at("data.0.amount")) != 2000-500-cents(t, again.get(t, path).at("fee_total")) {
			t.Errorf("20.00 was captured, 5.00 refunded: %s", a.Text)
		}
		if found := again.Complaints(); len(found) > 0 {
			t.Errorf("this build complains:\n%s", strings.Join(found, "\n"))
		}
	})
}

func refunded(t *testing.T, in *instance, payments ...answer) (sum int64) {
	t.Helper()
	for _, p := range payments {
		sum += cents(t, in.get(t, "/v1/payments/"+p.at("id")).at("amount_refunded"))
	}
	return sum
}
