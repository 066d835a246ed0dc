package mcp

import (
	_ "embed"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// schemas are the inputs and outputs of the tools. They are made of the OpenAPI
// document; a test holds them to it.
//
//go:embed schemas.json
var schemas []byte

// schema is what of a tool is made of the OpenAPI document.
type schema struct {
	Input  jsontext.Value `json:"input"`
	Output jsontext.Value `json:"output"`
}

// tool is one operation of the API as an agent calls it.
type tool struct {
	name, title, description string
	method, path             string // the path's parameters are arguments
	writes, destroys         bool
	// key names the arguments that, with client and tool, make the Idempotency-Key of
	// a tool that writes.
	key []string
	// own is an argument that only the key is made of: the operation does not know it.
	own string
	say func(*said, arguments) string

	schema
	known    []string // arguments, in the schema's order
	required []string
}

// The API keeps keys by the merchant account that it resolves: the account is part of
// what a reference of create_payment stands for without being in the key. The same
// reference pays for each account, and a call that names the account repeats one that
// left it to the grant's default (TestReferencesBelongToAccounts).
var (
	keyOfPayment = []string{"reference"}
	keyOfChange  = []string{"payment_id", "reference"}
)

var table = []tool{
	{
		name: "quote_ticket", title: "Quote a payment", method: http.MethodPost, path: "/v1/quotes", say: sayQuote,
		description: "Price a payment and see whether it would be allowed: the fee lines with the rules that they come from, and the perimeter's decision. It submits nothing.",
	},
	{
		name: "create_payment", title: "Create a payment", method: http.MethodPost, path: "/v1/payments", writes: true, key: keyOfPayment, say: sayPayment,
		description: "Authorize a payment. reference is your name for it, such as an order number: within 7 days the same reference pays once, so repeat a call whose answer you do not have. The money is taken by capture, or at once with capture_method automatic.",
	},
	{
		name: "capture", title: "Capture a payment", method: http.MethodPost, path: "/v1/payments/{payment_id}/captures", writes: true, destroys: true, key: keyOfChange, say: sayCapture,
		description: "Take the money of an authorized payment: all of it, or amount. What is left is released, unless final_capture is false. reference is your name for this capture of the payment: the same one captures once.",
	},
	{
		name: "cancel", title: "Cancel a payment", method: http.MethodPost, path: "/v1/payments/{payment_id}/cancel", writes: true, destroys: true, key: keyOfChange, own: "reference", say: sayPayment,
		description: "Release what is not captured of a payment. reference is your name for this change: the same one is carried out once.",
	},
	{
		name: "refund", title: "Refund a payment", method: http.MethodPost, path: "/v1/payments/{payment_id}/refunds", writes: true, destroys: true, key: keyOfChange, own: "reference", say: sayRefund,
		description: "Give captured money back: all that is refundable, or amount. reference is your name for this refund of the payment: the same one refunds once.",
	},
	{
		name: "get_payment", title: "Read a payment", method: http.MethodGet, path: "/v1/payments/{payment_id}", say: sayPayment,
		description: "Read a payment: its status, and what is captured, capturable and refundable.",
	},
	{
		name: "explain_ticket", title: "Explain a payment's fees", method: http.MethodGet, path: "/v1/tickets/{ticket_id}", say: sayTicket,
		description: "Read a payment's ticket: each fee line with the rule that it comes from, the perimeter's decision, and the events. ticket_id may also be the payment's id.",
	},
	{
		name: "search_transactions", title: "Search transactions", method: http.MethodGet, path: "/v1/transactions", say: sayList("transaction"),
		description: "Search the transactions of the merchant accounts that you reach, by status, type, payment, payee, reference and time. For the next page, call again with cursor alone.",
	},
	{
		name: "list_events", title: "List events", method: http.MethodGet, path: "/v1/events", say: sayList("event"),
		description: "List what happened, oldest first. Keep next_cursor and call again with it to see what came after; wait holds the answer back until there is something.",
	},
}

// tools are the table with its schemas.
func tools() ([]tool, error) {
	var all map[string]schema
	if err := json.Unmarshal(schemas, &all); err != nil {
		return nil, fmt.Errorf("schemas of the tools: %w", err)
	}
	list := append([]tool(nil), table...)
	for i := range list {
		t := &list[i]
		t.schema = all[t.name]
		var input struct {
			Properties jsontext.Value `json:"properties"`
			Required   []string       `json:"required"`
		}
		if err := json.Unmarshal(t.Input, &input); err != nil {
			return nil, fmt.Errorf("input of %s: %w", t.name, err)
		}
		t.required = input.Required
		var err error
		if t.known, err = names(input.Properties); err != nil {
			return nil, fmt.Errorf("input of %s: %w", t.name, err)
		}
	}
	return list, nil
}

// described is the tool as clients see it. What repeats a reference changes nothing
// more, so the tools that write are idempotent, too.
func (t *tool) described() *sdk.Tool {
	world := t.name == "create_payment" || t.name == "capture" || t.name == "refund" // money moves to somebody
	return &sdk.Tool{
		Name: t.name, Title: t.title, Description: t.description, InputSchema: t.Input, OutputSchema: t.Output,
		Annotations: &sdk.ToolAnnotations{Title: t.title, ReadOnlyHint: !t.writes, IdempotentHint: true, DestructiveHint: &t.destroys, OpenWorldHint: &world},
	}
}
