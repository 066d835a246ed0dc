package handlers_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"tollgate/rediskv/redistest"
)

// atOnce sends n requests from as many goroutines, which start together.
func (w *world) atOnce(n int, request func(i int) (method, path, body string, headers []string)) []reply {
	w.t.Helper()
	replies, errs := make([]reply, n), make([]error, n)
	begin := make(chan struct{})
	var done sync.WaitGroup
	for i := range n {
		method, path, body, headers := request(i)
		req := w.request(method, path, body, headers...)
		done.Go(func() {
			<-begin
			replies[i], errs[i] = w.try(req)
		})
	}
	close(begin)
	done.Wait()
	for _, err := range errs {
		check(w.t, err)
	}
	return replies
}

// TestRacingCreations: 64 creations with one key at once are one payment and
// 64 answers, the same to the byte, of which one is not marked as a repeat
// (interface §4). On a second server of the same store too.
func TestRacingCreations(t *testing.T) {
	w := newWorld(t)
	for name, race := range map[string]struct {
		body, code string
		status     int
		kept       int // events that there are afterwards
	}{
		"authorized": {`{"merchant_account_id":"` + w.vars["eur"] + `","amount":"10.00","currency":"EUR","payee":"shop.example"}`, "", 201, 1},
		"automatic":  {`{"merchant_account_id":"` + w.vars["eur"] + `","amount":"10.00","currency":"EUR","payee":"auto.example","capture_method":"automatic"}`, "", 201, 1},
		"denied":     {`{"merchant_account_id":"` + w.vars["eur"] + `","amount":"10.00","currency":"EUR","payee":"deny.test"}`, "perimeter_denied", 403, 1},
		"refused":    {`{"merchant_account_id":"` + w.vars["eur"] + `","amount":"10.00","currency":"EUR","payee":"refuse.test"}`, "rule_rejected", 422, 0},
	} {
		tail := w.get(w.call("GET", "/v1/events?types=payment.*", ""), "next_cursor")
		replies := w.atOnce(64, func(i int) (string, string, string, []string) {
			key := name
			if i%2 == 1 {
				key = `"` + name + `"`
			}
			return "POST", "/v1/payments", race.body, []string{"Idempotency-Key", key}
		})
		first := 0
		for _, r := range replies {
			w.want(r, race.status, race.code)
			if r.text != replies[0].text || r.Header.Get("Location") != replies[0].Header.Get("Location") {
				t.Fatalf("%s: two answers:\n%s\n%s", name, replies[0].text, r.text)
			}
			if r.Header.Get("Idempotent-Replayed") == "" {
				first++
			}
		}
		if first != 1 {
			t.Errorf("%s: %d answers are not marked as repeats", name, first)
		}
		events := w.call("GET", "/v1/events?cursor="+tail, "").body["data"].([]any)
		if len(events) != race.kept {
			t.Errorf("%s: %d payments", name, len(events))
		}
		other := strings.Replace(race.body, `"10.00"`, `"10.01"`, 1)
		for _, r := range w.atOnce(8, func(int) (string, string, string, []string) {
			return "POST", "/v1/payments", other, []string{"Idempotency-Key", name}
		}) {
			w.want(r, 422, "idempotency_key_reused")
		}
	}
}

// TestRacingBodies: two different requests under one key at once; one of them
// is carried out, all others of its kind repeat it and the rest is refused.
func TestRacingBodies(t *testing.T) {
	w := newWorld(t)
	replies := w.atOnce(32, func(i int) (string, string, string, []string) {
		body := fmt.Sprintf(`{"merchant_account_id":%q,"amount":"%d.00","currency":"EUR","payee":"shop.example"}`, w.vars["eur"], 10+i%2)
		return "POST", "/v1/payments", body, []string{"Idempotency-Key", "contested"}
	})
	bodies := make(map[string]int)
	for _, r := range replies {
		switch r.StatusCode {
		case 201:
			bodies[r.text]++
		default:
			w.want(r, 422, "idempotency_key_reused")
		}
	}
	if len(bodies) != 1 {
		t.Errorf("%d payments under one key", len(bodies))
	}
	for _, n := range bodies {
		if n != 16 {
			t.Errorf("%d of the 16 equal requests were answered", n)
		}
	}
}

// TestRacingCaptures: whatever races, no more than the amount is captured, the
// law of interface §3 holds, and every success is one capture.
func TestRacingCaptures(t *testing.T) {
	w := newWorld(t)
	for round := range 4 {
		body := fmt.Sprintf(`{"merchant_account_id":%q,"amount":"10.00","currency":"EUR","payee":"shop.example"}`, w.vars["eur"])
		id := w.get(w.want(w.pay(fmt.Sprint("race", round), body), 201, ""), "id")
		replies := w.atOnce(40, func(i int) (string, string, string, []string) {
			switch {
			case round > 0 && i == 20:
				return "POST", "/v1/payments/" + id + "/cancel", "", nil
			case round > 1 && i == 30:
				return "POST", "/v1/payments/" + id + "/captures", "", nil
			default:
				return "POST", "/v1/payments/" + id + "/captures", `{"amount":"0.70","final_capture":false}`, []string{"Idempotency-Key", fmt.Sprint(round, "-", i%20)}
			}
		})
		captures := make(map[string]bool)
		for _, r := range replies {
			switch r.StatusCode {
			case 200: // the cancellation
			case 201:
				captures[w.get(r, "id")] = true
			case 409:
				w.want(r, 409, "payment_state_invalid")
			default:
				w.want(r, 422, "capture_amount_exceeds_capturable")
			}
		}
		p := w.call("GET", "/v1/payments/"+id, "")
		captured, capturable, released := minor(t, w.get(p, "amount_captured")), minor(t, w.get(p, "amount_capturable")), minor(t, w.get(p, "amount_released"))
		if captured+capturable+released != 1000 || captured > 1000 {
			t.Errorf("captured %d + capturable %d + released %d", captured, capturable, released)
		}
		rows := w.call("GET", "/v1/transactions?limit=100&type=capture&payment_id="+id, "").body["data"].([]any)
		sum := 0
		for _, row := range rows {
			sum += minor(t, row.(map[string]any)["amount"].(string))
		}
		events := w.call("GET", "/v1/events?limit=100&types=payment.captured&object_id="+id, "").body["data"].([]any)
		if sum != captured || len(rows) != len(captures) || len(events) != len(captures) {
			t.Errorf("%d captures were answered; %d transactions of %d, %d events, %d captured", len(captures), len(rows), sum, len(events), captured)
		}
	}
}

// minor reads an amount in euros.
func minor(t *testing.T, s string) int {
	t.Helper()
	var euros, cents int
	_, err := fmt.Sscanf(s, "%d.%02d", &euros, &cents)
	check(t, err)
	return euros*100 + cents
}

// TestRepeatsOnAnotherInstance: a key is one key on every instance, with the
// clock an hour on.
func TestRepeatsOnAnotherInstance(t *testing.T) {
	url := redistest.URL(t)
	w := newWorldOn(t, url, newRecorder(t))
	body := fmt.Sprintf(`{"merchant_account_id":%q,"amount":"%d.00","currency":"EUR","payee":"shop.example"}`, w.vars["eur"], 1+rand.IntN(900))
	first := w.want(w.pay("one", body), 201, "")
	other := w.twin()
	other.advance(6 * 24 * time.Hour)
	repeated := other.want(other.pay("one", body), 201, "")
	if repeated.text != first.text || repeated.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%s\n%s", first.text, repeated.text)
	}
}
