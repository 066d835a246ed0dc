package dev

import (
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tollgate/cmd/sandbox"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/handlers/auth"
)

// A program on this machine gets a token; what a browser may have sent for a page does
// not, whatever name of this machine the page asks for, and neither does another machine.
func TestTokensAreForProgramsHere(t *testing.T) {
	issued := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		issued++
		_, _ = io.WriteString(w, `{"access_token":"a.b.c","token_type":"Bearer","expires_in":600,"scope":"`+req.FormValue("scope")+`"}`)
	}))
	defer api.Close()
	key, _, err := auth.GenerateClientKey(rand.Reader, "ES256")
	if err != nil {
		t.Fatal(err)
	}
	a, _, _ := clitest.App(nil)
	door := tokenDoor(a, &sandbox.Secrets{ClientKey: key}, api.URL).Handler
	_, port, _ := strings.Cut(strings.TrimPrefix(api.URL, "http://"), ":")

	const local = "127.0.0.1:50000"
	for _, c := range []struct {
		from, host string
		header     []string
		status     int
	}{
		{local, "127.0.0.1:" + port, nil, 200},
		{local, "LocalHost:" + port, nil, 200},
		{"[::1]:50000", "[::1]:" + port, nil, 200},
		{"[::ffff:127.0.0.1]:50000", "127.0.0.1:" + port, nil, 200},
		{local, "127.0.0.1:" + port, []string{"Origin", "http://127.0.0.1:" + port, "Sec-Fetch-Site", "same-origin"}, 200},
		{local, "127.0.0.1:" + port, []string{"Sec-Fetch-Site", "none"}, 200}, // typed into the address bar

		{"192.0.2.1:50000", "127.0.0.1:" + port, nil, 403},
		{"", "127.0.0.1:" + port, nil, 403},
		{local, "127.0.0.1", nil, 403},
		{local, "127.0.0.1:1", nil, 403},
		{local, "rebound.example:" + port, nil, 403},
		{local, "127.0.0.1.rebound.example:" + port, nil, 403},
		{local, "localhost.:" + port, nil, 403},
		{local, "", nil, 403},
		{local, "127.0.0.1:" + port, []string{"Origin", "http://shop.example"}, 403},
		{local, "127.0.0.1:" + port, []string{"Origin", "http://127.0.0.1:3000"}, 403},
		{local, "127.0.0.1:" + port, []string{"Origin", "null"}, 403},
		{local, "127.0.0.1:" + port, []string{"Origin", ""}, 403},
		{local, "127.0.0.1:" + port, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{local, "127.0.0.1:" + port, []string{"Sec-Fetch-Site", "same-site"}, 403}, // another port of this machine
	} {
		req := httptest.NewRequest("GET", tokenPath+"?scope=payments:read", nil)
		req.RemoteAddr, req.Host = c.from, c.host
		for i := 0; i < len(c.header); i += 2 {
			req.Header.Set(c.header[i], c.header[i+1])
		}
		before, w := issued, httptest.NewRecorder()
		door.ServeHTTP(w, req)
		if given := issued > before; w.Code != c.status || given != (c.status == 200) || strings.Contains(w.Body.String(), "a.b.c") != given {
			t.Errorf("from %s to %s with %q: %d %s, issued %v", c.from, c.host, c.header, w.Code, w.Body, given)
		}
		if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("from %s to %s with %q: %v", c.from, c.host, c.header, w.Header())
		}
	}
}
