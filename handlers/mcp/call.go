package mcp

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	stdjson "encoding/json"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxWait is how long list_events waits, in seconds: less than a request to the API
// may take otherwise.
const maxWait = 8

// maxAnswer bounds what is read of an answer.
const maxAnswer = 8 << 20

// call is one call of a tool.
type call struct {
	Options
	ctx       context.Context
	tool      *tool
	arguments arguments
	caller    Caller
}

// reply is an answer of the API.
type reply struct {
	status     int
	body       jsontext.Value
	replayed   bool
	retryAfter string
}

// answer calls the API and makes of its answer what the agent sees.
func (c *call) answer() *sdk.CallToolResult {
	t, rest := c.tool, maps.Clone(c.arguments)
	if wait, err := strconv.Atoi(string(rest["wait"])); err == nil && wait > maxWait {
		return refused("parameter_invalid: wait is at most " + strconv.Itoa(maxWait) + " seconds here. Call again with the cursor to wait longer.")
	}
	if t.own != "" {
		delete(rest, t.own)
	}
	address := t.address(rest)
	var body []byte
	if t.method == http.MethodGet {
		query, wrong := t.query(rest)
		if wrong != "" {
			return refused(wrong)
		}
		if len(query) > 0 {
			address += "?" + query.Encode()
		}
	} else {
		var err error
		if body, err = json.Marshal(rest, json.Deterministic(true)); err != nil {
			return refused("invalid_json: The arguments cannot be sent. Call again with valid UTF-8.")
		}
	}
	r, err := c.send(t.method, address, body, t.idempotencyKey(c.caller.ID, c.arguments))
	switch {
	case err != nil:
		return refused(c.unanswered(err))
	case r.status >= http.StatusMultipleChoices:
		return refused(c.refusal(r))
	}
	return c.succeeded(r)
}

// send makes one request. Whose it is the RoundTripper knows.
func (c *call) send(method, address string, body []byte, key string) (*reply, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	req := (&http.Request{Method: method, URL: u, Header: http.Header{"Accept": {"application/json"}}, Host: "tollgate"}).WithContext(c.ctx)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	response, err := c.API.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	return &reply{
		status: response.StatusCode, body: text, replayed: response.Header.Get("Idempotent-Replayed") == "true",
		retryAfter: response.Header.Get("Retry-After"),
	}, nil
}

// succeeded is an answer of the API for agents: in words, and as it is. Clients that
// know no structured content read it as text.
func (c *call) succeeded(r *reply) *sdk.CallToolResult {
	var s said
	if err := json.Unmarshal(r.body, &s); err != nil {
		return refused(c.unanswered(err))
	}
	text := c.tool.say(&s, c.arguments)
	if c.tool.name == "quote_ticket" && s.Perimeter.Decision == "deny" {
		text += c.wouldBeAllowed(s.Perimeter, "")
	}
	if r.replayed {
		text = "This reference was used before with the same arguments. Nothing new was done; this is the first answer. " + text
	}
	return &sdk.CallToolResult{
		Content:           []sdk.Content{&sdk.TextContent{Text: text}, &sdk.TextContent{Text: string(r.body)}},
		StructuredContent: stdjson.RawMessage(r.body),
	}
}

// refused is a result that says what is wrong, for the agent to do something else.
func refused(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: cmp.Or(text, "internal: Something went wrong here.")}}}
}
