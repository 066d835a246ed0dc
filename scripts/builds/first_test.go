package builds_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv/testkit"
)

// TestFirst: what the first release has stored is read for ever. It writes one of
// everything and stops; this build goes on from there.
func TestFirst(t *testing.T) {
	s := newSite(t, needBuilds(t))
	to := newReceiver(t)
	first := s.sandbox(builds.first)
	s.provision(builds.first)
	first.authenticate()
	h := writeHistory(t, first, to)
	first.Process.End("TERM")

	pays := newPayStep(t)
	this := s.sandbox(builds.this, pays.env()...).authenticate()
	t.Run("answers", func(t *testing.T) { h.compare(t, this) })
	t.Run("tickets run again", func(t *testing.T) {
		for _, ticket := range h.tickets {
			this.verify(t, this, ticket)
		}
	})
	t.Run("idempotency keys keep their answers", func(t *testing.T) {
		for _, r := range h.repeats {
			a, err := this.send("POST", r.path, r.key, r.body)
			must(t, err)
			if a.Text != r.answer || a.Header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("%s: %d %s\nit was %s", r.path, a.StatusCode, a.Text, r.answer)
			}
		}
	})
	t.Run("payments go on", func(t *testing.T) {
		a := this.post(t, "/v1/payments/"+h.part+"/captures", `{"amount":"10.00"}`)
		if got := a.at("payment.status") + " " + a.at("payment.amount_captured") + " " + a.at("payment.amount_released"); got != "captured 40.00 10.00" {
			t.Errorf("it is %s", got)
		}
		this.post(t, "/v1/payments/"+h.open+"/cancel", `{"reason":"late"}`)
		this.post(t, "/v1/payments/"+h.review+"/reviews", `{"decision":"approve"}`)
		this.post(t, "/v1/payments/"+h.review+"/captures", ``)
		for _, id := range []string{h.part, h.open, h.review} {
			this.verify(t, this, this.get(t, "/v1/payments/"+id).at("ticket_id"))
		}
	})
	t.Run("deliveries go on", func(t *testing.T) {
		testkit.Eventually(t, "what happened since is delivered", func() bool { return to.by(builds.this) && to.has(`"late"`) })
		path := "/v1/webhooks/" + h.hook
		this.post(t, path+"/deliveries/"+h.delivery+"/replays", ``)
		testkit.Eventually(t, "an old one is sent again", func() bool {
			return this.get(t, path+"/deliveries/"+h.delivery+"/attempts").at("data.1.status") == "succeeded"
		})
		this.do(t, "PATCH", path, "", `{"description":"of this build"}`)
		this.post(t, path+"/secrets", ``)
	})
	t.Run("payouts go on", func(t *testing.T) {
		s.advance(t, 24*time.Hour, this)
		testkit.Eventually(t, "captures of then and now are settled", func() bool {
			return len(all(t, "/v1/transactions?type=capture&status=settled&payment_id="+h.part, this)) == 2
		})
		var payout answer
		testkit.Eventually(t, "it is paid", func() bool {
			payout = this.get(t, "/v1/payouts?limit=1&merchant_account_id="+s.account())
			return payout.at("data.0.status") == "paid"
		})
		if sum := cents(t, payout.at("data.0.amount_captured")) - cents(t, payout.at("data.0.fee_total")); sum != cents(t, pays.asked()[payout.at("data.0.id")].Amount) {
			t.Errorf("%s was paid as %v", payout.Text, pays.asked())
		}
	})
	t.Run("rules go on", func(t *testing.T) {
		set := "/v1/rule-sets/" + s.ids[tollgate.PrefixRuleSet]
		quote := `{"amount":"100.00","currency":"EUR","payee":"shop.example","merchant_account_id":"` + s.account() + `"}`
		if a := this.do(t, "POST", "/v1/quotes", "", quote); a.at("lines.2.rule") != h.rule {
			t.Errorf("%s", a.Text)
		}
		this.post(t, set+"/rollback", ``)
		testkit.Eventually(t, "it is out of force", func() bool { return this.do(t, "POST", "/v1/quotes", "", quote).at("lines.2.rule") == "" })
		this.post(t, "/v1/shadows/"+h.shadow+"/stop", ``)
	})
	t.Run("a payment of then expires", func(t *testing.T) {
		s.advance(t, 8*24*time.Hour, this)
		testkit.Eventually(t, "it is expired", func() bool { return this.get(t, "/v1/payments/"+h.expires).at("status") == "expired" })
	})
	t.Run("exports of all of it", func(t *testing.T) {
		for _, dataset := range []string{"payments", "transactions", "tickets", "events", "payouts", "audit"} {
			job := this.post(t, "/v1/exports/preview", `{"dataset":"`+dataset+`","format":"ndjson"}`).at("id")
			awaitExport(t, this, job)
			if file := this.get(t, "/v1/exports/"+job+"/file"); strings.Contains(file.Text, "damaged") {
				t.Errorf("%s: %s", dataset, file.Text)
			}
		}
	})
	if found := this.Complaints(); len(found) > 0 {
		t.Errorf("this build complains:\n%s", strings.Join(found, "\n"))
	}
	if ids := all(t, "/v1/events?types=integrity.failed", this); len(ids) > 0 {
		t.Errorf("integrity.failed: %v", ids)
	}
}

// history is what the first release has written, and its answers.
type history struct {
	answers map[string]string // by path
	repeats []struct{ path, key, body, answer string }
	tickets []string

	part, open, review, expires  string // payments that can still change
	hook, delivery, rule, shadow string
}

func writeHistory(t *testing.T, in *instance, to *receiver) *history {
	h := &history{answers: map[string]string{}}
	s := in.site
	repeated := func(path, body string) answer {
		key := rand.Text()
		a, err := in.send("POST", path, key, body)
		must(t, err)
		h.repeats = append(h.repeats, struct{ path, key, body, answer string }{path, key, body, a.Text})
		return a
	}
	h.hook = in.post(t, "/v1/webhooks", `{"url":"`+to.URL+`","event_types":["payment.*"],"signature_scheme":"both","description":"of the first"}`).at("id")
	payment := func(amount, payee, more string) string {
		a := repeated("/v1/payments", fmt.Sprintf(`{"amount":%q,"currency":"EUR","payee":%q,"merchant_account_id":%q,"reference":"r","metadata":{"a":"b"}%s}`, amount, payee, s.account(), more))
		id := a.at("id")
		if a.StatusCode == http.StatusForbidden {
			id = a.at("payment_id")
		}
		h.tickets = append(h.tickets, in.get(t, "/v1/payments/"+id).at("ticket_id"))
		return id
	}
	ids := []string{payment("11.00", "deny.test", ""), payment("12.00", "shop.example", `,"capture_method":"automatic"`)}
	paid := ids[1]
	in.advanceAndPay(t, paid)
	h.open, h.review, h.part = payment("20.00", "shop.example", ""), payment("700.00", "user@bank.example", ""), payment("50.00", "https://shop.example/a", "")
	h.expires = payment("21.00", "shop.example", "")
	canceled, rejected := payment("22.00", "shop.example", ""), payment("701.00", "shop.example", "")
	repeated("/v1/payments/"+h.part+"/captures", `{"amount":"30.00","final_capture":false,"reference":"c"}`)
	repeated("/v1/payments/"+canceled+"/cancel", `{"reason":"enough"}`)
	repeated("/v1/payments/"+rejected+"/reviews", `{"decision":"reject","note":"no"}`)
	ids = append(ids, h.open, h.review, h.part, h.expires, canceled, rejected)

	h.rule = in.publish(t, "first_fee")
	set := "/v1/rule-sets/" + s.ids[tollgate.PrefixRuleSet]
	activation := in.post(t, set+"/activations", `{"rule":"`+h.rule+`","merchant_account_ids":["`+s.account()+`"]}`).at("id")
	testkit.Eventually(t, "it is in force", func() bool { return in.get(t, set+"/activations/"+activation).at("status") == "active" })
	h.shadow = in.post(t, "/v1/shadows", `{"rule":"rule:card_fee@v1","against":"rule:card_fee@v2","merchant_account_ids":["`+s.account()+`"]}`).at("id")
	quote := `{"amount":"100.00","currency":"EUR","payee":"shop.example","merchant_account_id":"` + s.account() + `"}`
	testkit.Eventually(t, "it is compared", func() bool {
		in.do(t, "POST", "/v1/quotes", "", quote)
		return in.get(t, "/v1/shadows/"+h.shadow).at("totals.compared") > "0"
	})
	last := payment("23.00", "shop.example", `,"capture_method":"automatic"`)
	ids = append(ids, last)
	testkit.Eventually(t, "all is delivered", func() bool {
		return to.has(last) && in.get(t, "/v1/webhooks/"+h.hook+"/deliveries?limit=1").at("data.0.state") == "succeeded"
	})
	h.delivery = in.get(t, "/v1/webhooks/"+h.hook+"/deliveries?limit=1").at("data.0.id")
	var paths []string
	for _, dataset := range []string{"payments", "transactions", "tickets", "events", "audit"} {
		job := in.post(t, "/v1/exports/preview", `{"dataset":"`+dataset+`"}`).at("id")
		awaitExport(t, in, job)
		paths = append(paths, "/v1/exports/"+job, "/v1/exports/"+job+"/file")
	}
	for _, id := range ids {
		paths = append(paths, "/v1/payments/"+id, "/v1/transactions?payment_id="+id, "/v1/events?object_id="+id)
	}
	for _, ticket := range h.tickets {
		paths = append(paths, "/v1/tickets/"+ticket)
	}
	payout := in.get(t, "/v1/transactions?type=payout&merchant_account_id="+s.account()).at("data.0.payout_id")
	paths = append(paths, "/v1/transactions?payout_id="+payout, "/v1/transactions?limit=100", "/v1/events?limit=100&order=asc&types=payment.*,payout.*,rule.*,export.*")
	paths = append(
		paths, "/v1/webhooks/"+h.hook, "/v1/webhooks", "/v1/webhooks/"+h.hook+"/deliveries", "/v1/webhooks/"+h.hook+"/deliveries/"+h.delivery+"/attempts",
		set+"/activations", set+"/activations/"+activation, "/v1/shadows/"+h.shadow, "/v1/shadows/"+h.shadow+"/divergences", "/v1/rules?name=first_fee",
		"/v1/rules/"+in.get(t, "/v1/rules?name=first_fee").at("data.0.id"), "/v1/organizations/"+s.ids[tollgate.PrefixOrganization],
		"/v1/legal-entities/"+s.ids[tollgate.PrefixLegalEntity], "/v1/merchant-accounts/"+s.account(), "/v1/grants/"+s.ids[tollgate.PrefixGrant],
	)
	for _, path := range paths {
		h.answers[path] = in.get(t, path).comparable()
	}
	return h
}

// advanceAndPay lets a day end, and waits until a payment's capture is paid out.
func (in *instance) advanceAndPay(t *testing.T, payment string) {
	t.Helper()
	in.site.advance(t, 24*time.Hour, in)
	testkit.Eventually(t, "it is paid out", func() bool {
		return in.get(t, "/v1/transactions?type=capture&payment_id="+payment).at("data.0.status") == "settled"
	})
}

// sinceFirst is what the interface has learned to say since, beside [since].
var sinceFirst = regexp.MustCompile(`,"silent_rules":\[\]|"default_merchant_account_id":null,`)

// counted are the counts of a shadow: an instance adds to them some time after it compared, and so after the answer of the history was kept.
var counted = regexp.MustCompile(`"(compared|equal)":[1-9]\d*`)

// compare asks for all of it again.
func (h *history) compare(t *testing.T, in *instance) {
	for path, was := range h.answers {
		a, err := in.send("GET", path, "", "")
		must(t, err)
		is := sinceFirst.ReplaceAllString(a.comparable(), "")
		if strings.HasPrefix(path, "/v1/shadows/") {
			is, was = counted.ReplaceAllString(is, "$1"), counted.ReplaceAllString(was, "$1")
		}
		if is != was {
			t.Errorf("%s: %d %s\nit was %s", path, a.StatusCode, is, was)
		}
	}
}
