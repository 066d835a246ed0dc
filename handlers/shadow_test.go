package handlers_test

import (
	"context"
	"testing"
	"time"

	"tollgate/rediskv/redistest"
)

// TestShadowDelaysNobody: with a shadow a quote still asks Redis nothing, and
// when nobody compares, what waits is bounded and the rest is let go and counted.
func TestShadowDelaysNobody(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	i := startOn(t, wire.URL)
	i.authenticate()
	made := i.call("POST", "/v1/shadows", `{"rule":"rule:card_fee@v1","against":"rule:card_fee@v2"}`)
	i.want(made, 201, "")
	i.want(i.call("POST", "/v1/quotes", `{`+good+`}`), 200, "") // fills the cache
	wire.Reset()
	const quotes = 1100
	for range quotes {
		i.want(i.call("POST", "/v1/quotes", `{`+good+`}`), 200, "")
	}
	if sent := wire.Counts(); len(sent) != 0 {
		t.Errorf("quotes have asked Redis: %v", sent)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { i.handler.Shadow(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	var totals map[string]any
	eventually(t, "all are compared or let go", 20*time.Second, func() bool {
		totals = i.call("GET", "/v1/shadows/"+made.body["id"].(string), "").body["totals"].(map[string]any)
		return totals["compared"].(float64)+totals["dropped"].(float64) == quotes+1
	})
	if totals["compared"] != float64(1024) || totals["equal"].(float64)+totals["different"].(float64) != totals["compared"] {
		t.Errorf("%v", totals)
	}
}
