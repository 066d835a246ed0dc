package console_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/cmd/tollgate/console"
	"tollgate/handlers/auth"
)

// A token that the API does not take any more is replaced, for all requests that are
// under way, and what the page sent is sent again whole.
func TestTokenIsRenewed(t *testing.T) {
	var issued, good atomic.Int64
	var mu sync.Mutex
	bodies := map[string]int{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/oauth2/token" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer","expires_in":600}`, issued.Add(1))
			return
		}
		var token int64
		_, _ = fmt.Sscanf(r.Header.Get("Authorization"), "Bearer token-%d", &token)
		if token < good.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		bodies[string(body)]++
		mu.Unlock()
		_, _ = io.WriteString(w, `{"object":"list"}`)
	}))
	defer api.Close()
	key, _, err := auth.GenerateClientKey(rand.Reader, "ES256")
	if err != nil {
		t.Fatal(err)
	}
	a, _, _ := clitest.App(nil)
	a.Clock, a.Entropy = time.Now, rand.Reader
	c, err := console.New(&cli.Client{App: a, HTTP: http.Client{Timeout: time.Minute}, Base: api.URL, Issuer: api.URL, ID: "cli_1", JWK: key}, "127.0.0.1:8090", true)
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ := strings.Cut(c.URL(), "token=")
	post := func(body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8090/console/api/v1/payments", strings.NewReader(body))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Origin", "http://127.0.0.1:8090")
		r.Header.Set("Content-Type", "application/json")
		r.AddCookie(&http.Cookie{Name: "tollgate_console_8090", Value: token})
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		return w
	}
	if w := post(`{"n":"first"}`); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	good.Store(2) // as if the service had another signing key
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if w := post(fmt.Sprintf(`{"n":"%d"}`, i)); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	if len(bodies) != 9 {
		t.Errorf("these bodies arrived: %v", bodies)
	}
	good.Store(1 << 40) // it takes none at all: the page hears so, and nobody asks for ever
	before := issued.Load()
	if w := post(`{}`); w.Code != 401 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if asked := issued.Load() - before; asked > 1 {
		t.Errorf("%d tokens were asked for", asked)
	}
}
