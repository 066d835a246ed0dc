package docs_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"tollgate/handlers/docs"
)

func pages(t *testing.T, about docs.About) *docs.Handler {
	t.Helper()
	if about.Status == nil {
		about.Status = func() docs.Status { return docs.Ready }
	}
	h, err := docs.New(about)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func get(h *docs.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	req, w := httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	h.ServeHTTP(w, req)
	return w
}

func TestPages(t *testing.T) {
	h := pages(t, docs.About{})
	for path, media := range map[string]string{
		"/docs/api": "text/html; charset=utf-8", "/docs/interface": "text/html; charset=utf-8", "/docs/style.css": "text/css; charset=utf-8",
		"/docs/pages.js": "text/javascript; charset=utf-8", "/docs/search.json": "application/json", "/docs/icon.svg": "image/svg+xml",
	} {
		plain, packed := get(h, path), get(h, path, "Accept-Encoding", "br, gzip")
		if plain.Code != 200 || plain.Header().Get("Content-Type") != media || plain.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: %d %v", path, plain.Code, plain.Header())
		}
		z, err := gzip.NewReader(packed.Body)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if unpacked, err := io.ReadAll(z); err != nil || !bytes.Equal(unpacked, plain.Body.Bytes()) || packed.Header().Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: packed it is another: %v", path, err)
		}
		again := get(h, path, "If-None-Match", plain.Header().Get("ETag"))
		if again.Code != 304 || again.Body.Len() != 0 || again.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: asked again: %d", path, again.Code)
		}
		if refused := get(h, path, "Accept-Encoding", "gzip;q=0, *"); refused.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: packed for one who does not take that", path)
		}
	}
}

func TestAddressesOfPages(t *testing.T) {
	h := pages(t, docs.About{})
	for path, to := range map[string]string{"/docs/interface/": "/docs/interface", "/docs/interface.md": "/docs/interface", "/docs/api.html": "/docs/api"} {
		if w := get(h, path); w.Code != 302 || w.Header().Get("Location") != to {
			t.Errorf("%s: %d %s", path, w.Code, w.Header().Get("Location"))
		}
	}
	for _, path := range []string{"/docs", "/docs/", "/docs/index"} {
		w := get(h, path)
		if next := get(h, w.Header().Get("Location")); w.Code != 302 || next.Code != 200 {
			t.Errorf("%s: %d, then %d", path, w.Code, next.Code)
		}
	}
	for _, path := range []string{"/docs/none", "/docs/../docs.go", "/docs/landing", "/docs/missing"} {
		if w := get(h, path); w.Code != 404 || !strings.Contains(w.Body.String(), "There is no such page") || w.Header().Get("ETag") != "" {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// No page has anything that its own policy refuses.
func TestPagesKeepTheirPolicy(t *testing.T) {
	h := pages(t, docs.About{})
	inline := regexp.MustCompile(`(?i)<style|<script[^>]*>[^<]|<[^>]+ style=|<[^>]+ on[a-z]+=|javascript:`)
	for _, path := range []string{"/", "/docs/api", "/docs/design", "/docs/interface", "/docs/changelog", "/docs/none"} {
		w := get(h, path, "Accept", "text/html")
		if found := inline.FindString(w.Body.String()); found != "" {
			t.Errorf("%s has %q", path, found)
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %q", path, policy)
		}
	}
}

func TestFront(t *testing.T) {
	status := docs.Ready
	h := pages(t, docs.About{Version: "1.2<3", Status: func() docs.Status { return status }, Console: "/console"})
	for accept, html := range map[string]bool{
		"": false, "*/*": false, "application/json": false, "text/html;q=0": false, "application/json, text/html;q=0.5": false,
		"text/html": true, "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true,
	} {
		w := get(h, "/", "Accept", accept)
		if got := strings.HasPrefix(w.Header().Get("Content-Type"), "text/html"); w.Code != 200 || got != html || w.Header().Get("Vary") != "Accept" {
			t.Errorf("%q: %d %s", accept, w.Code, w.Header().Get("Content-Type"))
		}
	}
	for _, status = range []docs.Status{docs.Ready, docs.QuotesOnly, docs.Unavailable} {
		page, body := get(h, "/", "Accept", "text/html").Body.String(), get(h, "/").Body.String()
		if !strings.Contains(page, `data-status="`+string(status)+`"`) || !strings.Contains(page, "Version 1.2&lt;3") || !strings.Contains(page, `href="/console"`) {
			t.Errorf("%s: %s", status, page)
		}
		if !strings.Contains(body, `"status":"`+string(status)+`"`) || !strings.Contains(body, `"console":"/console"`) {
			t.Errorf("%s: %s", status, body)
		}
	}
}
