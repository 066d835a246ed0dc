package handlers_test

import (
	"net/http"
	"strings"
	"testing"
)

// Where there are pages, every error leads to its explanation, whatever its form; where
// there are none, no error does.
func TestErrorsLeadToHelp(t *testing.T) {
	for _, pages := range []bool{true, false} {
		w := newWorld(t)
		w.client = http.DefaultClient // the OpenAPI document does not know the header
		if pages {
			w.server.Explain("/docs/errors#")
		}
		for _, c := range []struct{ method, path, body, code string }{
			{"GET", "/none", "", "not_found"},
			{"POST", "/healthz", "", "method_not_allowed"},
			{"POST", "/oauth2/token", "a=b", "media_type_unsupported"},
			{"GET", "/v1/payments/pay_none", "", "not_found"},
			{"GET", "/" + strings.Repeat("a", 5000), "", "uri_too_long"},
		} {
			answer := w.call(c.method, c.path, c.body)
			help, want := answer.Header.Get("Link"), ""
			if pages {
				want = "/docs/errors#" + c.code + `>; rel="help"`
			}
			if !strings.HasSuffix(help, want) || (want == "") != (help == "") || (pages && !strings.HasPrefix(help, "<http")) {
				t.Errorf("%s %.20s: Link %q, want %q", c.method, c.path, help, want)
			}
		}
		if answer := w.call("GET", "/healthz", ""); answer.Header.Get("Link") != "" {
			t.Errorf("an answer that is no error has %q", answer.Header.Get("Link"))
		}
	}
}
