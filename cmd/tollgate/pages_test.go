package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// While Redis is away, serve shows its pages, and the front page says how it is.
func TestPagesWithoutRedis(t *testing.T) {
	t.Parallel() // it waits most of its time
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	s := newSite(t, wire.URL)
	s.hasty()
	base := s.serve().serving()
	page := func(path, accept string) (status int, text string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	front := func(status, sentence string) func() bool {
		return func() bool {
			_, machine := page("/", "application/json")
			_, people := page("/", "text/html")
			return strings.Contains(machine, `"status":"`+status+`"`) && strings.Contains(people, sentence)
		}
	}
	testkit.Within(t, "the front page says that it takes payments", patience, front("ready", "This instance takes payments."))
	wire.Refuse()
	testkit.Within(t, "the front page says that Redis is away", patience, front("quotes_only", "Redis is away"))
	for path, has := range map[string]string{"/docs/start": "<h1", "/docs/api": `data-operation="createPayment"`, "/docs/errors": `id="store_unavailable"`, "/docs/search.json": `"start"`, "/docs/style.css": "body", "/openapi.json": `"openapi"`} {
		if status, text := page(path, "*/*"); status != http.StatusOK || !strings.Contains(text, has) {
			t.Errorf("%s without Redis: %d, and without %q: %.200s", path, status, has, text)
		}
	}
	wire.Accept()
	testkit.Within(t, "the front page says that it takes payments again", patience, front("ready", "This instance takes payments."))
}
