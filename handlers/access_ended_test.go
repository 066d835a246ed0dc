package handlers_test

import (
	"context"
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/rediskv/testkit"
)

// accessEnds are the changes that end tokens at once, by another instance.
var accessEnds = map[string]func(t *testing.T, w *world, c *tollgate.Config){
	"disabled client": func(t *testing.T, w *world, c *tollgate.Config) {
		for i := range c.Clients {
			if c.Clients[i].ID == w.vars["client_shop"] {
				c.Clients[i].Status = "disabled"
			}
		}
	},
	"removed key": func(t *testing.T, w *world, c *tollgate.Config) {
		_, public, err := auth.GenerateClientKey(rand.Reader, "ES256")
		must(t, public, err)
		for i := range c.Clients {
			if c.Clients[i].ID == w.vars["client_shop"] {
				c.Clients[i].Keys = []string{string(public)}
			}
		}
	},
	"revoked token": func(_ *testing.T, w *world, _ *tollgate.Config) {
		token := w.token("all", "")
		w.want(w.alone().own("/oauth2/revoke", "shop", token), 200, "")
	},
	"suspended organization": func(t *testing.T, w *world, c *tollgate.Config) { c.Organization.Status = "suspended" },
	"closed organization":    func(t *testing.T, w *world, c *tollgate.Config) { c.Organization.Status = "closed" },
}

// memoryAlone are the operations that ask Redis nothing, so that an instance
// learns by the notice that a token has ended.
var memoryAlone = []string{"createQuote", "readClock", "moveClock"}

// Whoever is shut out is shut out of every operation: at once where Redis is
// asked, by an instance that has not heard of it, too, and with the notice
// everywhere.
func TestAccessEndsForEveryOperation(t *testing.T) {
	for name, end := range accessEnds {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			operations := w.operations()
			w.want(w.call("POST", "/v1/quotes", `{"merchant_account_id":"`+w.vars["eur"]+`",`+good+`}`), 200, "")
			stranger := w.token("other_all", "")
			end(t, w, w.configs[""])
			w.apply("")
			before := dump(t, w.redis)
			for _, noticed := range []bool{false, true} {
				if noticed {
					w.store.Refresh(w.vars["org"])
				}
				for _, o := range operations {
					if !o.scoped || (!noticed && slices.Contains(memoryAlone, o.id)) {
						continue
					}
					r := w.call(o.method, o.path, o.text(nil), o.headers()...)
					if code, _ := r.body["code"].(string); r.StatusCode != 401 || code != "token_invalid" {
						t.Errorf("%s (noticed: %t): %d %s", o.id, noticed, r.StatusCode, r.text)
					}
				}
			}
			// Nothing is written but the record of what was denied.
			if changes := before.without().changes(dump(t, w.redis).without()); len(changes) > 0 {
				t.Errorf("written: %v", changes)
			}
			w.want(w.call("GET", "/v1/organizations/"+w.vars["other_org"], "", "Authorization", "Bearer "+stranger), 200, "")
		})
	}
}

// Tokens from before do not come back with the client or the organization.
func TestAccessThatComesBackNeedsNewTokens(t *testing.T) {
	for _, name := range []string{"disabled client", "suspended organization", "closed organization"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before := w.token("all", "")
			sound := *w.configs[""]
			sound.Clients = slices.Clone(sound.Clients)
			accessEnds[name](t, w, w.configs[""])
			w.apply("")
			w.configs[""] = &sound
			w.apply("")
			w.store.Refresh(w.vars["org"])
			for _, path := range []string{"/v1/quotes", "/v1/payments"} {
				body := `{"merchant_account_id":"` + w.vars["eur"] + `",` + good + `}`
				w.want(w.call("POST", path, body, "Idempotency-Key", "old", "Authorization", "Bearer "+before), 401, "token_invalid")
			}
			clear(w.tokens)
			w.want(w.call("POST", "/v1/quotes", `{"merchant_account_id":"`+w.vars["eur"]+`",`+good+`}`), 200, "")
		})
	}
}

// A quote from memory hears of it by push, and by the look at what has changed
// where the push does not arrive.
func TestQuotesHearThatAccessEnds(t *testing.T) {
	t.Parallel() // it waits most of its time
	for way, follow := range map[string]func(context.Context, *world){
		"push": func(ctx context.Context, w *world) { w.store.Watch(ctx) },
		"look": func(ctx context.Context, w *world) { w.server.Follow(ctx) },
	} {
		for name, end := range accessEnds {
			t.Run(way+", "+name, func(t *testing.T) {
				w := newWorld(t)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { follow(ctx, w); close(ended) }()
				defer func() { cancel(); <-ended }()
				body := `{"merchant_account_id":"` + w.vars["eur"] + `",` + good + `}`
				w.want(w.call("POST", "/v1/quotes", body), 200, "")
				end(t, w, w.configs[""])
				w.apply("")
				testkit.Within(t, "a quote is refused", 30*time.Second, func() bool { return w.call("POST", "/v1/quotes", body).StatusCode == 401 })
			})
		}
	}
}
