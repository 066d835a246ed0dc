package edge_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
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

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/cmd/edge/edgetest"
	"tollgate/cmd/sandbox"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/handlers/auth"
	"tollgate/handlers/rate"
	"tollgate/handlers/service"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
	"tollgate/rediskv/testkit"
	"tollgate/wasm"
)

const issuer = "https://pay.tollgate.test"

// pair is one organization on one Redis, served by workerd and by this process.
type pair struct {
	t            testing.TB
	server       *redistest.Server
	redis        string
	store        *store.Store
	env          []string
	edge, native string // URLs
	token        string
	private      []byte    // the client's JWK
	public       [2]string // JWKs of the client and the pricing team
	runtime      *edgetest.Runtime
	harness      bool // in front of it
}

// newPair starts both. It needs what `make edge` writes and workerd, whose place
// TOLLGATE_TEST_EDGE names.
func newPair(t testing.TB, settings ...string) *pair {
	t.Helper()
	p := makePair(t, settings...)
	p.run()
	return p
}

// newHarness is newPair where the test sees and moves what is inside.
func newHarness(t testing.TB, settings ...string) *pair {
	t.Helper()
	p := makePair(t, settings...)
	p.harness = true
	p.run()
	return p
}

// makePair is the organization and the native service.
func makePair(t testing.TB, settings ...string) *pair {
	t.Helper()
	edgetest.Needed(t)
	p := &pair{t: t, server: redistest.Fresh(t)}
	p.redis = p.server.URL
	signing, err := auth.GenerateSigningKey(rand.Reader)
	must(t, err)
	private, public, err := auth.GenerateClientKey(rand.Reader, "ES256")
	must(t, err)
	_, team, err := auth.GenerateClientKey(rand.Reader, "ES256")
	must(t, err)
	p.public = [2]string{string(public), string(team)}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	builtin, err := wasm.BuiltinRefs()
	must(t, err)
	store := testkit.Open(t, rediskv.Options{URL: p.redis, Clock: time.Now, Rules: builtin})
	p.store = store
	_, err = redistest.Provision(t.Context(), store, sandbox.Config(string(public), string(team)), false)
	must(t, err)

	s, err := service.New(t.Context(), store, service.Options{
		Issuer: issuer, SigningKeys: [][]byte{signing}, SecretKeys: [][]byte{secret}, Entropy: rand.Reader, Clock: time.Now, Examine: wasm.Examine, RateLimits: rate.Unlimited,
	})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	running := make(chan struct{})
	go func() { defer close(running); s.Run(ctx) }()
	native := httptest.NewServer(s.Server.Handler())
	t.Cleanup(func() { native.Close(); stop(); <-running; s.Close(context.Background()) })
	p.native = native.URL

	p.env = []string{
		"TOLLGATE_REDIS_URL=" + p.redis, "TOLLGATE_ISSUER=" + issuer, "TOLLGATE_SIGNING_KEY=" + string(signing),
		"TOLLGATE_SECRET_KEY=" + base64.StdEncoding.EncodeToString(secret), "TOLLGATE_EDGE_SHARDS=2", "TOLLGATE_LOG_LEVEL=warn", "TOLLGATE_PUBLISH_URL=", "TOLLGATE_RATE_LIMITS=off",
	}
	p.env, p.private = append(p.env, settings...), private
	return p
}

// run starts workerd and gets a token from it.
func (p *pair) run() {
	t := p.t
	t.Helper()
	p.start()
	for _, url := range []string{p.edge, p.native} {
		testkit.Eventually(t, url+" is ready", func() bool { return p.call(url, "GET", "/readyz", "").status == 200 })
	}
	answer, err := clitest.AskToken(t.Context(), p.edge, issuer, sandbox.Client, p.private)
	must(t, err)
	var issued struct {
		AccessToken string `json:"access_token"`
	}
	must(t, json.Unmarshal([]byte(answer.Text), &issued))
	p.token = issued.AccessToken
	// An object's first request may come before its first look at what has changed; its
	// quote then says as of when.
	testkit.Eventually(t, "it knows what is current", func() bool {
		return strings.Contains(p.call(p.edge, "POST", "/v1/quotes", `{"amount":"10.00","currency":"EUR","payee":"shop.example"}`).body, `"as_of":null`)
	})
}

// start runs workerd, another one if it ran.
func (p *pair) start() {
	p.t.Helper()
	run := edgetest.Start
	if p.harness {
		run = edgetest.StartHarness
	}
	p.runtime = run(p.t, p.env...)
	p.edge = p.runtime.URL
}

// reply is an answer; none has the status 0.
type reply struct {
	status int
	header http.Header
	body   string
}

// call makes a request; headers are names and values.
func (p *pair) call(url, method, path, body string, headers ...string) reply {
	a, err := clitest.Send(p.t.Context(), p.token, method, url+path, body, headers...)
	if err != nil {
		return reply{body: err.Error()}
	}
	return reply{a.StatusCode, a.Header, a.Text}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var own = regexp.MustCompile(`\b[a-z]+_[0-9a-hjkmnp-tv-z]{26}\b|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)

// common is an answer without what is of each alone: ids and times.
func (r reply) common() string { return fmt.Sprint(r.status, " ", own.ReplaceAllString(r.body, "…")) }

// rounds is how much is tried: a little on every commit.
func rounds(few, many int) int {
	if edgetest.All() {
		return many
	}
	return few
}

// Both give the same quotes, and make the same payments, bit for bit: what one has
// made the other captures, and its ticket runs again.
func TestEdgeIsTheService(t *testing.T) {
	p := newPair(t)
	random := mathrand.New(mathrand.NewPCG(1, 2))
	payees := []string{"shop.example", "deny.test", "refuse.test", "https://shop.example/a", "someone@shop.example"}
	input := func() string {
		return fmt.Sprintf(`"amount":"%d.%02d","currency":%q,"payee":%q`, random.IntN(3000), random.IntN(100),
			[]string{"EUR", "USD", "GBP", "PLN"}[random.IntN(4)], payees[random.IntN(len(payees))])
	}
	digests := 0
	for range rounds(200, 10_000) {
		body := "{" + input() + "}"
		edge, native := p.call(p.edge, "POST", "/v1/quotes", body), p.call(p.native, "POST", "/v1/quotes", body)
		if edge.common() != native.common() {
			t.Fatalf("%s:\nedge   %s\nnative %s", body, edge.body, native.body)
		}
		if strings.Contains(edge.body, `"digest":"`) {
			digests++
		}
	}
	if digests == 0 {
		t.Error("no quote had a digest")
	}
	for n := range rounds(20, 1000) {
		body, method := "{"+input()+`,"capture_method":"`, []string{"manual", "automatic"}[n%2]
		body += method + `"}`
		made := map[string]reply{}
		for url, name := range map[string]string{p.edge: "edge", p.native: "native"} {
			key := fmt.Sprint(name, n)
			r := p.call(url, "POST", "/v1/payments", body, "Idempotency-Key", key)
			made[name] = r
			for _, other := range []string{p.edge, p.native} {
				if again := p.call(other, "POST", "/v1/payments", body, "Idempotency-Key", key); r.status == 201 && (again.body != r.body || again.header.Get("Idempotent-Replayed") != "true") {
					t.Errorf("%s again: %d %s, was %s", key, again.status, again.body, r.body)
				}
			}
		}
		if made["edge"].common() != made["native"].common() {
			t.Fatalf("%s:\nedge   %s\nnative %s", body, made["edge"].body, made["native"].body)
		}
		if made["edge"].status != 201 {
			continue
		}
		tickets := map[string]reply{}
		for name, other := range map[string]string{"edge": p.native, "native": p.edge} {
			var payment tollgate.Payment
			must(t, json.Unmarshal([]byte(made[name].body), &payment))
			if payment.Status == tollgate.Authorized {
				if r := p.call(other, "POST", "/v1/payments/"+payment.ID+"/captures", "{}"); r.status != 201 {
					t.Fatalf("the other's capture: %d %s", r.status, r.body)
				}
			}
			tickets[name] = p.call(other, "GET", "/v1/tickets/"+payment.TicketID, "")
		}
		if tickets["edge"].common() != tickets["native"].common() {
			t.Fatalf("tickets:\nedge   %s\nnative %s", tickets["edge"].body, tickets["native"].body)
		}
	}
}

// buildTollgate is the path of the native program.
func buildTollgate(t testing.TB) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "tollgate")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/tollgate").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// serve runs `tollgate serve` with the settings of the pair, and says where. It is a
// process of its own, as workerd is: the service inside the client's process would be
// spared the way between processes.
func (p *pair) serve() string {
	t := p.t
	t.Helper()
	addr, err := redistest.FreeAddr()
	must(t, err)
	cmd := exec.Command(buildTollgate(t), "serve", "--addr", addr, "--metrics-addr", "off")
	cmd.Env = os.Environ()
	for _, setting := range p.env {
		if name, _, _ := strings.Cut(setting, "="); name != "TOLLGATE_EDGE_SHARDS" && name != "TOLLGATE_PUBLISH_URL" {
			cmd.Env = append(cmd.Env, setting)
		}
	}
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	url := "http://" + addr
	testkit.Eventually(t, url+" is ready", func() bool { return p.call(url, "GET", "/readyz", "").status == 200 })
	return url
}

// What a request costs at one connection, beside the native service.
func BenchmarkEdge(b *testing.B) {
	p := newPair(b)
	for _, c := range []struct{ name, url string }{{"native", p.serve()}, {"edge", p.edge}} {
		b.Run("quote/"+c.name, func(b *testing.B) {
			p.perRequest(b, c.name)
			for b.Loop() {
				if r := p.call(c.url, "POST", "/v1/quotes", `{"amount":"10.00","currency":"EUR","payee":"shop.example"}`); r.status != 200 {
					b.Fatalf("%d %s", r.status, r.body)
				}
			}
		})
		b.Run("create/"+c.name, func(b *testing.B) {
			p.perRequest(b, c.name)
			for b.Loop() {
				if r := p.call(c.url, "POST", "/v1/payments", `{"amount":"10.00","currency":"EUR","payee":"shop.example"}`, "Idempotency-Key", rand.Text()); r.status != 201 {
					b.Fatalf("%d %s", r.status, r.body)
				}
			}
		})
	}
}

// perRequest reports what a request takes of workerd's processor.
func (p *pair) perRequest(b *testing.B, who string) {
	if who != "edge" {
		return
	}
	before := p.runtime.CPU()
	b.Cleanup(func() { b.ReportMetric((p.runtime.CPU()-before).Seconds()*1e6/float64(b.N), "cpu-µs/op") })
}

// How long a cold process takes until it is ready.
func BenchmarkEdgeReady(b *testing.B) {
	p := newPair(b)
	var used time.Duration
	var memory int64
	for b.Loop() {
		p.runtime.Kill()
		p.start()
		for p.call(p.edge, "GET", "/readyz", "").status != 200 {
		}
		used, memory = used+p.runtime.CPU(), memory+p.runtime.Memory()
	}
	b.ReportMetric(used.Seconds()*1e3/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(memory)/1e6/float64(b.N), "MB")
}

// It stays small enough for an edge runtime.
func TestSize(t *testing.T) {
	edgetest.Needed(t)
	module, err := os.ReadFile("../../bin/edge/tollgate.wasm")
	must(t, err)
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	must(t, err)
	_, err = w.Write(module)
	must(t, errors.Join(err, w.Close()))
	t.Logf("%.1f MB, %.2f MB packed", float64(len(module))/1e6, float64(packed.Len())/1e6)
	if len(module) > 29_000_000 || packed.Len() > 6_300_000 {
		t.Errorf("the module has %d bytes, %d packed: more than 29 MB, or than 6.3 MB", len(module), packed.Len())
	}
}

// Rules are published elsewhere, and an answer that is long is sent as it is read.
func TestWhatAnObjectHasNot(t *testing.T) {
	p := newPair(t)
	if r := p.call(p.edge, "GET", "/openapi.json", ""); r.status != 200 || len(r.body) < 400_000 || r.body != p.call(p.native, "GET", "/openapi.json", "").body {
		t.Errorf("/openapi.json: %d, %d bytes", r.status, len(r.body))
	}
	if r := p.call(p.edge, "HEAD", "/openapi.json", ""); r.status != 200 || r.body != "" {
		t.Errorf("HEAD: %d %q", r.status, r.body)
	}
	if r := p.call(p.edge, "POST", "/v1/payments", strings.Repeat(" ", 70_000), "Idempotency-Key", "k"); r.status != 413 {
		t.Errorf("a body that is too large: %d %s", r.status, r.body)
	}
}

// Secrets come from bindings: nothing of them is in what `make edge` writes.
func TestNoSecrets(t *testing.T) {
	p := newPair(t)
	secrets := [][]byte{p.private, []byte(`"d":"`), []byte("PRIVATE KEY-----\n")}
	for _, setting := range p.env {
		if name, value, _ := strings.Cut(setting, "="); strings.HasSuffix(name, "_KEY") {
			secrets = append(secrets, []byte(value))
		}
	}
	if len(secrets) != 5 {
		t.Fatalf("%d secrets in %v", len(secrets), p.env)
	}
	files, err := filepath.Glob("../../bin/edge/*")
	must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		for _, secret := range secrets {
			if bytes.Contains(text, secret) {
				t.Errorf("%s holds %.12q…", file, secret)
			}
		}
	}
	if len(files) < 4 {
		t.Errorf("%d files", len(files))
	}
}

// The image's check says of a runtime whether it is ready.
func TestHealthCheck(t *testing.T) {
	p := newPair(t)
	text, err := os.ReadFile("Dockerfile")
	must(t, err)
	m := regexp.MustCompile(`(?m)^HEALTHCHECK .* CMD (\[.*\])$`).FindSubmatch(text)
	var command []string
	must(t, json.Unmarshal(m[1], &command))
	check := func(port string) error {
		return exec.Command(command[0], command[1], strings.ReplaceAll(command[2], "/8080", "/"+port)).Run()
	}
	port := p.edge[strings.LastIndexByte(p.edge, ':')+1:]
	if err := check(port); err != nil {
		t.Errorf("a runtime that is ready: %v", err)
	}
	p.runtime.Kill()
	if check(port) == nil {
		t.Error("a runtime that has ended")
	}
}

// A key goes on where workerd was killed: what was committed is answered, once.
func TestEdgeKilled(t *testing.T) {
	p := newPair(t)
	body := `{"amount":"10.00","currency":"EUR","payee":"shop.example"}`
	var first reply
	times := rounds(1, 5)
	for n := range times {
		key := fmt.Sprint("k", n)
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			time.Sleep(time.Duration(n) * time.Millisecond)
			p.runtime.Kill()
		}()
		before := p.call(p.edge, "POST", "/v1/payments", body, "Idempotency-Key", key)
		<-killed
		p.start()
		testkit.Eventually(t, "an answer", func() bool {
			first = p.call(p.edge, "POST", "/v1/payments", body, "Idempotency-Key", key)
			return first.status == 201
		})
		if before.status == 201 && before.body != first.body {
			t.Errorf("acknowledged %s, and then %s", before.body, first.body)
		}
	}
	if list := p.call(p.native, "GET", "/v1/payments?limit=100", ""); strings.Count(list.body, `"object":"payment"`) != times {
		t.Errorf("not %d payments: %s", times, list.body)
	}
}

// Connections that Redis ends while nothing happens are met by no request.
func TestEdgeConnectionsKilled(t *testing.T) {
	p := newPair(t)
	redis := strings.TrimPrefix(p.redis, "redis://")
	for n := range 10 {
		if out, err := exec.Command("redis-cli", "-u", "redis://"+redis, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").CombinedOutput(); err != nil || bytes.Contains(out, []byte("ERR")) {
			t.Fatalf("%v: %s", err, out)
		}
		if r := p.call(p.edge, "POST", "/v1/payments", `{"amount":"10.00","currency":"EUR","payee":"shop.example"}`, "Idempotency-Key", fmt.Sprint("k", n)); r.status != 201 {
			t.Errorf("after a kill: %d %s", r.status, r.body)
		}
	}
}

// An object that nobody asks is no instance that others wait for, and is one again
// with the next request.
func TestSleep(t *testing.T) {
	p := newPair(t, "TOLLGATE_EDGE_SHARDS=1", "TOLLGATE_EDGE_IDLE=1")
	instances := func() int {
		list, err := p.store.Instances(t.Context())
		must(t, err)
		return len(list)
	}
	for range 2 {
		if r := p.call(p.edge, "POST", "/v1/quotes", `{"amount":"10.00","currency":"EUR","payee":"shop.example"}`); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		testkit.Eventually(t, "the object counts", func() bool { return instances() == 2 })
		testkit.Eventually(t, "it sleeps", func() bool { return instances() == 1 })
	}
	// Meanwhile the account is paused, of which it hears nothing.
	config := sandbox.Config(p.public[0], p.public[1])
	config.MerchantAccounts[0].Status = "paused"
	_, err := redistest.Provision(t.Context(), p.store, config, false)
	must(t, err)
	time.Sleep(6 * time.Second) // longer than what it knows is used unasked
	if r := p.call(p.edge, "POST", "/v1/quotes", `{"amount":"10.00","currency":"EUR","payee":"shop.example"}`); r.status != 409 {
		t.Errorf("a quote of what it knew: %d %s", r.status, r.body)
	}
}

// While Redis is away requests are refused with a time to come back, and afterwards
// they are answered; what was acknowledged is there.
func TestRedisComesBack(t *testing.T) {
	p := newPair(t)
	acknowledged, refused, n := map[string]bool{}, 0, 0
	pay := func() bool {
		n++
		r := p.call(p.edge, "POST", "/v1/payments", `{"amount":"10.00","currency":"EUR","payee":"shop.example"}`, "Idempotency-Key", fmt.Sprint("k", n))
		switch {
		case r.status == 201:
			var payment tollgate.Payment
			must(t, json.Unmarshal([]byte(r.body), &payment))
			acknowledged[payment.ID] = true
		case r.status == 503 && r.header.Get("Retry-After") != "":
			refused++
		default:
			t.Errorf("%d %s", r.status, r.body)
		}
		return r.status == 201
	}
	for range 3 {
		for range 30 {
			if !pay() {
				t.Error("a payment was refused while Redis was there")
			}
		}
		p.server.Kill()
		if pay() {
			t.Error("a payment without Redis")
		}
		p.server.Restart()
		testkit.Eventually(t, "payments go on", pay)
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
	for id := range acknowledged {
		if r := p.call(p.edge, "GET", "/v1/payments/"+id, ""); r.status != 200 {
			t.Errorf("%s: %d %s", id, r.status, r.body)
		}
	}
}

// Two objects of one organization know nothing of each other: of a key that both get
// at once, one payment comes, and both answer with it.
func TestTwoObjects(t *testing.T) {
	p := newPair(t)
	urls := []string{p.edge, ""}
	p.start()
	urls[1] = p.edge
	testkit.Eventually(t, "the second is ready", func() bool { return p.call(p.edge, "GET", "/readyz", "").status == 200 })
	count := rounds(30, 1000)
	for n := range count {
		var answers [2]reply
		var both sync.WaitGroup
		for i, url := range urls {
			both.Go(func() {
				answers[i] = p.call(url, "POST", "/v1/payments", `{"amount":"10.00","currency":"EUR","payee":"shop.example"}`, "Idempotency-Key", fmt.Sprint("k", n))
			})
		}
		both.Wait()
		if answers[0].status != 201 || answers[0].body != answers[1].body {
			t.Errorf("%d %s\n%d %s", answers[0].status, answers[0].body, answers[1].status, answers[1].body)
		}
	}
	if made := p.payments(); made != count {
		t.Errorf("%d payments of %d keys", made, count)
	}
}

// The sandbox has workerd answer, with a worker and a receiver beside it, and takes it
// along when it ends.
func TestDev(t *testing.T) {
	edgetest.Needed(t)
	dir := t.TempDir()
	program, env := buildTollgate(t), filepath.Join(dir, "edge.env")
	var log bytes.Buffer
	dev := exec.Command(program, "dev", "--redis", redistest.Fresh(t).URL, "--addr", "127.0.0.1:0", "--workerd", edgetest.Binary(t), "--edge", "../../bin/edge", "--write-env", env)
	dev.Stdout, dev.Stderr = &log, &log
	must(t, dev.Start())
	ended := make(chan error, 1)
	go func() { ended <- dev.Wait() }()
	t.Cleanup(func() { _ = dev.Process.Kill() })
	testkit.Eventually(t, "the sandbox is ready", func() bool {
		_, err := os.Stat(env)
		return err == nil
	})
	run := func(command string) string {
		out, err := exec.Command("sh", "-c", "set -a; . "+env+"; set +a; "+strings.ReplaceAll(command, "tollgate ", program+" ")).Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	id := run("tollgate pay 10.00 EUR shop.example --automatic --quiet")
	testkit.Eventually(t, "its delivery", func() bool {
		return strings.Contains(run("tollgate deliveries $TOLLGATE_WEBHOOK"), "succeeded")
	})
	if verified := run("tollgate ticket " + id + " --json | tollgate rule verify -"); !strings.Contains(verified, "agree, byte for byte") {
		t.Errorf("%s", verified)
	}
	url := run("echo $TOLLGATE_URL")
	must(t, dev.Process.Signal(os.Interrupt))
	if err := <-ended; err != nil {
		t.Errorf("%v: %s", err, &log)
	}
	if answer, err := clitest.Send(t.Context(), "", "GET", url+"/healthz", ""); err == nil {
		t.Errorf("after its end %s answers %d", url, answer.StatusCode)
	}
}
