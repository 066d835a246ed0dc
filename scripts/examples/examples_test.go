// Package examples_test runs the examples against a sandbox, through a proxy that makes
// what they are written for happen: a refusal, a lost answer, a forged delivery.
package examples_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Each file of an example is read at a glance.
func TestExamplesAreShort(t *testing.T) {
	files, err := filepath.Glob("*/*.*")
	if err != nil || len(files) < 9 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(text, []byte("\n")); lines > 60 && filepath.Base(name) != "package-lock.json" {
			t.Errorf("%s has %d lines, at most 60", name, lines)
		}
	}
}

// Every example tells of a refusal, pays once although an answer was lost, reads its
// ticket, takes the delivery that Tollgate has signed and none that is forged.
func TestExamples(t *testing.T) {
	if os.Getenv("TOLLGATE_TEST_EXAMPLES") == "" {
		t.Skip("make examples runs it: it needs Python and Node.js with libraries, curl, jq, openssl and socat")
	}
	env := startSandbox(t)
	for name, command := range map[string][]string{
		"curl": {"bash", absolute(t, "curl/pay.sh")}, "python": {python(t), absolute(t, "python/pay.py")},
		"node": {"node", absolute(t, "node/pay.mjs")}, "go": {build(t, "go", ".")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runExample(t, env, "order-"+name, append(command, "order-"+name))
		})
	}
}

func runExample(t *testing.T, env map[string]string, order string, command []string) {
	between := &proxy{t: t, base: env["TOLLGATE_URL"]}
	server := httptest.NewServer(between)
	defer server.Close()
	dir, addr := t.TempDir(), freePort(t)
	run := func() (string, error) {
		c := exec.CommandContext(t.Context(), command[0], command[1:]...)
		c.Dir, c.Env = dir, append(os.Environ(), "TOLLGATE_URL="+server.URL, "PORT="+addr)
		for _, name := range []string{"TOLLGATE_ISSUER", "TOLLGATE_CLIENT_ID", "TOLLGATE_CLIENT_JWK"} {
			c.Env = append(c.Env, name+"="+env[name])
		}
		out, err := c.CombinedOutput()
		return string(out), err
	}

	between.next(func(w http.ResponseWriter, req *http.Request) {
		req.Header.Del("Idempotency-Key")
		between.pass(w, req)
	})
	if out, err := run(); err == nil || !strings.Contains(out, `"code":"idempotency_key_required"`) || !strings.Contains(out, `"request_id":"req_`) {
		t.Errorf("refused, it says %v\n%s", err, out)
	}
	between.next(func(_ http.ResponseWriter, req *http.Request) {
		between.pass(httptest.NewRecorder(), req)
		panic(http.ErrAbortHandler)
	})
	out, err := run()
	if err != nil { // Go's client sends again by itself what has a key
		out, err = run()
	}
	done := regexp.MustCompile(`(?s)Card fee 0\.48 rule:card_fee@v2\n.*verified evt_\w+ (pay_\w+) captured\n`).FindStringSubmatch(out)
	if err != nil || done == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !between.forged {
		t.Error("no delivery was forged")
	}
	if ids := payments(t, env, order); len(ids) != 1 || ids[0] != done[1]+" captured" {
		t.Errorf("it says that %s was captured; there are %q", done[1], ids)
	}
}

// proxy stands between an example and the sandbox.
type proxy struct {
	t    *testing.T
	base string

	mu          sync.Mutex
	on          http.HandlerFunc // instead of the next payment, once
	url, secret string           // of the endpoint that the example has made
	forged      bool
}

func (p *proxy) next(on http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on = on
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	p.mu.Lock()
	on := p.on
	if req.URL.Path != "/v1/payments" {
		on = nil
	}
	if on != nil {
		p.on = nil
	}
	p.mu.Unlock()
	if strings.HasSuffix(req.URL.Path, "/captures") {
		p.forge()
	}
	if on == nil {
		on = p.pass
	}
	on(w, req)
}

// pass asks the sandbox and answers as it does.
func (p *proxy) pass(w http.ResponseWriter, req *http.Request) {
	onward, err := http.NewRequestWithContext(req.Context(), req.Method, p.base+req.URL.RequestURI(), req.Body)
	if err != nil {
		p.t.Error(err)
		return
	}
	onward.Header = req.Header
	answer, err := http.DefaultClient.Do(onward)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Error(err)
	}
	if req.URL.Path == "/v1/webhooks" {
		var made struct{ URL, Secret string }
		if err := json.Unmarshal(body, &made); err != nil {
			p.t.Error(err)
		}
		p.mu.Lock()
		p.url, p.secret = made.URL, made.Secret
		p.mu.Unlock()
	}
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(body)
}

// forge sends the example deliveries that Tollgate has not signed, or not now.
func (p *proxy) forge() {
	p.mu.Lock()
	url, secret := p.url, p.secret
	p.forged = true
	p.mu.Unlock()
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		p.t.Error(err)
		return
	}
	const body = `{"id":"evt_forged","type":"payment.captured","data":{"payment_id":"pay_forged","status":"captured"}}`
	now := time.Now()
	sign := func(at time.Time, body string) string {
		signature, err := hook.Sign("evt_forged", at, []byte(body))
		if err != nil {
			p.t.Error(err)
		}
		return signature
	}
	for name, f := range map[string]struct {
		at        time.Time
		signature string
	}{
		"no signature": {now, ""}, "another's signature": {now, "v1,bm90IHNpZ25lZCBieSBUb2xsZ2F0ZQ=="}, "the signature of another body": {now, sign(now, body+" ")},
		"an old timestamp": {now.Add(-time.Hour), sign(now.Add(-time.Hour), body)}, "the signature of another time": {now, sign(now.Add(-time.Minute), body)},
	} {
		req, err := http.NewRequestWithContext(p.t.Context(), "POST", url, strings.NewReader(body))
		if err != nil {
			p.t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("webhook-id", "evt_forged")
		req.Header.Set("webhook-timestamp", timestamp(f.at))
		req.Header.Set("webhook-signature", f.signature)
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			p.t.Errorf("%s: %v", name, err)
			continue
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest {
			p.t.Errorf("a delivery with %s is answered with %s", name, answer.Status)
		}
	}
}
