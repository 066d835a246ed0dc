package profile_test

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tollgate/cmd/tollgate/profile"
)

// Others than this machine reach no profile, whatever the address looks like.
func TestAddresses(t *testing.T) {
	for _, addr := range []string{":6060", "0.0.0.0:6060", "[::]:6060", "10.0.0.1:6060", "192.0.2.7:0", "tollgate.example:6060", "127.0.0.1", "127.0.0.1.example:1", ""} {
		if err := profile.CheckAddr(addr); err == nil {
			t.Errorf("%q was accepted", addr)
		}
	}
	for _, addr := range []string{"127.0.0.1:6060", "127.8.8.8:0", "[::1]:6060", "localhost:6060"} {
		if err := profile.CheckAddr(addr); err != nil {
			t.Errorf("%q: %v", addr, err)
		}
	}
	if _, err := profile.Serve("0.0.0.0:0", slog.New(slog.DiscardHandler)); err == nil {
		t.Error("it listens for everybody")
	}
}

// One file has all profiles, and none is empty.
func TestArchive(t *testing.T) {
	server := httptest.NewServer(profile.Handler())
	defer server.Close()
	answer, body := post(t, server.URL+"/debug/profile?seconds=1", nil)
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "application/zip" {
		t.Fatalf("%s %s", answer.Status, body)
	}
	archive, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	begins := map[string]string{
		"trace.out": "go 1.", "cpu.pprof": "\x1f\x8b", "heap.pprof": "\x1f\x8b", "allocs.pprof": "\x1f\x8b", "mutex.pprof": "\x1f\x8b",
		"goroutines.txt": "goroutine ", "about.txt": "version ",
	}
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil || !strings.HasPrefix(string(text), begins[f.Name]) || begins[f.Name] == "" {
			t.Errorf("%s begins with %.20q, %v", f.Name, text, err)
		}
		delete(begins, f.Name)
	}
	if len(begins) > 0 {
		t.Errorf("missing: %v", begins)
	}
}

// A page in a browser on this machine gets none.
func TestRefusals(t *testing.T) {
	server := httptest.NewServer(profile.Handler())
	defer server.Close()
	url := server.URL + "/debug/profile?seconds="
	for name, c := range map[string]struct {
		url    string
		change func(*http.Request)
		status int
	}{
		"another name":     {url + "1", func(r *http.Request) { r.Host = "evil.example:6060" }, http.StatusForbidden},
		"a page":           {url + "1", func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, http.StatusForbidden},
		"an image":         {url + "1", func(r *http.Request) { r.Method = http.MethodGet }, http.StatusMethodNotAllowed},
		"no time":          {url + "0", nil, http.StatusBadRequest},
		"hours":            {url + "3600", nil, http.StatusBadRequest},
		"not a number":     {url + "long", nil, http.StatusBadRequest},
		"pages of Go's":    {server.URL + "/debug/pprof/", nil, http.StatusNotFound},
		"anything beneath": {server.URL + "/debug/profile/x", nil, http.StatusNotFound},
	} {
		if answer, body := post(t, c.url, c.change); answer.StatusCode != c.status {
			t.Errorf("%s: %s %s", name, answer.Status, body)
		}
	}
	if _, pattern := http.DefaultServeMux.Handler(httptest.NewRequest(http.MethodGet, "/debug/pprof/", nil)); pattern != "" {
		t.Errorf("the default mux has %s", pattern)
	}
}

// Of two at once one is refused, until the other has ended or its client has left.
func TestOneAtATime(t *testing.T) {
	server := httptest.NewServer(profile.Handler())
	defer server.Close()
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		for ctx.Err() == nil {
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/debug/profile?seconds=300", nil)
			if answer, err := http.DefaultClient.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		}
	}()
	until := func(status int) {
		for {
			if answer, _ := post(t, server.URL+"/debug/profile?seconds=1", nil); answer.StatusCode == status {
				return
			}
		}
	}
	until(http.StatusConflict)
	leave()
	<-left
	until(http.StatusOK)
}

func post(t *testing.T, url string, change func(*http.Request)) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, body
}
