package main

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// agent is a client of the protocol, of the library that agents are made with.
type agent struct {
	t       *testing.T
	session *sdk.ClientSession
}

func newAgent(t *testing.T, over sdk.Transport) *agent {
	t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), over, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &agent{t, session}
}

func (a *agent) tools() (names []string) {
	a.t.Helper()
	list, err := a.session.ListTools(a.t.Context(), nil)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}

type toolArguments map[string]any

// call calls a tool, which must say all of these things, and returns its structure.
func (a *agent) call(tool string, arguments toolArguments, refused bool, says ...string) map[string]any {
	a.t.Helper()
	r, err := a.session.CallTool(a.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		a.t.Fatalf("%s: %v", tool, err)
	}
	text := r.Content[0].(*sdk.TextContent).Text
	a.t.Logf("%s: %s", tool, text)
	if r.IsError != refused {
		a.t.Fatalf("%s: error %t: %s", tool, r.IsError, text)
	}
	for _, word := range says {
		if !strings.Contains(text, word) {
			a.t.Errorf("%s does not say %q: %s", tool, word, text)
		}
	}
	structure, _ := r.StructuredContent.(map[string]any)
	return structure
}

// bearer is a transport that sends a token.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func devForAgents(t *testing.T) *sandbox {
	file := filepath.Join(t.TempDir(), "dev.env")
	return awaitSandbox(t, launch(t, nil, "dev", "--addr", "127.0.0.1:0", "--write-env", file, "--no-log", "--metrics-addr", "off"), file)
}

// An agent pays over /mcp, once for each reference, and is told what it may do instead.
func TestAgentsPay(t *testing.T) {
	dev := devForAgents(t)
	url, token := dev.env["TOLLGATE_URL"], strings.TrimSpace(dev.run("token", "--quiet"))
	a := newAgent(t, &sdk.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: &http.Client{Transport: bearer(token)}, DisableStandaloneSSE: true})
	if names := a.tools(); len(names) != 9 {
		t.Errorf("tools %q", names)
	}
	pay := func(payee, amount, reference string) toolArguments {
		p := toolArguments{"amount": amount, "currency": "EUR", "payee": payee}
		if dev.env["TOLLGATE_MERCHANT_ACCOUNT"] != "" {
			p["merchant_account_id"] = dev.env["TOLLGATE_MERCHANT_ACCOUNT"]
		}
		if reference != "" {
			p["reference"] = reference
		}
		return p
	}
	a.call("quote_ticket", pay("shop.example", "10.00", ""), false, "10.00 EUR to shop.example", "Together: 0.54 EUR", "allow by per_")
	a.call("quote_ticket", pay("deny.test", "10.00", ""), false, "deny by per_", "payee_blocked", "No payment to this payee is allowed")
	first := a.call("create_payment", pay("shop.example", "10.00", "order-1"), false, "is authorized: 10.00 EUR to shop.example", "Capturable: 10.00")
	again := a.call("create_payment", pay("shop.example", "10.00", "order-1"), false, "used before")
	if first["id"] == nil || first["id"] != again["id"] {
		t.Errorf("payments %v and %v", first["id"], again["id"])
	}
	a.call("create_payment", pay("shop.example", "11.00", "order-1"), true, "idempotency_key_reused", "another reference")
	a.call("create_payment", pay("deny.test", "10.00", "order-2"), true, "perimeter_denied", "payee_blocked", "No payment to this payee is allowed")

	id := first["id"]
	a.call("capture", toolArguments{"payment_id": id, "reference": "all", "amount": "4.00"}, false, "Captured 4.00 EUR of payment")
	a.call("refund", toolArguments{"payment_id": id, "reference": "back", "amount": "1.00"}, false, "Refunded 1.00 EUR of payment")
	a.call("get_payment", toolArguments{"payment_id": id}, false, "Captured: 4.00", "Refundable: 3.00")
	a.call("explain_ticket", toolArguments{"ticket_id": id}, false, "Fees: ", "allow by per_")
	a.call("get_payment", toolArguments{"payment_id": "pay_01ARZ3NDEKTSV4RRFFQ69G5FAV"}, true, "not_found")
	if found := a.call("search_transactions", toolArguments{"payment_id": id}, false); len(found["data"].([]any)) == 0 {
		t.Error("no transactions")
	}
	if found := a.call("list_events", toolArguments{"limit": 5}, false); len(found["data"].([]any)) == 0 {
		t.Error("no events")
	}
}

// What is no message of an agent is refused before the protocol sees it.
func TestStrangersAtTheDoorOfAgents(t *testing.T) {
	dev := devForAgents(t)
	url, token := dev.env["TOLLGATE_URL"], strings.TrimSpace(dev.run("token", "--quiet"))
	const message = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	ask := func(method, body string, header http.Header) (int, http.Header) {
		t.Helper()
		req, err := http.NewRequestWithContext(context.Background(), method, url+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		header.Set("Content-Type", "application/json")
		header.Set("Accept", "application/json, text/event-stream")
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		t.Logf("%s: %d %s", method, r.StatusCode, bytes.TrimSpace(text[:min(len(text), 300)]))
		if r.StatusCode == 413 && !bytes.Contains(text, []byte(`"code":"body_too_large"`)) { // the library has a limit, too, without a code
			t.Errorf("413 %s", text)
		}
		return r.StatusCode, r.Header
	}
	mine := func() http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	foreign := mine()
	foreign.Set("Origin", "https://evil.example")
	for _, c := range []struct {
		method, body string
		header       http.Header
		status       int
	}{
		{"POST", message, mine(), 200},
		{"POST", message, foreign, 403},
		{"POST", message, http.Header{}, 401},
		{"POST", message, http.Header{"Authorization": {"Bearer wrong"}}, 401},
		{"POST", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 64<<10) + `"}`, mine(), 413},
		{"POST", "[" + message + "]", mine(), 400},
		{"GET", "", mine(), 405},
	} {
		status, header := ask(c.method, c.body, c.header)
		if status != c.status {
			t.Errorf("%s %.40s: %d, want %d", c.method, c.body, status, c.status)
		}
		if status == 401 && !strings.Contains(header.Get("WWW-Authenticate"), `resource_metadata="`+url+`/.well-known/oauth-protected-resource/mcp"`) {
			t.Errorf("WWW-Authenticate: %s", header.Get("WWW-Authenticate"))
		}
	}
	r, err := http.Get(url + "/.well-known/oauth-protected-resource/mcp")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var about struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
	}
	if err := json.UnmarshalRead(r.Body, &about); err != nil || about.Resource != url+"/mcp" || len(about.Servers) != 1 || about.Servers[0] != url {
		t.Errorf("metadata %+v, %v", about, err)
	}
}

// The same tools over the streams of a program that the agent starts.
func TestAgentsOverStreams(t *testing.T) {
	dev := devForAgents(t)
	start := func(args ...string) *agent {
		cmd := exec.Command("tollgate", append([]string{"mcp"}, args...)...)
		cmd.Env = os.Environ()
		for name, value := range dev.env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		return newAgent(t, &sdk.CommandTransport{Command: cmd})
	}
	arguments := toolArguments{"amount": "10.00", "currency": "EUR", "payee": "shop.example", "reference": "order-1"}
	if account := dev.env["TOLLGATE_MERCHANT_ACCOUNT"]; account != "" {
		arguments["merchant_account_id"] = account
	}
	a := start()
	paid := a.call("create_payment", arguments, false, "is authorized")
	denied := maps.Clone(arguments)
	denied["payee"], denied["reference"] = "deny.test", "order-2"
	a.call("create_payment", denied, true, "perimeter_denied", "No payment to this payee is allowed") // which takes a second request, and its scope
	// several at once: one token serves them all
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() {
			_, err := a.session.CallTool(t.Context(), &sdk.CallToolParams{Name: "get_payment", Arguments: toolArguments{"payment_id": paid["id"]}})
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	token := strings.TrimSpace(dev.run("token", "--quiet"))
	over := newAgent(t, &sdk.StreamableClientTransport{Endpoint: dev.env["TOLLGATE_URL"] + "/mcp", HTTPClient: &http.Client{Transport: bearer(token)}, DisableStandaloneSSE: true})
	if again := over.call("create_payment", arguments, false, "used before"); again["id"] != paid["id"] {
		t.Errorf("over HTTP the reference makes %v, not %v", again["id"], paid["id"])
	}
	if err := a.session.Close(); err != nil {
		t.Errorf("end: %v", err)
	}
	reader := start("--read-only")
	if names := reader.tools(); len(names) != 5 {
		t.Errorf("read-only tools %q", names)
	}
	if err := reader.session.Close(); err != nil {
		t.Errorf("end: %v", err)
	}
}
