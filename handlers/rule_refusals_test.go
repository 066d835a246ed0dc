package handlers_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"tollgate/handlers"
	"tollgate/handlers/auth"
	"tollgate/wasm"
)

// TestPublicationRefused: every row is a rule that can be published with one
// thing changed. Nothing is left of any of them; what can be wrong with the
// signature itself is tried in package auth.
func TestPublicationRefused(t *testing.T) {
	w := newWorld(t)
	w.want(w.call("POST", "/v1/rules", w.newPublication("rule:shop_fee@v3", "3", "team").body(t)), 201, "")
	resigned := func(change func(*publication)) func(*publication) {
		return func(p *publication) { change(p); w.sign(p, "team", nil) }
	}
	stated := func(change func(*auth.RuleStatement)) func(*publication) {
		return func(p *publication) { w.sign(p, "team", change) }
	}
	first := func(change func(*wasm.GoldenCase)) func(*publication) {
		return resigned(func(p *publication) {
			p.Golden = slices.Clone(p.Golden)
			change(&p.Golden[0])
		})
	}
	foreign := func(name string) func(*publication) {
		return func(p *publication) {
			key := w.private["team"]
			w.private["team"] = w.private[name]
			w.sign(p, "team", nil)
			w.private["team"] = key
		}
	}
	for _, row := range []struct {
		name   string
		code   string
		param  string
		change func(*publication)
	}{
		{"a bit of the module", "rule_signature_invalid", "signature", func(p *publication) { p.Module[len(p.Module)-1] ^= 1 }},
		{"a byte behind the module", "rule_signature_invalid", "signature", func(p *publication) { p.Module = append(p.Module, 0) }},
		{"no module", "rule_signature_invalid", "signature", func(p *publication) { p.Module = nil }},
		{"a golden case less", "rule_signature_invalid", "signature", func(p *publication) { p.Golden = p.Golden[1:] }},
		{"another golden case", "rule_signature_invalid", "signature", func(p *publication) { p.Golden[0].Amount = "100.01" }},
		{"golden cases in another order", "rule_signature_invalid", "signature", func(p *publication) { slices.Reverse(p.Golden) }},
		{"another version", "rule_signature_invalid", "signature", func(p *publication) { p.Rule = "rule:shop_fee@v5" }},
		{"another name", "rule_signature_invalid", "signature", func(p *publication) { p.Rule = "rule:shop_fees@v4" }},
		{"unsigned", "rule_signature_invalid", "signature", func(p *publication) { p.Signature = "" }},
		{"signature cut off", "rule_signature_invalid", "signature", func(p *publication) { p.Signature = p.Signature[:strings.LastIndexByte(p.Signature, '.')+1] }},
		{"an unknown signer", "rule_signature_invalid", "signature", stated(func(s *auth.RuleStatement) { s.Signer = "sig_nobody" })},
		{"a client as signer", "rule_signature_invalid", "signature", stated(func(s *auth.RuleStatement) { s.Signer = w.vars["client_shop"] })},
		{"a signer of another organization", "rule_signature_invalid", "signature", stated(func(s *auth.RuleStatement) { s.Signer = w.vars["other_team"] })},
		{"a disabled signer", "rule_signature_invalid", "signature", func(p *publication) { w.sign(p, "retired", nil) }},
		{"another signer's key", "rule_signature_invalid", "signature", foreign("retired")},
		{"a client's key", "rule_signature_invalid", "signature", foreign("shop")},
		{"another organization", "rule_signature_invalid", "signature", stated(func(s *auth.RuleStatement) { s.Organization = w.vars["other_org"] })},
		{"from the future", "rule_signature_invalid", "signature", stated(func(s *auth.RuleStatement) { s.IssuedAt += 60 })},

		{"a version below the latest", "rule_invalid", "rule", resigned(func(p *publication) { p.Rule = "rule:shop_fee@v2" })},
		{"a name that comes with the service", "rule_invalid", "rule", resigned(func(p *publication) { p.Rule = "rule:platform_fee@v9" })},
		{"the latest with other content", "rule_exists", "rule", resigned(func(p *publication) { p.Rule = "rule:shop_fee@v3" })},
		{"a case that does not hold", "rule_invalid", "module", first(func(c *wasm.GoldenCase) { c.Lines = []wasm.GoldenLine{{Label: "Shop fee", Amount: "1.51"}} })},
		{"a case with another label", "rule_invalid", "module", first(func(c *wasm.GoldenCase) { c.Lines = []wasm.GoldenLine{{Label: "Fee", Amount: "1.50"}} })},
		{"a case without its line", "rule_invalid", "module", first(func(c *wasm.GoldenCase) { c.Lines = nil })},
		{"a case that should be refused", "rule_invalid", "module", first(func(c *wasm.GoldenCase) { c.Lines, c.Refused = nil, "No." })},
		{"a case that should fail", "rule_invalid", "module", first(func(c *wasm.GoldenCase) { c.Lines, c.Failed = nil, true })},
		{"a case in no currency", "rule_invalid", "golden", first(func(c *wasm.GoldenCase) { c.Currency = "EURO" })},
		{"no module at all, signed", "rule_invalid", "module", resigned(func(p *publication) { p.Module = nil })},
		{"half a module, signed", "rule_invalid", "module", resigned(func(p *publication) { p.Module = p.Module[:len(p.Module)/2] })},
		{"a module with something behind it, signed", "rule_invalid", "module", resigned(func(p *publication) { p.Module = append(p.Module, 1) })},
		{"a module that is too large, signed", "rule_invalid", "module", resigned(func(p *publication) { p.Module = make([]byte, 256<<10+1) })},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := w.newPublication("rule:shop_fee@v4", "1.5", "team")
			row.change(&p)
			before := dump(t, w.redis)
			r := w.call("POST", "/v1/rules", p.body(t))
			if r.body["code"] != row.code || r.body["param"] != row.param || r.body["rule"] != p.Rule {
				t.Errorf("%d %s\nwant %s %s", r.StatusCode, r.text, row.code, row.param)
			}
			if changes := w.left(before, dump(t, w.redis), []trace{auditEntry}); len(changes) > 0 {
				t.Errorf("wrote %s", strings.Join(changes, "\n\t"))
			}
		})
	}
	w.want(w.call("POST", "/v1/rules", w.newPublication("rule:shop_fee@v4", "1.5", "team").body(t)), 201, "")
}

// Where modules cannot be examined none is published. What is there already is
// answered as everywhere, and a request that is wrong is refused for that.
func TestPublishingUnavailable(t *testing.T) {
	w := newWorld(t)
	there := w.newPublication("rule:shop_fee@v3", "3", "team").body(t)
	w.want(w.call("POST", "/v1/rules", there), 201, "")
	w.serveWith(func(c *handlers.Config) { c.Examine = nil })
	before := dump(t, w.redis)
	next := w.newPublication("rule:shop_fee@v4", "4", "team")
	w.want(w.call("POST", "/v1/rules", next.body(t), "Idempotency-Key", "k"), 501, "publishing_unavailable")
	if changes := before.changes(dump(t, w.redis)); len(changes) > 0 {
		t.Errorf("%s", strings.Join(changes, "\n"))
	}
	next.Signature = "x"
	w.want(w.call("POST", "/v1/rules", next.body(t)), 422, "rule_signature_invalid")
	w.want(w.call("POST", "/v1/rules", there), 200, "")
	w.serve()
	next = w.newPublication("rule:shop_fee@v4", "4", "team")
	w.want(w.call("POST", "/v1/rules", next.body(t), "Idempotency-Key", "k"), 201, "")
}

// TestRacingPublications: of many that publish one version at once, one does,
// and the others hear that it exists; the same bytes are the same rule for all.
func TestRacingPublications(t *testing.T) {
	w := newWorld(t)
	same := w.newPublication("rule:shop_fee@v1", "1.5", "team").body(t)
	other := w.newPublication("rule:shop_fee@v1", "2.5", "team").body(t)
	w.token("all", "")
	var all sync.WaitGroup
	answers := make([]reply, 4) // as many as a client's share allows at once
	for n := range answers {
		body := same
		if n%2 == 1 {
			body = other
		}
		request := w.request("POST", "/v1/rules", body)
		all.Go(func() {
			r, err := w.try(request)
			if err != nil {
				t.Error(err)
			}
			answers[n] = r
		})
	}
	all.Wait()
	made, winner := 0, -1
	for n, r := range answers {
		if r.StatusCode == 201 {
			made, winner = made+1, n%2
		}
	}
	if made != 1 {
		t.Fatalf("%d of them were made", made)
	}
	for n, r := range answers {
		want := 409
		if n%2 == winner {
			want = 200
		}
		if r.StatusCode != want && r.StatusCode != 201 {
			t.Errorf("%d: %d %s, want %d", n, r.StatusCode, r.text, want)
		}
	}
	if events := w.call("GET", "/v1/events?types=rule.published", ""); strings.Count(events.text, `"type":"rule.published"`) != 1 {
		t.Errorf("events: %s", events.text)
	}
}

// TestRacingActivations: twins with one key make one activation; without a key
// only one is scheduled for an account at a time.
func TestRacingActivations(t *testing.T) {
	w := newWorld(t)
	w.publish("rule:shop_fee@v1", "1.5")
	path := "/v1/rule-sets/" + w.vars["wide_rules"] + "/activations"
	race := func(n int, key func(int) string) (codes map[string]int, bodies map[string]bool) {
		var all sync.WaitGroup
		var mu sync.Mutex
		codes, bodies = map[string]int{}, map[string]bool{}
		for k := range n {
			var headers []string
			if name := key(k); name != "" {
				headers = []string{"Idempotency-Key", name}
			}
			request := w.request("POST", path, `{"rule":"rule:shop_fee@v1","adds":true,"at":"2026-03-03T00:00:00Z"}`, headers...)
			all.Go(func() {
				r, err := w.try(request)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				codes[fmt.Sprint(r.StatusCode, r.body["code"])]++
				if r.StatusCode == 201 {
					bodies[r.text] = true
				}
			})
		}
		all.Wait()
		return codes, bodies
	}
	w.token("all", "")
	codes, bodies := race(12, func(int) string { return "twin" })
	if codes["201 <nil>"] != 12 || len(bodies) != 1 {
		t.Errorf("twins: %v, %d answers", codes, len(bodies))
	}
	id := w.get(w.call("GET", path, ""), "data")
	if strings.Count(id, "act_") == 0 {
		t.Fatal(id)
	}
	list := w.call("GET", path, "").body["data"].([]any)
	w.want(w.call("POST", path+"/"+list[0].(map[string]any)["id"].(string)+"/cancel", ""), 200, "")
	codes, _ = race(12, func(int) string { return "" })
	if codes["201 <nil>"] != 1 || codes["409activation_state_invalid"] != 11 {
		t.Errorf("without a key: %v", codes)
	}
}
