package handlers_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate/handlers"
	"tollgate/handlers/auth"
	"tollgate/handlers/rate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
	"tollgate/wasm"
)

// benched is a server with one organization, as an operator runs it but for
// the log, whose lines go nowhere.
type benched struct {
	url    string
	client *http.Client
	token  string
	keys   atomic.Int64

	private  []byte // the client's key
	clientID string
}

func startBench(b *testing.B, redisURL string) *benched {
	b.Helper()
	check := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	store, err := store.Open(b.Context(), rediskv.Options{URL: redisURL, Clock: time.Now, Entropy: bufio.NewReader(rand.Reader), Rules: builtinRefs()})
	check(err)
	b.Cleanup(func() { store.Close() })
	rules, err := wasm.NewEngine(b.Context())
	check(err)
	check(rules.LoadBuiltin(b.Context()))
	signing, err := auth.GenerateSigningKey(rand.Reader)
	check(err)
	keys, err := auth.ParseSigningKeys(signing)
	check(err)
	private, public, err := auth.GenerateClientKey(rand.Reader, "ES256")
	check(err)
	config := organization(store, public)
	_, err = redistest.Provision(b.Context(), store, config, false)
	check(err)
	s, err := handlers.New(handlers.Config{
		Store: store, Rules: rules, Keys: keys, IssuerURL: issuer, Clock: time.Now, Vault: newVault(b), Entropy: rand.Reader, Examine: wasm.Examine,
		RateLimits: rate.Unlimited,
		Log:        slog.New(slog.NewJSONHandler(io.Discard, nil)),
	})
	check(err)
	server := httptest.NewUnstartedServer(s.Handler())
	server.Listener = s.Listen(server.Listener)
	server.Start()
	b.Cleanup(server.Close)
	f := &benched{url: server.URL, client: server.Client(), private: private, clientID: config.Clients[0].ID}
	f.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 64
	assertion, err := auth.SignAssertion(private, config.Clients[0].ID, issuer, rand.Text(), time.Now())
	check(err)
	resp, err := f.client.PostForm(f.url+"/oauth2/token", tokenForm(assertion))
	check(err)
	defer resp.Body.Close()
	var issued struct {
		AccessToken string `json:"access_token"`
	}
	check(json.UnmarshalRead(resp.Body, &issued))
	f.token = issued.AccessToken
	return f
}

// request makes one request and reads its answer.
func (f *benched) request(ctx context.Context, method, path, body string, status int) error {
	req, err := http.NewRequestWithContext(ctx, method, f.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+f.token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if path == "/v1/payments" {
		req.Header.Set("Idempotency-Key", fmt.Sprintf("key-%08d", f.keys.Add(1)))
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != status {
		err = fmt.Errorf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	return err
}

func (f *benched) pay(ctx context.Context) error {
	return f.request(ctx, "POST", "/v1/payments", `{`+good+`}`, 201)
}

// payments starts a server and makes a payment, which fills its cache.
func payments(b *testing.B, redisURL string) *benched {
	b.Helper()
	f := startBench(b, redisURL)
	if err := f.pay(b.Context()); err != nil {
		b.Fatal(err)
	}
	return f
}

// measure runs one operation after the other.
func measure(b *testing.B, do func(context.Context) error) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if err := do(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// measureMany runs operations of 16 clients at once on two processors.
func measureMany(b *testing.B, client func() func(context.Context) error) {
	b.Helper()
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for do := client(); pb.Next(); {
			if err := do(b.Context()); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// realRedis is a redis-server with its append-only file, whatever the tests
// run on: only beside a real one does a ratio mean anything.
func realRedis(b *testing.B) string {
	b.Helper()
	b.Setenv(redistest.Variable, redistest.Real)
	return redistest.URL(b)
}

// A payment over HTTP, client included, beside the bare script with the very
// arguments that a payment sends, on a socket of its own.
func BenchmarkCreatePayment(b *testing.B) {
	url := realRedis(b)
	script := captureScript(b, url)
	b.Run("evalsha", func(b *testing.B) { measure(b, script.dial(b).run) })
	b.Run("http", func(b *testing.B) { measure(b, payments(b, url).pay) })
}

// The same with many clients at once.
func BenchmarkCreatePayments(b *testing.B) {
	url := realRedis(b)
	script := captureScript(b, url)
	b.Run("evalsha", func(b *testing.B) {
		measureMany(b, func() func(context.Context) error { return script.dial(b).run })
	})
	b.Run("http", func(b *testing.B) {
		f := payments(b, url)
		measureMany(b, func() func(context.Context) error { return f.pay })
	})
}

// BenchmarkCapture captures parts of payments, and makes one for each 40 of them.
func BenchmarkCapture(b *testing.B) {
	f := payments(b, realRedis(b))
	path, captures := "", 0
	measure(b, func(ctx context.Context) error {
		if captures++; captures%40 == 1 {
			id, err := f.payment(ctx)
			if err != nil {
				return err
			}
			path = "/v1/payments/" + id + "/captures"
		}
		return f.request(ctx, "POST", path, `{"amount":"0.01","final_capture":false}`, 201)
	})
}

// payment makes a payment and returns its id.
func (f *benched) payment(ctx context.Context) (string, error) {
	var made struct {
		ID string `json:"id"`
	}
	req, err := http.NewRequestWithContext(ctx, "POST", f.url+"/v1/payments", strings.NewReader(`{`+good+`}`))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+f.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", fmt.Sprintf("key-%08d", f.keys.Add(1)))
	resp, err := f.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	err = json.UnmarshalRead(resp.Body, &made)
	return made.ID, err
}

// A quote over HTTP beside a request that does nothing: what remains is the
// token, the decoding, three rules and the answer.
func BenchmarkQuote(b *testing.B) {
	f := startBench(b, redistest.URL(b))
	b.Run("healthz", func(b *testing.B) {
		measure(b, func(ctx context.Context) error { return f.request(ctx, "GET", "/healthz", "", 200) })
	})
	b.Run("http", func(b *testing.B) {
		measure(b, func(ctx context.Context) error { return f.request(ctx, "POST", "/v1/quotes", `{`+good+`}`, 200) })
	})
}

// paymentScript is the command that creates a payment, as it was sent, and the
// places in it that differ from one payment to the next.
type paymentScript struct {
	addr   string
	text   []byte
	places []int
	runs   *atomic.Int64
}

const placeSize = 8

// captureScript makes two payments through a proxy and compares their
// commands: identifiers, and the digest of the key, that are in one of them
// only are the payment's own.
func captureScript(b *testing.B, url string) paymentScript {
	b.Helper()
	wire := redistest.Proxy(b, url)
	f := payments(b, wire.URL)
	wire.Reset()
	for range 2 {
		if err := f.pay(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	sent := wire.Sent()
	if len(sent) != 2 || sent[0].Name != "EVALSHA" || sent[1].Name != "EVALSHA" {
		b.Fatalf("two payments sent %v", wire.Counts())
	}
	s := paymentScript{addr: strings.TrimPrefix(url, "redis://"), runs: new(atomic.Int64)}
	s.text = resp(append([]string{sent[0].Name}, sent[0].Args...)...)
	other := strings.Join(sent[1].Args, "\n")
	own := regexp.MustCompile(`\b01[0-9a-hjkmnp-tv-z]{24}\b|_01[0-9a-hjkmnp-tv-z]{24}\b|:idem:[0-9a-f]{40}\b|:parts:[0-9a-hjkmnp-tv-z]{14}\b`)
	for _, found := range own.FindAllIndex(s.text, -1) {
		if !strings.Contains(other, string(s.text[found[0]:found[1]])) {
			s.places = append(s.places, found[1]-placeSize)
		}
	}
	if len(s.places) < 10 {
		b.Fatalf("only %d places differ in\n%q", len(s.places), s.text)
	}
	return s
}

// bareWire is a connection that sends the script and nothing else.
type bareWire struct {
	paymentScript
	conn    net.Conn
	replies *bufio.Reader
}

func (s paymentScript) dial(b *testing.B) *bareWire {
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		panic(err) // in a goroutine of RunParallel nothing else ends the benchmark
	}
	b.Cleanup(func() { conn.Close() })
	s.text = bytes.Clone(s.text)
	return &bareWire{s, conn, bufio.NewReader(conn)}
}

// run creates one payment: the same again with identifiers of its own.
func (w *bareWire) run(context.Context) error {
	var digits [placeSize]byte
	n := w.runs.Add(1)
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + n%10)
		n /= 10
	}
	for _, at := range w.places {
		copy(w.text[at:], digits[:])
	}
	if _, err := w.conn.Write(w.text); err != nil {
		return err
	}
	line, err := w.replies.ReadString('\n')
	size, _ := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "*")))
	for i := 0; i < 2*size && err == nil; i++ { // of each answer its length and its text
		if line, err = w.replies.ReadString('\n'); err == nil && i == 1 && line != "created\r\n" {
			err = errors.New("no payment")
		}
	}
	if err != nil || size == 0 {
		return fmt.Errorf("the script answered %q, %v", line, err)
	}
	return nil
}
