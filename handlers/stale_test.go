package handlers_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
)

// Another instance changes the configuration, and this one has heard nothing
// of it when it commits: the commit notices, and the payment is priced and
// decided again with what is in force.
func TestConfigurationChangesBeforeTheCommit(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*tollgate.Config)
		status  int
		code    string
		commits int // scripts sent: what committed or tried to
		later   int // by the next request; 0: one less
		seen    func(i *instance, r reply) bool
	}{
		"rule set": {
			change: func(c *tollgate.Config) {
				set := tollgate.RuleSet{ID: c.RuleSets[0].ID, Version: 2, Rules: []tollgate.Citation{{Name: "platform_fee", Version: 1}}}
				c.RuleSets, c.MerchantAccounts[0].RuleSet = append(c.RuleSets, set), set
			},
			status: 201, commits: 2,
			seen: func(i *instance, r reply) bool {
				ticket := i.call("GET", "/v1/tickets/"+r.body["ticket_id"].(string), "")
				i.want(ticket, 200, "")
				lines := ticket.body["lines"].([]any)
				return len(lines) == 1 && lines[0].(map[string]any)["rule"] == "rule:platform_fee@v1"
			},
		},
		"perimeter": {
			change: func(c *tollgate.Config) {
				c.Perimeters = append(c.Perimeters, tollgate.PerimeterDocument{
					ID: c.Perimeters[0].ID, Version: 2, Constraints: jsontext.Value(`{"payees_blocked":["shop.example"]}`),
				})
				c.MerchantAccounts[0].Perimeter.Version = 2
			},
			status: 403, code: "perimeter_denied", commits: 2,
			seen: func(_ *instance, r reply) bool {
				return r.body["perimeter"].(map[string]any)["version"] == 2.0 && r.body["payment_id"] != nil
			},
		},
		// The second time it is refused before a commit, after asking whether
		// this key had an answer already, and the refusal is audited.
		"account paused": {
			change: func(c *tollgate.Config) { c.MerchantAccounts[0].Status = "paused" },
			status: 409, code: "merchant_account_inactive", commits: 3,
		},
		"organization suspended": {
			change: func(c *tollgate.Config) { c.Organization.Status = "suspended" }, // which ends its tokens
			status: 401, code: "token_invalid", commits: 2, later: 1,                 // the grant is known by then
		},
	} {
		t.Run(name, func(t *testing.T) {
			redis := redistest.Single(t)
			wire := redistest.Proxy(t, redis.URL)
			i := startOn(t, wire.URL)
			i.authenticate()
			i.want(i.call("POST", "/v1/payments", `{`+good+`}`, "Idempotency-Key", "before"), 201, "") // fills the cache

			other := openWith(t, rediskv.Options{URL: redis.URL, Clock: time.Now})
			test.change(&i.config)
			if _, err := redistest.Provision(t.Context(), other, i.config, false); err != nil {
				t.Fatal(err)
			}
			wire.Reset()
			r := i.call("POST", "/v1/payments", `{`+good+`}`, "Idempotency-Key", "after")
			i.want(r, test.status, test.code)
			if got := wire.Count("EVALSHA"); got != test.commits {
				t.Errorf("%d scripts were sent: %v", got, wire.Counts())
			}
			if test.seen != nil && !test.seen(i, r) {
				t.Errorf("not what is in force now: %s", r.text)
			}
			// It is cached now: the next one is a single commit again, or one
			// question and the audit entry of the refusal.
			wire.Reset()
			if i.call("POST", "/v1/payments", `{`+good+`}`, "Idempotency-Key", "later"); wire.Count("EVALSHA") != cmp.Or(test.later, test.commits-1) {
				t.Errorf("afterwards: %v", wire.Counts())
			}
		})
	}
}
