package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate/cmd/sandbox"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/rediskv"
)

const issuer = "https://sandbox.example"

// receiver takes deliveries, and answers with a status.
type receiver struct {
	status  atomic.Int64
	refused atomic.Int64
	mu      sync.Mutex
	taken   []string // types of events
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	var event struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return nil, err
	}
	status := int(r.status.Load())
	if status != http.StatusOK {
		r.refused.Add(1)
	} else {
		r.mu.Lock()
		r.taken = append(r.taken, event.Type)
		r.mu.Unlock()
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

func (r *receiver) has(kind string) func() bool {
	return func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.Contains(r.taken, kind)
	}
}

// running is a sandbox that runs, and a client of it.
type running struct {
	t     *testing.T
	redis *sandbox.Redis
	url   string
	token string
	stop  func()
}

func run(t *testing.T, redis *sandbox.Redis, clock func() time.Time, r *receiver) *running {
	t.Helper()
	return runKept(t, redis, clock, r, func(h http.Handler) http.Handler { return h })
}

func runKept(t *testing.T, redis *sandbox.Redis, clock func() time.Time, r *receiver, kept func(http.Handler) http.Handler) *running {
	t.Helper()
	s, err := sandbox.Start(t.Context(), sandbox.Options{
		URL: issuer, Redis: redis, Clock: clock, Entropy: rand.Reader, Log: slog.New(slog.DiscardHandler), Transport: r, Receiver: "https://receiver.example/hooks",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	server := httptest.NewServer(kept(s.Server.Handler()))
	answer, err := clitest.AskToken(t.Context(), server.URL, issuer, sandbox.Client, s.Secrets.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	var granted struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(answer.Text), &granted); err != nil || granted.AccessToken == "" {
		t.Fatalf("%s: %v", answer.Text, err)
	}
	x := &running{t: t, redis: redis, url: server.URL, token: granted.AccessToken}
	x.stop = sync.OnceFunc(func() {
		server.Close()
		cancel()
		<-done
		if err := s.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(x.stop)
	return x
}

func (x *running) send(want int, method, path, body string, headers ...string) []byte {
	x.t.Helper()
	answer, err := clitest.Send(x.t.Context(), x.token, method, x.url+path, body, headers...)
	if err != nil || answer.StatusCode != want {
		x.t.Fatalf("%s %s: %d %s %v", method, path, answer.StatusCode, answer.Text, err)
	}
	return []byte(answer.Text)
}

func (x *running) pay(key, amount string) (id string) {
	x.t.Helper()
	var payment struct {
		ID string `json:"id"`
	}
	body := fmt.Sprintf(`{"amount":%q,"currency":"EUR","payee":"shop.example"}`, amount)
	if err := json.Unmarshal(x.send(http.StatusCreated, "POST", "/v1/payments", body, "Idempotency-Key", key), &payment); err != nil {
		x.t.Fatal(err)
	}
	return payment.ID
}

func within(t *testing.T, what string, done func() bool) {
	t.Helper()
	for start := time.Now(); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > 30*time.Second {
			t.Fatal(what)
		}
	}
}

// A sandbox starts on a machine on which its own Redis takes longer than one elsewhere
// may.
func TestSlowMachine(t *testing.T) {
	t.Parallel()
	slow := sync.OnceFunc(func() { time.Sleep(rediskv.OperationTimeout + 200*time.Millisecond) })
	run(t, sandbox.NewRedis(func() time.Time { slow(); return time.Now() }), time.Now, new(receiver))
}

// What changes in a sandbox's Redis makes the same Redis elsewhere, change by change
// or as a whole, and a sandbox goes on there: the same organization and client, the
// same answers, and deliveries that were under way.
func TestSandboxGoesOn(t *testing.T) {
	t.Parallel()
	start := time.Now()
	var stopped atomic.Bool // the clock
	clock := func() time.Time {
		if stopped.Load() {
			return start.Add(time.Hour)
		}
		return time.Now()
	}
	hooks := new(receiver)
	hooks.status.Store(http.StatusOK)
	first := sandbox.NewRedis(clock)
	x := run(t, first, clock, hooks)
	var chunks [][]byte
	keep := func() {
		if c := first.Changes(); c != nil {
			chunks = append(chunks, c)
		}
	}

	var payments []string
	for i := range 5 {
		payments = append(payments, x.pay(fmt.Sprint("key-", i), "100.00"))
		keep()
		x.send(http.StatusCreated, "POST", "/v1/payments/"+payments[i]+"/captures", `{}`, "Idempotency-Key", fmt.Sprint("capture-", i))
	}
	x.send(http.StatusAccepted, "POST", "/v1/exports/preview", `{"dataset":"transactions"}`, "Idempotency-Key", "export")
	within(t, "nothing is delivered", hooks.has("payment.captured"))
	x.send(http.StatusOK, "POST", "/v1/sandbox/clock", `{"advance":"120h"}`)
	within(t, "nothing is paid out", hooks.has("payout.paid"))
	keep()
	hooks.status.Store(http.StatusInternalServerError)
	for i := range 3 { // as its tick does, and no tick is a number of milliseconds
		first.FastForward(1400 * time.Microsecond)
		x.pay(fmt.Sprint("tick-", i), "1.00")
	}
	last := x.pay("last", "7.00")
	within(t, "no attempt has failed", func() bool { return hooks.refused.Load() > 0 })
	answers := func(x *running) string {
		var all strings.Builder
		for _, path := range []string{"/v1/payments/" + payments[0], "/v1/payments/" + payments[4], "/v1/transactions", "/v1/events?limit=100", "/v1/payouts", "/v1/exports"} {
			all.Write(x.send(http.StatusOK, "GET", path, ""))
		}
		return cursors.ReplaceAllString(all.String(), "")
	}
	before := answers(x)
	x.stop()
	keep()
	stopped.Store(true)

	replayed, restored := sandbox.NewRedis(clock), sandbox.NewRedis(clock)
	for _, c := range chunks {
		if _, err := replayed.Replay(c); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := first.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := restored.Replay(whole); err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]*sandbox.Redis{"change by change": replayed, "as a whole": restored} {
		again, err := other.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again, whole) {
			t.Errorf("%s: %s", name, difference(whole, again))
		}
	}
	if first.Changes() != nil || restored.Changes() != nil {
		t.Error("a snapshot changes something")
	}

	stopped.Store(false)
	x = run(t, restored, clock, hooks)
	if after := answers(x); after != before {
		t.Error(difference([]byte(before), []byte(after)))
	}
	if id := x.pay("last", "7.00"); id != last {
		t.Errorf("the same key makes %s, and made %s", id, last)
	}
	hooks.mu.Lock()
	hooks.taken = nil
	hooks.mu.Unlock()
	hooks.status.Store(http.StatusOK)
	x.send(http.StatusOK, "POST", "/v1/sandbox/clock", `{"advance":"1h"}`)
	within(t, "what was not delivered is forgotten", hooks.has("payment.authorized"))
}

// cursors are encrypted, each time anew.
var cursors = regexp.MustCompile(`"next_cursor":"[^"]*"`)

// difference is where two texts part.
func difference(a, b []byte) string {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	from := max(0, i-200)
	return fmt.Sprintf("from byte %d of %d and %d:\n%q\n%q", i, len(a), len(b), a[from:min(len(a), i+200)], b[from:min(len(b), i+200)])
}

// What is kept may be damaged or somebody else's: it is refused.
func TestReplayRefuses(t *testing.T) {
	for name, changes := range map[string]string{
		"cut off":      "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n",
		"no protocol":  "PK\x03\x04",
		"nothing":      "*0\r\n",
		"a read":       "*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
		"a script":     "*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n",
		"waiting":      "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n",
		"unknown":      "*1\r\n$5\r\nHELPS\r\n",
		"no duration":  "*3\r\n$11\r\nFASTFORWARD\r\n$1\r\nx\r\n$1\r\n1\r\n",
		"a huge word":  "*1\r\n$99999999999999999999\r\n",
		"half a count": "*3",
	} {
		if _, err := sandbox.NewRedis(time.Now).Replay([]byte(changes)); err == nil {
			t.Errorf("%s is replayed", name)
		}
	}
}

// ask sends a command of words without spaces, and reads as much as comes at once.
func ask(t *testing.T, r *sandbox.Redis, command string) string {
	t.Helper()
	c, err := r.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	words := strings.Fields(command)
	fmt.Fprintf(c, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(c, "$%d\r\n%s\r\n", len(w), w)
	}
	b := make([]byte, 4096)
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(b[:n])), " ")
}

// Every kind of key comes back, with what is left of its time, a stream with its last
// id and its groups.
func TestSnapshot(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	first := sandbox.NewRedis(func() time.Time { return now })
	for _, command := range []string{
		"SET text value PX 60000", "SET number 7", "HSET hash b 2 a 1", "RPUSH list z y x", "SADD set m n", "ZADD zset -inf low 0.1 tenth +inf high",
		"XADD stream 1-1 a 1", "XADD stream 2-1 b 2", "XADD stream 3-1 c 3", "XDEL stream 3-1", "XGROUP CREATE stream readers 0",
		"XADD emptied 5-1 a 1", "XDEL emptied 5-1", "XREADGROUP GROUP readers someone STREAMS stream >",
	} {
		if reply := ask(t, first, command); strings.HasPrefix(reply, "-") {
			t.Fatalf("%s: %s", command, reply)
		}
	}
	first.FastForward(20 * time.Second)
	whole, err := first.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	second := sandbox.NewRedis(func() time.Time { return now })
	if at, err := second.Replay(whole); err != nil || !at.Equal(now) {
		t.Fatalf("%s: %v", at, err)
	}
	for command, want := range map[string]string{
		"GET text": "$5 value", "PTTL text": ":40000", "GET number": "$1 7", "PTTL number": ":-1", "HGETALL hash": "*4 $1 a $1 1 $1 b $1 2",
		"LRANGE list 0 -1": "*3 $1 z $1 y $1 x", "SMEMBERS set": "*2 $1 m $1 n", "ZRANGE zset 0 -1 WITHSCORES": "*6 $3 low $4 -inf $5 tenth $3 0.1 $4 high $3 inf",
		"XRANGE stream - +": "*2 *2 $3 1-1 *2 $1 a $1 1 *2 $3 2-1 *2 $1 b $1 2", "XLEN emptied": ":0",
		"XINFO STREAM stream":  "*4 $6 length :2 $17 last-generated-id $3 3-1",
		"XINFO STREAM emptied": "*4 $6 length :0 $17 last-generated-id $3 5-1",
		"XREADGROUP GROUP readers another COUNT 1 STREAMS stream >": "*1 *2 $6 stream *1 *2 $3 1-1 *2 $1 a $1 1", // handed out again
		"DBSIZE": ":8",
	} {
		if got := ask(t, second, command); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
}

// A transaction's effects would not be recorded where they happen.
func TestNoTransactionChangesAnything(t *testing.T) {
	r := sandbox.NewRedis(time.Now)
	c, err := r.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReader(c)
	for _, x := range []struct{ command, want string }{
		{"*1\r\n$5\r\nMULTI\r\n", "+OK"},
		{"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n", "-ERR a transaction that changes"},
		{"*1\r\n$7\r\nDISCARD\r\n", "+OK"},
		{"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n", "+OK"},
	} {
		fmt.Fprint(c, x.command)
		if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, x.want) {
			t.Errorf("%q: %q %v", x.command, line, err)
		}
	}
	if changes := r.Changes(); bytes.Count(changes, []byte("SET")) != 1 {
		t.Errorf("%q", changes)
	}
}
