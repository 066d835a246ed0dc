package handlers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tollgate"
	"tollgate/handlers"
)

// TestEveryRouteComparesTheGrant: a grant that was revoked by another process is dead at
// once for every route that asks Redis, on an instance that has not heard of it. Each
// route has a client of its own, whose grant the instance reads just before it is revoked:
// a refusal has it read all of the organization again, so only what the route's own script
// or read compares refuses here.
func TestEveryRouteComparesTheGrant(t *testing.T) {
	s := newSuite(t)
	s.operations = slices.DeleteFunc(s.operations, func(o *operation) bool { return !o.scoped || slices.Contains(memoryAlone, o.id) })
	for _, o := range s.operations {
		s.addClient("client of " + o.id)
	}
	s.apply("")
	for _, o := range s.operations {
		route, token := s.route(o), s.bearer("client of "+o.id, "")
		quote := `{"merchant_account_id":"` + s.vars["eur"] + `",` + good + `}`
		s.want(s.call("POST", "/v1/quotes", quote, "Authorization", token[0]), 200, "")
		grants := s.configs[""].Grants
		g := &grants[slices.IndexFunc(grants, func(g tollgate.Grant) bool { return g.ID == s.vars["grant_client of "+o.id] })]
		g.Status, g.RevokedAt = "revoked", tollgate.At(s.now())
		s.apply("")
		before := dump(t, s.redis)
		r := s.ask(o, "stale", token...)
		s.answered(identity{name: "revoked elsewhere"}, route, r, "401 token_invalid")
		after := dump(t, s.redis)
		if changes := before.without().changes(after.without()); len(changes) > 0 {
			t.Errorf("%s %s: written: %s", route.Method, route.Path, strings.Join(changes, "\n"))
		}
		s.traced(identity{name: "revoked elsewhere"}, added(before.stream(":audit"), after.stream(":audit")), map[string]handlers.Route{r.Header.Get("Request-Id"): route})
	}
	if len(s.operations) < 60 {
		t.Errorf("only %d routes were asked", len(s.operations))
	}
}

// TestEveryRouteForEveryClient: whatever a client authenticates at with an assertion
// refuses everybody else alike, and writes nothing.
func TestEveryRouteForEveryClient(t *testing.T) {
	s := newSuite(t, append([]string{"second"}, enders...)...)
	s.end()
	s.configs["other_"].Organization.Status = "suspended"
	s.apply("other_")
	used := s.assertion("kiosk")
	s.want(s.askAs("/oauth2/token", tokenForm(used).Encode()), 200, "")
	clients := []struct {
		name      string
		assertion func() string
		counted   bool
	}{
		{"of nobody", func() string {
			return s.forged("kiosk", func(c map[string]any) { c["iss"], c["sub"] = "cli_nobody", "cli_nobody" })
		}, true},
		{"of another client", func() string {
			return s.forged("second", func(c map[string]any) { c["iss"], c["sub"] = s.vars["client_kiosk"], s.vars["client_kiosk"] })
		}, true},
		{"of another organization's client", func() string { return s.assertion("other_kiosk") }, false},
		{"by a key that was removed", func() string { return s.assertion("removed key") }, true},
		{"of a disabled client", func() string { return s.assertion("disabled client") }, false},
		{"used before", func() string { return used }, false},
	}
	found := 0
	for _, o := range s.operations {
		route := s.route(o)
		if !strings.HasPrefix(route.Path, "/oauth2/") {
			continue
		}
		found++
		for _, c := range clients {
			assertion, before := c.assertion(), dump(t, s.redis)
			r := s.askAs(route.Path, o.form, "client_assertion="+assertion)
			after := dump(t, s.redis)
			said := fmt.Sprint(r.StatusCode, r.body["error"], r.body["code"], r.body["error_description"], r.Header.Get("WWW-Authenticate"))
			if said != fmt.Sprint(401, "invalid_client", "token_invalid", "The client could not be authenticated.", "") {
				t.Errorf("%s %s: %d %s", route.Path, c.name, r.StatusCode, r.text)
			}
			entries, counts := len(added(before.stream(":audit"), after.stream(":audit"))), after.refusals("")-before.refusals("")
			if c.counted != (counts == 1) || c.counted == (entries == 1) {
				t.Errorf("%s %s: %d entries, %d counted", route.Path, c.name, entries, counts)
			}
			if changes := before.without().changes(after.without()); len(changes) > 0 {
				t.Errorf("%s %s: written: %s", route.Path, c.name, strings.Join(changes, "\n"))
			}
		}
		s.want(s.askAs(route.Path, o.form, "client_assertion="+s.assertion("kiosk")), 200, "")
	}
	if found == 0 {
		t.Error("no route takes assertions")
	}
}

// askAs sends a form with some parameters replaced, "name=value".
func (s *suite) askAs(path, form string, with ...string) reply {
	s.t.Helper()
	pairs := strings.Split(form, "&")
	for _, one := range with {
		name, _, _ := strings.Cut(one, "=")
		pairs = append(slices.DeleteFunc(pairs, func(p string) bool { return strings.HasPrefix(p, name+"=") }), one)
	}
	return s.send(s.request("POST", path, strings.Join(pairs, "&"), "Authorization", "", "Content-Type", formMedia))
}
