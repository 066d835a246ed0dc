package handlers_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate/handlers"
	"tollgate/handlers/auth"
	"tollgate/handlers/docs"
)

// toolAnswer is what a tool needs, and says to those who may not have what it is asked
// for: a part of its text.
type toolAnswer struct {
	route              string
	foreign, elsewhere string
}

// toolsOf has a row for every tool: the route that it calls, whose answers it tells.
var toolsOf = map[string]toolAnswer{
	"quote_ticket":        {"POST /v1/quotes", "not_found", "merchant_account_forbidden"},
	"create_payment":      {"POST /v1/payments", "not_found", "merchant_account_forbidden"},
	"capture":             {"POST /v1/payments/{payment_id}/captures", "not_found", "merchant_account_forbidden"},
	"cancel":              {"POST /v1/payments/{payment_id}/cancel", "not_found", "merchant_account_forbidden"},
	"refund":              {"POST /v1/payments/{payment_id}/refunds", "not_found", "merchant_account_forbidden"},
	"get_payment":         {"GET /v1/payments/{payment_id}", "not_found", "merchant_account_forbidden"},
	"explain_ticket":      {"GET /v1/tickets/{ticket_id}", "not_found", "merchant_account_forbidden"},
	"search_transactions": {"GET /v1/transactions", "", ""},
	"list_events":         {"GET /v1/events", "", ""},
}

// toolArguments is a valid call of each tool.
func (s *suite) toolArguments(name string) string {
	s.t.Helper()
	path := func(id string) string {
		return s.operations[slices.IndexFunc(s.operations, func(o *operation) bool { return o.id == id })].pathID
	}
	payment := `"merchant_account_id":"` + s.vars["eur"] + `",` + good
	return map[string]string{
		"quote_ticket":   `{` + payment + `}`,
		"create_payment": `{` + payment + `,"reference":"suite"}`,
		"capture":        `{"payment_id":"` + path("capturePayment") + `","reference":"suite"}`,
		"cancel":         `{"payment_id":"` + path("cancelPayment") + `","reference":"suite"}`,
		"refund":         `{"payment_id":"` + path("refundPayment") + `","amount":"1.00","reference":"suite"}`,
		"get_payment":    `{"payment_id":"` + path("readPayment") + `"}`,
		"explain_ticket": `{"ticket_id":"` + path("readTicket") + `"}`,
	}[name]
}

// toolNames asks which tools there are.
func (s *suite) toolNames() (names []string) {
	s.t.Helper()
	r := s.call("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Authorization", s.bearer("keeper", "")[0], "Accept", "application/json, text/event-stream")
	var answer struct {
		Result struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		} `json:"result"`
	}
	check(s.t, json.Unmarshal([]byte(s.want(r, 200, "").text), &answer))
	for _, tool := range answer.Result.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// TestEveryToolForEveryIdentity: a tool refuses whom its route refuses, writes nothing
// for them, and works under the route's scope alone.
func TestEveryToolForEveryIdentity(t *testing.T) {
	s := newSuite(t, append([]string{"keeper", "elsewhere"}, enders...)...)
	s.toolsAt()
	for _, name := range enders {
		s.bearer(name, "")
	}
	names := s.toolNames()
	for _, who := range slices.Concat(s.strangers(), s.members()) {
		s.everyTool(names, who)
	}
	s.end()
	for _, who := range s.ended() {
		s.everyTool(names, who)
	}
	for _, name := range names {
		scope := scopeOf(t, toolsOf[name].route)
		arguments := s.toolArguments(name)
		if arguments == "" {
			arguments = "{}"
		}
		s.done(s.tool(s.bearer("keeper", string(scope))[0][len("Bearer "):], name, arguments))
	}
	if len(toolsOf) != len(names) {
		t.Errorf("toolsOf has %d rows, and the tools are %q", len(toolsOf), names)
	}
}

func scopeOf(t *testing.T, route string) auth.Scope {
	t.Helper()
	for _, r := range new(handlers.Server).Routes() {
		if r.Method+" "+r.Path == route {
			return r.Scope
		}
	}
	t.Fatalf("no route %q", route)
	return ""
}

// everyTool calls every tool as somebody.
func (s *suite) everyTool(names []string, who identity) {
	s.t.Helper()
	for _, o := range s.operations {
		who.authorization(o, s.route(o))
	}
	before := dump(s.t, s.redis)
	for _, name := range names {
		row, there := toolsOf[name]
		if !there {
			s.t.Errorf("%s has no row in toolsOf", name)
			continue
		}
		arguments := s.toolArguments(name)
		if arguments == "" {
			arguments = "{}"
		}
		route := handlers.Route{Scope: scopeOf(s.t, row.route)}
		headers := []string{"Accept", "application/json, text/event-stream"}
		for _, value := range who.authorization(nil, route) {
			headers = append(headers, "Authorization", value)
		}
		if len(headers) == 2 {
			headers = append(headers, "Authorization", "")
		}
		r := s.call("POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, arguments), headers...)
		s.toolAnswered(who, name, row, r)
	}
	after := dump(s.t, s.redis)
	if changes := before.without().changes(after.without()); len(changes) > 0 {
		s.t.Errorf("%s: written: %s", who.name, strings.Join(changes, "\n"))
	}
	counts := 0
	if who.counted {
		counts = len(names)
	}
	if n := after.refusals("") - before.refusals(""); n != counts {
		s.t.Errorf("%s: %d refusals are counted, want %d", who.name, n, counts)
	}
}

// toolAnswered holds a tool's answer: 401 with where tokens come from, or a refusal that
// names its code.
func (s *suite) toolAnswered(who identity, name string, row toolAnswer, r reply) {
	s.t.Helper()
	status, code, _ := strings.Cut(who.answer, " ")
	switch {
	case who.name == "another organization":
		code = row.foreign
	case who.name == "another merchant account":
		code = row.elsewhere
	}
	challenge := ""
	if status == "401" {
		challenge = `Bearer realm="tollgate", `
		switch {
		case strings.HasPrefix(r.Request.Header.Get("Authorization"), "DPoP "):
			challenge = badProof + `, error_description="The DPoP proof is not valid", algs="` + strings.Join(auth.Algorithms(), " ") + `", `
		case code == "token_invalid":
			challenge += `error="invalid_token", error_description="The access token is not valid", `
		case code == "token_expired":
			challenge += `error="invalid_token", error_description="The access token has expired", `
		}
		challenge += `resource_metadata="` + issuer + `/.well-known/oauth-protected-resource/mcp"`
	}
	if (r.StatusCode == http.StatusUnauthorized) != (status == "401") || r.Header.Get("WWW-Authenticate") != challenge {
		s.t.Errorf("%s: %s: %d, %q, want %q", who.name, name, r.StatusCode, r.Header.Get("WWW-Authenticate"), challenge)
	}
	if code == "" {
		s.showsNothing(who, name, r)
		return
	}
	if !strings.Contains(r.text, code) || status != "401" && !strings.Contains(r.text, `"isError":true`) {
		s.t.Errorf("%s: %s: it does not say %s: %.500s", who.name, name, code, r.text)
	}
}

// TestPagesKnowNobody: a page is the same for whoever asks.
func TestPagesKnowNobody(t *testing.T) {
	s := newSuite(t, "keeper")
	s.toolsAt()
	pages, err := docs.New(docs.About{Version: "v1", Status: func() docs.Status { return docs.Ready }})
	handler := must(t, pages, err)
	for _, path := range []string{docs.Root, docs.Below, docs.Below + "/*page"} {
		s.server.Open(handlers.Door{Methods: []string{http.MethodGet}, Path: path, Handler: handler})
	}
	strangers := s.strangers()
	before := dump(t, s.redis)
	for _, path := range []string{docs.Root, docs.Below, docs.Below + "/start", "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		nobody := s.call("GET", path, "", "Authorization", "")
		if nobody.StatusCode != 200 || nobody.text == "" {
			t.Fatalf("%s: %d", path, nobody.StatusCode)
		}
		for _, who := range strangers[1:] {
			headers := []string{}
			for _, value := range who.authorization(nil, handlers.Route{}) {
				headers = append(headers, "Authorization", value)
			}
			if r := s.call("GET", path, "", headers...); r.StatusCode != 200 || r.text != nobody.text {
				t.Errorf("%s, %s: %d", path, who.name, r.StatusCode)
			}
		}
	}
	if changes := before.changes(dump(t, s.redis)); len(changes) > 0 {
		t.Errorf("written: %s", strings.Join(changes, "\n"))
	}
}
