package main

import (
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// alternating sends each request to the next of several instances.
type alternating struct {
	token string
	hosts []string
	next  *atomic.Int64
}

func (a alternating) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host = a.hosts[int(a.next.Add(1))%len(a.hosts)]
	return bearer(a.token).RoundTrip(r)
}

func (s *site) agent(bases ...string) *agent {
	s.t.Helper()
	over := alternating{token: s.token, next: new(atomic.Int64)}
	for _, base := range bases {
		u, err := url.Parse(base)
		if err != nil {
			s.t.Fatal(err)
		}
		over.hosts = append(over.hosts, u.Host)
	}
	return newAgent(s.t, &sdk.StreamableClientTransport{Endpoint: bases[0] + "/mcp", HTTPClient: &http.Client{Transport: over}, DisableStandaloneSSE: true})
}

// Two instances of serve answer one agent in turn: its reference pays once, and what a
// tool did is written down as what its route did.
func TestAgentsOfTwoInstances(t *testing.T) {
	s := newSite(t, redistest.URL(t))
	bases := []string{s.serve().serving(), s.serve().serving()}
	s.authenticate(bases[0])
	a := s.agent(bases...)
	order := toolArguments{"amount": "10.00", "currency": "EUR", "payee": "shop.example", "reference": "order-1"}
	paid := a.call("create_payment", order, false, "is authorized")
	for range 3 { // an odd number: both instances are asked
		if again := a.call("create_payment", order, false, "used before"); again["id"] != paid["id"] {
			t.Errorf("the reference paid %v, and then %v", paid["id"], again["id"])
		}
	}
	all := pages[seenTransaction](s, bases[0]+"/v1/transactions?limit=100&type=authorization")
	if len(all) != 1 {
		t.Errorf("%d payments, want 1", len(all))
	}
	for range 2 {
		if gone := a.call("cancel", toolArguments{"payment_id": paid["id"], "reference": "no"}, false, "is canceled"); gone["status"] != "canceled" {
			t.Errorf("after cancel: %v", gone)
		}
	}
	a.call("capture", toolArguments{"payment_id": paid["id"], "reference": "late"}, true, "canceled")
}

// With Redis away, tools say so and what to do, and a quote is still answered.
func TestAgentsWithoutRedis(t *testing.T) {
	t.Parallel() // it waits most of its time
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	s := newSite(t, wire.URL)
	s.hasty()
	base := s.serve().serving()
	s.authenticate(base)
	a := s.agent(base)
	order := toolArguments{"amount": "10.00", "currency": "EUR", "payee": "shop.example"}
	a.call("quote_ticket", order, false, "Together: ")
	wire.Refuse()
	a.call("quote_ticket", order, false, "Together: ", "allow by per_")
	order["reference"] = "order-1"
	a.call("create_payment", order, true, "store_unavailable", "Call again with the same arguments")
	a.call("get_payment", toolArguments{"payment_id": "pay_01ARZ3NDEKTSV4RRFFQ69G5FAV"}, true, "store_unavailable")
	wire.Accept()
	testkit.Within(t, "it pays again", patience, func() bool {
		r, err := a.session.CallTool(t.Context(), &sdk.CallToolParams{Name: "create_payment", Arguments: order})
		return err == nil && !r.IsError
	})
	if all := pages[seenTransaction](s, base+"/v1/transactions?limit=100&type=authorization"); len(all) != 1 {
		t.Errorf("%d payments, want 1", len(all))
	}
}
