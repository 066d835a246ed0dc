package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// Racing twins, half of them on another instance: one payment, and the same
// bytes for everyone.
func TestTwinsOnTwoInstances(t *testing.T) {
	s := newSite(t, redistest.URL(t))
	one, two := s.serve(), s.serve()
	bases := [2]string{one.serving(), two.serving()}
	s.authenticate(bases[0]) // good on both
	const rounds, twins = 10, 16
	for round := range rounds {
		answers := make([]received, twins)
		together(twins, func(n int) {
			var err error
			answers[n], err = s.send("POST", bases[n%2]+"/v1/payments", fmt.Sprintf("twin-%d", round),
				`{"amount":"100.00","currency":"EUR","payee":"shop.example"}`)
			if err != nil {
				t.Error(err)
			}
		})
		repeated := 0
		for _, a := range answers {
			if a.Response == nil || a.StatusCode != http.StatusCreated || a.Text != answers[0].Text {
				t.Fatalf("%+v, another twin %s", a, answers[0].Text)
			}
			if a.Header.Get("Idempotent-Replayed") == "true" {
				repeated++
			}
		}
		if repeated != twins-1 {
			t.Errorf("%d of %d answers are repeats", repeated, twins)
		}
		var p seenPayment
		answers[0].into(t, &p)
		// Captures race across instances too, each with a key of its own: no
		// more than there is to capture.
		captured := make([]int, twins)
		together(twins, func(n int) {
			r, err := s.send("POST", bases[n%2]+"/v1/payments/"+p.ID+"/captures", fmt.Sprintf("capture-%d-%d", round, n),
				`{"amount":"30.00","final_capture":false}`)
			if err != nil || (r.StatusCode != http.StatusCreated && r.StatusCode != http.StatusUnprocessableEntity) {
				t.Errorf("capture: %v %s", err, r.Text)
				return
			}
			if r.StatusCode == http.StatusCreated {
				captured[n] = 1
			}
		})
		count := 0
		for _, n := range captured {
			count += n
		}
		s.must(http.StatusOK, "GET", bases[1]+"/v1/payments/"+p.ID, "", "").into(t, &p)
		if count != 3 || p.AmountCaptured != 9000 || p.AmountCapturable != 1000 {
			t.Errorf("%d captures: %+v", count, p)
		}
	}
	if all := pages[seenTransaction](s, bases[0]+"/v1/transactions?limit=100&type=authorization"); len(all) != rounds {
		t.Errorf("%d payments, want %d", len(all), rounds)
	}
}

// What is provisioned reaches every instance by push, long before what is
// cached would be read again (30 s).
func TestProvisioningIsPushed(t *testing.T) {
	s := newSite(t, redistest.URL(t))
	one, two := s.serve(), s.serve()
	bases := []string{one.serving(), two.serving()}
	s.authenticate(bases[0])
	const payment = `{"amount":"100.00","currency":"EUR","payee":"shop.example"}`
	ruleSet := func(base string) int {
		var q struct {
			RuleSet struct {
				Version int `json:"version"`
			} `json:"rule_set"`
		}
		s.must(http.StatusOK, "POST", base+"/v1/quotes", "", payment).into(t, &q)
		return q.RuleSet.Version
	}
	for _, base := range bases {
		if v := ruleSet(base); v != 1 { // and is cached
			t.Fatalf("rule set %d", v)
		}
	}
	s.activate(2, `"rule:platform_fee@v1"`)
	begin := time.Now()
	for _, base := range bases {
		testkit.Eventually(t, "the new rule set is used for quotes", func() bool { return ruleSet(base) == 2 })
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("seen everywhere after %s", took)
	}
	// A payment is never priced with an old one, however late the push.
	s.activate(3, `"rule:card_fee@v2"`)
	for n, base := range bases {
		var p seenPayment
		s.must(http.StatusCreated, "POST", base+"/v1/payments", fmt.Sprint("new-", n), payment).into(t, &p)
		var ticket struct {
			Lines []struct {
				Rule string `json:"rule"`
			} `json:"lines"`
		}
		s.must(http.StatusOK, "GET", base+"/v1/tickets/"+p.TicketID, "", "").into(t, &ticket)
		if len(ticket.Lines) != 1 || ticket.Lines[0].Rule != "rule:card_fee@v2" {
			t.Errorf("priced with %v", ticket.Lines)
		}
	}
}
