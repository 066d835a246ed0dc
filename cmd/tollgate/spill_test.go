package main

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate/cmd/tollgate/clitest"
	"tollgate/handlers/spill"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

const payoutSecret = "whsec_c3BpbGwtdGVzdC1wYXlvdXQtc2VjcmV0LTMyYnl0ZXM="

// spilling is a site whose secrets are searched in all that it wrote.
type spilling struct {
	*site
	spill.Registry
	base  string
	wrote map[string]string // by where
}

// TestSecretsNowhere runs a server, a worker and clients that make mistakes, and searches
// logs at debug level, metrics, all of Redis, answers, exports, pages and the last
// words of a process that crashes for every secret there was. That they would be found is
// held by the tests of handlers/spill and handlers.
func TestSecretsNowhere(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t).URL
	s := &spilling{site: newSite(t, redis), wrote: map[string]string{}}
	delivered := new(atomic.Int64)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { delivered.Add(1) }))
	defer receiver.Close()
	metrics := []string{freeAddr(t), freeAddr(t)}
	s.env = append(s.env, "TOLLGATE_LOG_LEVEL=debug", loopbackVariable+"=1", "TOLLGATE_PAYOUT_URL="+receiver.URL+"/pay?key=secret-in-the-query-of-a-url", "TOLLGATE_PAYOUT_SECRET="+payoutSecret)
	server := launch(t, append(slices.Clone(s.env), "TOLLGATE_METRICS_ADDR="+metrics[0]), "serve")
	worker := launch(t, append(slices.Clone(s.env), "TOLLGATE_METRICS_ADDR="+metrics[1]), "work")
	s.base = server.serving()
	s.authenticate(s.base)
	s.know()
	s.work(receiver.URL)
	testkit.Eventually(t, "webhooks are delivered", func() bool { return delivered.Load() > 0 })
	s.mistakes()
	for _, addr := range metrics {
		s.read("metrics", "", "GET", "http://"+addr+"/metrics", "")
	}
	for _, page := range []string{"/", "/docs", "/docs/start", "/openapi.json", "/.well-known/jwks.json", "/.well-known/oauth-authorization-server", "/readyz"} {
		s.read("the page "+page, "", "GET", s.base+page, "")
	}
	for _, command := range [][]string{{"key", "list"}, {"doctor"}, {"check"}, {"history"}, {"settings"}} {
		p := launch(t, s.env, command...)
		p.exit() // whatever it finds
		s.wrote["tollgate "+strings.Join(command, " ")] = p.wrote()
	}
	for key, value := range testkit.State(t, testkit.Open(t, rediskv.Options{URL: redis, Clock: time.Now}).Redis) {
		s.wrote["Redis, "+key] = key + " " + fmt.Sprint(value)
	}
	server.signal(syscall.SIGQUIT) // what a crash prints
	worker.signal(syscall.SIGTERM)
	server.exit()
	worker.exit()
	s.wrote["serve"], s.wrote["work"] = server.wrote(), worker.wrote()
	if !strings.Contains(s.wrote["serve"], "goroutine ") || !strings.Contains(s.wrote["serve"], `"msg":"request"`) || !strings.Contains(s.wrote["work"], `"level":"DEBUG"`) {
		t.Errorf("the server's log is not whole: %.2000s", s.wrote["serve"])
	}
	s.none()
}

func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := redistest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// know registers the secrets that a site is started with.
func (s *spilling) know() {
	for _, v := range s.env {
		if secret, ok := strings.CutPrefix(v, "TOLLGATE_SECRET_KEY="); ok {
			s.Add("the secret key", secret)
		}
	}
	s.Add("the payout secret", payoutSecret)
	s.Add("an access token", s.token)
	s.Add("the client's private key", privatePart(s.t, s.key))
	s.Add("what the payout URL has", "secret-in-the-query-of-a-url")
}

// privatePart is d of a private JWK.
func privatePart(t *testing.T, jwk []byte) string {
	t.Helper()
	var key struct {
		D string `json:"d"`
	}
	if err := json.Unmarshal(jwk, &key); err != nil || key.D == "" {
		t.Fatalf("no private key: %v", err)
	}
	return key.D
}

// read keeps an answer to be searched.
func (s *spilling) read(where, token, method, address, body string, headers ...string) clitest.Answer {
	s.t.Helper()
	r, err := clitest.Send(s.t.Context(), token, method, address, body, headers...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.wrote[fmt.Sprintf("%s %d, %d of %s %.40s", where, len(s.wrote), r.StatusCode, method, strings.TrimPrefix(address, s.base))] = fmt.Sprint(r.Header) + r.Text
	return r
}

// work has a webhook with a rotated secret, payments, an export and what lists them.
func (s *spilling) work(receiver string) {
	s.t.Helper()
	var hook struct {
		ID     string `json:"id"`
		Secret string `json:"secret"`
	}
	body := fmt.Sprintf(`{"url":%q,"event_types":["payment.*"]}`, receiver+"/hook")
	s.must(http.StatusCreated, "POST", s.base+"/v1/webhooks", "hook", body).into(s.t, &hook)
	s.Add("a webhook's secret", hook.Secret)
	s.read("a repeat", s.token, "POST", s.base+"/v1/webhooks", body, "Idempotency-Key", "hook")
	s.must(http.StatusCreated, "POST", s.base+"/v1/webhooks/"+hook.ID+"/secrets", "rotated", "{}").into(s.t, &hook)
	s.Add("a rotated secret", hook.Secret)
	pay := fmt.Sprintf(`{"merchant_account_id":%q,"amount":"12.00","currency":"EUR","payee":"shop.example","capture_method":"automatic"}`, s.account)
	s.must(http.StatusCreated, "POST", s.base+"/v1/payments", "pay", pay)
	var export struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	}
	s.must(http.StatusAccepted, "POST", s.base+"/v1/exports/preview", "export", `{"dataset":"audit","format":"ndjson"}`).into(s.t, &export)
	testkit.Eventually(s.t, "the export is made", func() bool {
		s.must(http.StatusOK, "GET", s.base+"/v1/exports/"+export.ID, "", "").into(s.t, &export)
		return export.Status == "succeeded"
	})
	for _, path := range []string{
		"/v1/exports/" + export.ID + "/file", "/v1/audit", "/v1/events", "/v1/webhooks", "/v1/webhooks/" + hook.ID, "/v1/webhooks/" + hook.ID + "/deliveries", "/v1/clients", "/v1/grants",
	} {
		if r := s.read(path, s.token, "GET", s.base+path, ""); r.StatusCode != http.StatusOK {
			s.t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
}

// mistakes are what clients do with secrets by mistake: they put them into addresses,
// bodies and other headers. What they are answered, and the log, have none of it.
func (s *spilling) mistakes() {
	s.t.Helper()
	var used string
	if r, err := s.askToken(s.base); err != nil {
		s.t.Fatal(err)
	} else {
		var issued struct {
			AccessToken string `json:"access_token"`
		}
		r.into(s.t, &issued)
		used = issued.AccessToken
	}
	s.Add("another access token", used)
	for _, secret := range []string{s.token, used} {
		quoted := fmt.Sprintf("%q", secret)
		for _, path := range []string{"/v1/payments/" + secret, "/v1/payments?access_token=" + secret, "/v1/payments?cursor=" + secret, "/v1/" + secret, "/v1/payments?" + secret + "=1"} {
			s.read("a mistake", s.token, "GET", s.base+path, "")
		}
		for _, body := range []string{`{"token":` + quoted + `}`, `{` + quoted + `:1}`, quoted, secret, `{"merchant_account_id":` + quoted + `}`} {
			s.read("a mistake", s.token, "POST", s.base+"/v1/quotes", body)
		}
		for _, form := range []string{"client_assertion=" + secret, secret + "=1", "grant_type=" + secret} {
			s.read("a mistake", "", "POST", s.base+"/oauth2/token", form, "Content-Type", "application/x-www-form-urlencoded")
		}
		s.read("a mistake", "", "GET", s.base+"/v1/payments", "", "Authorization", "Basic "+secret)
		s.read("a mistake", s.token, "GET", s.base+"/v1/payments", "", "Traceparent", secret, "Accept", secret)
		s.read("a mistake", s.token, "POST", s.base+"/mcp", `{"jsonrpc":"2.0","id":1,"method":`+quoted+`}`, "Accept", "application/json, text/event-stream")
	}
}

// none searches all that was written.
func (s *spilling) none() {
	s.t.Helper()
	if s.Len() < 7 || len(s.wrote) < 60 {
		s.t.Fatalf("only %d secrets and %d places", s.Len(), len(s.wrote))
	}
	for _, where := range slices.Sorted(maps.Keys(s.wrote)) {
		s.None(s.t, where, s.wrote[where])
	}
}

// What a sandbox logs and shows in its pages has no secret: its file and its standard
// output are where it gives them to its owner.
func TestSandboxSpillsNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "dev.env")
	p := awaitSandbox(t, launch(t, nil, "dev", "--redis", redistest.Single(t).URL, "--addr", "127.0.0.1:0", "--write-env", file), file)
	s := &spilling{site: &site{t: t}, base: p.env["TOLLGATE_URL"], wrote: map[string]string{}}
	s.Add("the token", p.env["TOLLGATE_TOKEN"])
	s.Add("the client's private key", privatePart(t, []byte(p.key)))
	s.Add("the rule signer's private key", privatePart(t, []byte(p.ruleKey)))
	for _, page := range []string{"/", "/docs", "/console", "/console/", "/console/webhooks", "/openapi.json", "/v1/payments", "/mcp"} {
		s.read(page, "", "GET", s.base+page, "")
		s.read(page, p.env["TOLLGATE_TOKEN"], "GET", s.base+page, "")
	}
	p.signal(syscall.SIGQUIT)
	p.exit()
	p.mu.Lock()
	s.wrote["standard error"] = p.log.String()
	p.mu.Unlock()
	for where, text := range s.wrote {
		s.None(t, where, text)
	}
}
