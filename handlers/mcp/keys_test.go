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

// told keeps the key and the body of the last request.
type told struct{ key, body string }

func (a *told) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	a.key, a.body = r.Header.Get("Idempotency-Key"), string(body)
	return &http.Response{StatusCode: 201, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{}`))}, nil
}

// Each of client, tool, payment and reference makes another key, and nothing else does.
func TestKeysOfReferences(t *testing.T) {
	const one, two = "pay_01ARZ3NDEKTSV4RRFFQ69G5FAV", "pay_01ARZ3NDEKTSV4RRFFQ69G5FAW"
	api, client := &told{}, "cli_1"
	c := connect(t, mcp.Options{API: api, Caller: func(context.Context) (mcp.Caller, error) { return mcp.Caller{ID: client}, nil }})
	key := func(by, tool, payment, reference string) string {
		t.Helper()
		client = by
		arguments := map[string]string{"payment_id": payment, "reference": reference}
		if tool == "create_payment" {
			arguments = map[string]string{"amount": "1.00", "currency": "EUR", "payee": "a.example", "reference": reference}
		}
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
		if err != nil || r.IsError {
			t.Fatalf("%s: %v %+v", tool, err, r)
		}
		// The operations of cancel and refund know no reference, payments keep theirs.
		if sent := strings.Contains(api.body, `"reference"`); tool == "cancel" && sent || tool == "create_payment" && !sent {
			t.Errorf("%s sends %s", tool, api.body)
		}
		return api.key
	}
	seen := map[string]string{}
	for _, of := range [][4]string{
		{"cli_1", "capture", one, "r"},
		{"cli_2", "capture", one, "r"},
		{"cli_1", "cancel", one, "r"},
		{"cli_1", "refund", one, "r"},
		{"cli_1", "capture", two, "r"},
		{"cli_1", "capture", one, "s"},
		{"cli_1", "create_payment", "", "r"},
		{"cli_2", "create_payment", "", "r"},
		{"cli_1", "create_payment", "", "s"},
	} {
		k := key(of[0], of[1], of[2], of[3])
		if other, ok := seen[k]; ok || len(k) != 64 {
			t.Errorf("%v has the key %q of %s", of, k, other)
		}
		seen[k] = strings.Join(of[:], " ")
		if again := key(of[0], of[1], of[2], of[3]); again != k {
			t.Errorf("%v: %s, and again %s", of, k, again)
		}
	}
}
