package handlers_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers"
	"tollgate/handlers/mcp"
)

// toolsAt opens the doors of agents on the world's server.
func (w *world) toolsAt() {
	w.t.Helper()
	w.server.Open(mcp.Doors(mcp.Site{Server: w.server, Issuer: issuer})...)
	w.client = http.DefaultClient // the OpenAPI document does not know of them
}

// told is what an agent sees of a call.
type told struct {
	says    string
	refused bool
	reply   // to the request at /mcp
}

// tool calls a tool with a token: "" is that of the grant all. Arguments are JSON.
func (w *world) tool(token, name, arguments string) told {
	w.t.Helper()
	if token == "" {
		token = w.token("all", "")
	}
	r := w.call("POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, arguments),
		"Authorization", "Bearer "+token, "Accept", "application/json, text/event-stream")
	var answer struct {
		Result struct {
			IsError bool `json:"isError"`
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
			Structure map[string]any `json:"structuredContent"`
		} `json:"result"`
	}
	if r.StatusCode == http.StatusOK {
		check(w.t, json.Unmarshal([]byte(r.text), &answer))
		if len(answer.Result.Content) == 0 {
			w.t.Fatalf("%s: %s", name, r.text)
		}
		r.body = answer.Result.Structure
		return told{answer.Result.Content[0].Text, answer.Result.IsError, r}
	}
	return told{reply: r}
}

// done is a tool's answer where it must succeed.
func (w *world) done(r told) told {
	w.t.Helper()
	if r.StatusCode != http.StatusOK || r.refused {
		w.t.Fatalf("%d %s %s", r.StatusCode, r.says, r.text)
	}
	return r
}

// audited are the entries that do writes into the organization's audit record.
func (w *world) audited(do func()) (entries []tollgate.AuditEntry) {
	w.t.Helper()
	before := dump(w.t, w.redis).stream(w.vars["org"] + ":audit")
	do()
	for _, text := range added(before, dump(w.t, w.redis).stream(w.vars["org"]+":audit")) {
		var e tollgate.AuditEntry
		check(w.t, json.Unmarshal([]byte(text), &e))
		entries = append(entries, e)
	}
	return entries
}

// A tool leaves the entry in the audit record that its route leaves: of the same type
// and outcome, by the same client, grant and key, about the object that the answer
// names, and with a request id under which the log has the route. Neither has an
// address of the sender.
func TestToolsAreAuditedAsTheirRoutes(t *testing.T) {
	w := newWorld(t)
	w.toolsAt()
	w.token("all", "") // its own entry is not looked at
	pay := func(account, amount, payee string) string {
		return fmt.Sprintf(`"merchant_account_id":%q,"amount":%q,"currency":"EUR","payee":%q`, w.vars[account], amount, payee)
	}
	good := pay("eur", "10.00", "shop.example")
	var paid [2]string // by the route, by the tool
	for i := range paid {
		paid[i] = w.get(w.want(w.pay(fmt.Sprint("before-", i), "{"+good+"}"), 201, ""), "id")
	}
	for n, c := range []struct {
		tool, body, arguments, method, path string
		target                              string // what of the answer the entry is about; "": nothing that is told
		refusal                             string
	}{
		{"create_payment", good, good, "POST", "/v1/payments", "id", ""},
		{"capture", `"amount":"4.00","final_capture":false`, `"amount":"4.00","final_capture":false,"payment_id":"$p"`, "POST", "/v1/payments/$p/captures", "id", ""},
		{"refund", `"amount":"1.00"`, `"amount":"1.00","payment_id":"$p"`, "POST", "/v1/payments/$p/refunds", "id", ""},
		{"capture", `"amount":"99.00"`, `"amount":"99.00","payment_id":"$p"`, "POST", "/v1/payments/$p/captures", "", "capture_amount_exceeds_capturable"},
		{"cancel", "", `"payment_id":"$p"`, "POST", "/v1/payments/$p/cancel", "id", ""},
		{"create_payment", pay("eur", "10.00", "deny.test"), pay("eur", "10.00", "deny.test"), "POST", "/v1/payments", "", "perimeter_denied"},
		{"get_payment", "", `"payment_id":"pay_01ARZ3NDEKTSV4RRFFQ69G5FAV"`, "GET", "/v1/payments/pay_01ARZ3NDEKTSV4RRFFQ69G5FAV", "", "not_found"},
	} {
		t.Run(c.tool+" "+c.refusal, func(t *testing.T) {
			if c.method == "POST" {
				c.body, c.arguments = "{"+c.body+"}", c.arguments+fmt.Sprintf(`,"reference":"step-%d"`, n)
			}
			var route reply
			byRoute := w.audited(func() {
				headers := []string{}
				if c.method == "POST" {
					headers = []string{"Idempotency-Key", fmt.Sprint("step-", n)}
				}
				route = w.call(c.method, strings.ReplaceAll(c.path, "$p", paid[0]), c.body, headers...)
			})
			var tool told
			byTool := w.audited(func() { tool = w.tool("", c.tool, "{"+strings.ReplaceAll(c.arguments, "$p", paid[1])+"}") })
			if (route.StatusCode >= 300) != tool.refused || !strings.HasPrefix(tool.says, c.refusal) {
				t.Fatalf("the route %d %s, the tool: %s", route.StatusCode, route.text, tool.says)
			}
			if len(byRoute) != 1 || len(byTool) == 0 {
				t.Fatalf("entries %+v of the route, %+v of the tool", byRoute, byTool)
			}
			for _, e := range byTool[1:] { // to say what would be allowed, the tool reads the perimeter
				if c.refusal != "perimeter_denied" || e.Type != "perimeter.read" || e.Outcome != "succeeded" || e.Actor != byTool[0].Actor {
					t.Errorf("one more entry of the tool: %+v", e)
				}
			}
			want, have := byRoute[0], byTool[0]
			if id := have.Request.ID; c.refusal != "" && !strings.Contains(tool.says, "["+id+"]") {
				t.Errorf("the request id is %s; the agent is told %s", id, tool.says)
			}
			if id := have.Request.ID; !w.logged(id, want.Request.Route) {
				t.Errorf("the log has no %s with the request id %s", want.Request.Route, id)
			}
			if c.target != "" {
				if told := w.get(tool.reply, c.target); have.Target.ID != told && have.Target.ID != paid[1] {
					t.Errorf("the entry is about %s, the answer about %s", have.Target.ID, told)
				}
			}
			want.ID, want.Time, want.Seq, want.Request.ID, want.Target.ID = have.ID, have.Time, have.Seq, have.Request.ID, have.Target.ID
			if have != want {
				t.Errorf("the tool's entry %+v\nis not the route's %+v", have, want)
			}
		})
	}
}

// logged reports whether the log has a request with this id, on this route.
func (w *world) logged(id, route string) bool {
	w.t.Helper()
	for line := range strings.Lines(w.log.String()) {
		var a struct {
			ID     string `json:"request_id"`
			Route  string `json:"route"`
			Client string `json:"client"`
		}
		check(w.t, json.Unmarshal([]byte(line), &a))
		if a.ID == id && strings.HasSuffix(a.Route, strings.TrimPrefix(route, "/v1")) && a.Client == w.vars["client_shop"] {
			return true
		}
	}
	return false
}

// The scope of a tool is that of its route. Its refusal is audited, and nothing else
// happens.
func TestToolsNeedTheScopesOfTheirRoutes(t *testing.T) {
	w := newWorld(t)
	w.toolsAt()
	stranger := w.token("all", "payouts:read")
	w.token("all", "")
	paid := w.get(w.want(w.pay("one", fmt.Sprintf(payWide, w.vars["wide"])), 201, ""), "id")
	pay := fmt.Sprintf(`"merchant_account_id":%q,"amount":"10.00","currency":"EUR","payee":"shop.example"`, w.vars["wide"])
	change := fmt.Sprintf(`{"payment_id":%q,"reference":"r"}`, paid)
	for tool, c := range map[string]struct{ scope, arguments string }{
		"quote_ticket":        {"quotes:read", "{" + pay + "}"},
		"create_payment":      {"payments:write", "{" + pay + `,"reference":"r"}`},
		"capture":             {"payments:capture", change},
		"cancel":              {"payments:write", change},
		"refund":              {"payments:refund", change},
		"get_payment":         {"payments:read", fmt.Sprintf(`{"payment_id":%q}`, paid)},
		"explain_ticket":      {"tickets:read", fmt.Sprintf(`{"ticket_id":%q}`, paid)},
		"search_transactions": {"transactions:read", `{}`},
		"list_events":         {"events:read", `{}`},
	} {
		var r told
		entries := w.audited(func() { r = w.tool(stranger, tool, c.arguments) })
		if !r.refused || !strings.HasPrefix(r.says, "scope_missing") || !strings.Contains(r.says, c.scope) {
			t.Errorf("%s without %s: %s", tool, c.scope, r.says)
		}
		if len(entries) != 1 || entries[0].Reason != "scope_missing" {
			t.Errorf("%s without %s: entries %+v", tool, c.scope, entries)
		}
	}
}

// What a perimeter would allow is told to who may read it. Nobody else's token is used
// for it: the audit record would show a refusal of something that nobody asked for.
func TestRefusalsExplainWhatTheTokenMayRead(t *testing.T) {
	w := newWorld(t)
	w.toolsAt()
	for scope, explained := range map[string]bool{
		"": true, "payments:write payments:read quotes:read accounts:read": true,
		"payments:write quotes:read accounts:read": true, "payments:write payments:read quotes:read": false, "payments:write quotes:read": false,
	} {
		token := w.token("kiosk", scope) // it has one account, which needs no name
		for tool, reference := range map[string]string{"quote_ticket": "", "create_payment": fmt.Sprintf(`,"reference":"for %s"`, scope)} {
			var r told
			entries := w.audited(func() {
				r = w.tool(token, tool, fmt.Sprintf(`{"amount":"60.00","currency":"EUR","payee":"shop.example"%s}`, reference))
			})
			if !strings.Contains(r.says, "amount_above_maximum") || strings.Contains(r.says, "Allowed: up to 50.00 EUR") != explained {
				t.Errorf("%s with %q: %s", tool, scope, r.says)
			}
			if slices.ContainsFunc(entries, func(e tollgate.AuditEntry) bool { return e.Reason == "scope_missing" }) {
				t.Errorf("%s with %q: entries %+v", tool, scope, entries)
			}
		}
	}
}

// An agent over its share is refused as the route refuses it, and told when to call
// again.
func TestToolsHaveTheSharesOfTheirRoutes(t *testing.T) {
	w := newWorld(t)
	w.toolsAt()
	w.done(w.tool("", "search_transactions", `{}`))
	leave := w.server.UseUp(w.vars["org"], w.vars["client_shop"])
	route := w.want(w.call("GET", "/v1/transactions", ""), 429, "share_exhausted")
	r := w.tool("", "search_transactions", `{}`)
	if again := fmt.Sprintf("Call again with the same arguments in %s s.", route.Header.Get("Retry-After")); !r.refused || !strings.HasPrefix(r.says, "share_exhausted: ") || !strings.Contains(r.says, again) {
		t.Errorf("%s\nwant share_exhausted, %s", r.says, again)
	}
	w.done(w.tool(w.token("twin", ""), "search_transactions", `{}`)) // another client
	leave()
	w.done(w.tool("", "search_transactions", `{}`))
}

// References are kept by merchant account: the same one pays for two accounts, and once
// for an account that is named or is the grant's default.
func TestReferencesBelongToAccounts(t *testing.T) {
	w := newWorld(t)
	w.toolsAt()
	token := w.token("usual", "")
	pay := func(account, reference string) told {
		t.Helper()
		named := ""
		if account != "" {
			named = fmt.Sprintf(`"merchant_account_id":%q,`, w.vars[account])
		}
		return w.done(w.tool(token, "create_payment", fmt.Sprintf(`{%s"amount":"10.00","currency":"EUR","payee":"shop.example","reference":%q}`, named, reference)))
	}
	ids := map[string]string{} // by account and reference
	for _, c := range []struct {
		account, resolved, reference string
		repeats                      bool
	}{
		{"eur", "eur", "one", false},
		{"wide", "wide", "one", false},
		{"", "eur", "one", true},
		{"eur", "eur", "one", true},
		{"wide", "wide", "one", true},
		{"", "eur", "two", false},
		{"eur", "eur", "two", true},
		{"wide", "wide", "two", false},
	} {
		r := pay(c.account, c.reference)
		id, name := w.get(r.reply, "id"), c.resolved+" "+c.reference
		if account := w.get(r.reply, "merchant_account_id"); account != w.vars[c.resolved] {
			t.Errorf("%+v pays for %s", c, account)
		}
		if strings.Contains(r.says, "used before") != c.repeats || c.repeats != (ids[name] == id) {
			t.Errorf("%+v: payment %s, %q before: %s", c, id, ids[name], r.says)
		}
		ids[name] = id
	}
	if len(ids) != 4 || w.recorded("payment.create") != 4 {
		t.Errorf("payments %v, %d of them audited", ids, w.recorded("payment.create"))
	}
}

// A token that the API takes no more is refused at the door, which says where to get
// another one.
func TestEndedTokensAtTheDoorOfAgents(t *testing.T) {
	w := newWorld(t)
	w.toolsAt()
	token := w.token("all", "")
	w.done(w.tool(token, "search_transactions", `{}`))
	w.grant("all").Status, w.grant("all").RevokedAt = "revoked", tollgate.At(w.now())
	w.apply("")
	w.store.Refresh(w.vars["org"])
	r := w.tool(token, "search_transactions", `{}`)
	if says := r.Header.Get("WWW-Authenticate"); r.StatusCode != 401 || !strings.Contains(says, `error="invalid_token"`) ||
		!strings.Contains(says, `resource_metadata="`+issuer+`/.well-known/oauth-protected-resource/mcp"`) {
		t.Errorf("%d, WWW-Authenticate: %s, %s", r.StatusCode, says, r.text)
	}
}

// What the door of agents refuses leaves one trace, as anywhere (interface §5).
func TestRefusalsAtTheDoorOfAgents(t *testing.T) {
	w := newWorld(t)
	w.toolsAt()
	token := w.token("all", "")
	const message, media = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "application/json, text/event-stream"
	ask := func(message, token string, headers ...string) reply {
		return w.call("POST", "/mcp", message, append([]string{"Authorization", token, "Accept", media}, headers...)...)
	}
	mine := "Bearer " + token
	for _, row := range []struct {
		name    string
		reply   func() reply
		status  int
		reason  string
		outcome string // of the entry; empty: it is counted
	}{
		{"no token", func() reply { return ask(message, "") }, 401, "token_missing", ""},
		{"nonsense for a token", func() reply { return ask(message, "Bearer a.b.c") }, 401, "malformed", ""},
		{"an assertion for a token", func() reply { return ask(message, "Bearer "+w.assertion("kiosk")) }, 401, "type", ""},
		{"a bearer token with a proof's scheme", func() reply { return ask(message, "DPoP "+token) }, 401, "unbound", ""},
		{"a page of somebody else", func() reply { return ask(message, mine, "Origin", "https://evil.example") }, 403, "forbidden", ""},
		{"another method", func() reply { return w.call("GET", "/mcp", "") }, 405, "method_not_allowed", ""},
		{"a long message", func() reply { return ask(strings.Repeat(" ", 64<<10+1), mine) }, 413, "body_too_large", "refused"},
		{"a list", func() reply { return ask("["+message+"]", mine) }, 400, "invalid_json", "refused"},
		{"no message", func() reply { return ask(`{}`, mine) }, 400, "parameter_invalid", "refused"},
		{"another media type", func() reply { return ask(message, mine, "Content-Type", "text/plain") }, 415, "parameter_invalid", "refused"},
		{"a revoked token", func() reply {
			w.want(w.own("/oauth2/revoke", "shop", token), 200, "")
			return w.tool(token, "search_transactions", `{}`).reply
		}, 401, "token_invalid", "denied"},
	} {
		before := dump(t, w.redis)
		r := row.reply()
		after := dump(t, w.redis)
		entries := slices.DeleteFunc(added(before.stream(":audit"), after.stream(":audit")), func(e string) bool { return strings.Contains(e, `"token.revoke"`) })
		counts := after.refusals("") - before.refusals("")
		if r.StatusCode != row.status {
			t.Errorf("%s: %d %s, want %d", row.name, r.StatusCode, r.text, row.status)
		}
		if row.outcome == "" {
			if len(entries) != 0 || counts != 1 || after.refusals(row.reason)-before.refusals(row.reason) != 1 {
				t.Errorf("%s: %d counted, entries %q: %s", row.name, counts, entries, strings.Join(after.changes(before), "\n"))
			}
			continue
		}
		if len(entries) != 1 || counts != 0 || !strings.Contains(entries[0], fmt.Sprintf(`"status":%d`, row.status)) ||
			!strings.Contains(entries[0], `"outcome":"`+row.outcome+`"`) || !strings.Contains(entries[0], `"reason":"`+row.reason+`"`) ||
			row.outcome == "refused" && !strings.Contains(entries[0], `"route":"/mcp"`) {
			t.Errorf("%s: %d counted, entries %q", row.name, counts, entries)
		}
	}
}

// A page of this service, or in the sandbox of this machine, may call; another may not.
func TestPagesThatMayCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		loopback bool
		origins  []string
		status   int
	}{
		{false, nil, 401}, // who is welcome is asked for a token
		{false, []string{issuer}, 401},
		{false, []string{"https://alias.example"}, 401},
		{false, []string{issuer, issuer}, 403},
		{false, []string{"https://evil.example"}, 403},
		{false, []string{strings.Replace(issuer, "https:", "http:", 1)}, 403},
		{false, []string{"null"}, 403},
		{false, []string{""}, 403},
		{false, []string{"http://127.0.0.1:3000"}, 403},
		{true, []string{"http://127.0.0.1:3000"}, 401},
		{true, []string{"http://localhost:3000"}, 401},
		{true, []string{"http://localhost.evil.example"}, 403},
	} {
		w.serveWith(func(*handlers.Config) {})
		w.server.Open(mcp.Doors(mcp.Site{Server: w.server, Issuer: issuer, Aliases: []string{"https://alias.example"}, Loopback: c.loopback})...)
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/mcp", strings.NewReader("{}"))
		if c.origins != nil {
			r.Header["Origin"] = c.origins
		}
		answer := httptest.NewRecorder()
		w.server.Handler().ServeHTTP(answer, r)
		if answer.Code != c.status {
			t.Errorf("sandbox %t, Origin %q: %d, want %d", c.loopback, c.origins, answer.Code, c.status)
		}
		const metadata = `resource_metadata="` + issuer + `/.well-known/oauth-protected-resource/mcp"`
		if says := answer.Header().Get("WWW-Authenticate"); c.status == 401 && !strings.Contains(says, metadata) {
			t.Errorf("WWW-Authenticate: %s", says)
		}
	}
}
