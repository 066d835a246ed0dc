package mcp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"tollgate/handlers/mcp"
)

type asked struct{ keys []string }

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	a.keys = append(a.keys, r.Header.Get("Idempotency-Key"))
	return &http.Response{StatusCode: 201, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"object":"payment","id":"pay_1","status":"authorized"}`))}, nil
}

// connect is a client of a server of tools, until the test ends.
func connect(t *testing.T, o mcp.Options) *sdk.ClientSession {
	t.Helper()
	s, err := mcp.New(o)
	if err != nil {
		t.Fatal(err)
	}
	here, there := sdk.NewInMemoryTransports()
	if _, err := s.Connect(t.Context(), there, nil); err != nil {
		t.Fatal(err)
	}
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// The same reference makes the same key, another one another; what the API would not
// see, or not say to an agent, never reaches it.
func TestCallsOfTools(t *testing.T) {
	api := &asked{}
	c := connect(t, mcp.Options{API: api, Caller: func(context.Context) (mcp.Caller, error) { return mcp.Caller{ID: "cli_1"}, nil }})
	for _, call := range []struct {
		arguments string
		says      string
		refused   bool
	}{
		{`{"amount":"1.00","currency":"EUR","payee":"a.example","reference":"r"}`, "Payment pay_1 is authorized", false},
		{`{"reference":"r","amount":"1.00","currency":"EUR","payee":"a.example","merchant_account_id":null}`, "Payment pay_1", false},
		{`{"amount":"1.00","currency":"EUR","payee":"a.example","reference":"s"}`, "Payment pay_1", false},
		{`{"amount":1.00,"currency":"EUR","payee":"a.example","reference":"r"}`, "JSON number", true},
		{`{"amount":"1.00","currency":"EUR","payee":"a.example"}`, "needs reference", true},
		{`{"amount":"1.00","currency":"EUR","payee":"a.example","reference":"r","to":"b"}`, "no argument", true},
	} {
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "create_payment", Arguments: rawJSON(call.arguments)})
		if err != nil {
			t.Fatal(err)
		}
		if text := r.Content[0].(*sdk.TextContent).Text; r.IsError != call.refused || !strings.Contains(text, call.says) {
			t.Errorf("%s: %t %s", call.arguments, r.IsError, text)
		}
	}
	if k := api.keys; len(k) != 3 || k[0] != k[1] || k[0] == k[2] || len(k[0]) != 64 {
		t.Errorf("keys %q", k)
	}
}

// Without the tools that change something there are those that say so, and no other.
func TestReadOnly(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		c := connect(t, mcp.Options{API: &asked{}, ReadOnly: readOnly})
		list, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		writes := 0
		for _, tool := range list.Tools {
			if !tool.Annotations.ReadOnlyHint {
				writes++
			}
		}
		if want := map[bool]int{false: 4, true: 0}[readOnly]; writes != want || len(list.Tools)-writes != 5 {
			t.Errorf("read-only %t: %d tools, %d of them write", readOnly, len(list.Tools), writes)
		}
	}
}

type rawJSON string

func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }
