package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate/cmd/tollgate/clitest"
	"tollgate/rediskv"
	"tollgate/rediskv/history"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// party is a client of the interface with a token of its own.
type party struct {
	t     *testing.T
	s     *sandbox // of which it has its name and key
	base  string
	token string
}

func newParty(t *testing.T, s *sandbox) *party {
	p := &party{t: t, s: s, base: s.env["TOLLGATE_URL"]}
	p.authenticate()
	return p
}

func (p *party) authenticate() {
	testkit.Eventually(p.t, "a token", func() bool {
		a, err := clitest.AskToken(p.t.Context(), p.base, p.s.env["TOLLGATE_ISSUER"], p.s.env["TOLLGATE_CLIENT_ID"], []byte(p.s.key))
		var issued struct {
			AccessToken string `json:"access_token"`
		}
		if err != nil || a.StatusCode != http.StatusOK || json.Unmarshal([]byte(a.Text), &issued) != nil {
			return false
		}
		p.token = issued.AccessToken
		return true
	})
}

func (p *party) send(method, path, key, body string) (clitest.Answer, error) {
	return clitest.Send(p.t.Context(), p.token, method, p.base+path, body, "Idempotency-Key", key)
}

func (p *party) read(path string, into any) {
	p.t.Helper()
	a, err := p.send("GET", path, "", "")
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d", a.StatusCode)
	}
	if err == nil {
		err = json.Unmarshal([]byte(a.Text), into)
	}
	if err != nil {
		p.t.Fatalf("%s: %v %s", path, err, a.Text)
	}
}

// pay pays an order, and returns the code of a refusal.
func (p *party) pay(order string) (code, since string) {
	p.t.Helper()
	a, err := p.send("POST", "/v1/payments", order, `{"amount":"10.00","currency":"EUR","payee":"shop.example","reference":"`+order+`"}`)
	if err != nil {
		p.t.Fatal(err)
	}
	if a.StatusCode == http.StatusCreated {
		return "", ""
	}
	var problem struct {
		Code  string `json:"code"`
		Since string `json:"since"`
	}
	if err := json.Unmarshal([]byte(a.Text), &problem); err != nil {
		p.t.Fatal(a.Text)
	}
	return problem.Code, problem.Since
}

// paid are the payments of an order.
func (p *party) paid(order string) int {
	p.t.Helper()
	var list struct {
		Data []seenPayment `json:"data"`
	}
	p.read("/v1/payments?reference="+order, &list)
	return len(list.Data)
}

type logged struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	HistoryID string `json:"history_id"`
	Sequence  int    `json:"sequence"`
}

type page struct {
	Data    []logged `json:"data"`
	HasMore bool     `json:"has_more"`
	Cursor  string   `json:"next_cursor"`
}

// tail follows the log of events as the guide has it, and handles each once.
type tail struct {
	*party
	mu      sync.Mutex
	handled map[string]int // by history and sequence
	told    int            // how often a cursor was of another history
	stop    chan struct{}
}

func follow(p *party) *tail {
	f := &tail{party: p, handled: map[string]int{}, stop: make(chan struct{})}
	go func() {
		cursor := ""
		for {
			select {
			case <-f.stop:
				return
			default:
			}
			cursor = f.step(cursor)
		}
	}()
	p.t.Cleanup(f.end)
	return f
}

func (f *tail) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.stop:
	default:
		close(f.stop)
	}
}

func (f *tail) step(cursor string) string {
	a, err := f.send("GET", "/v1/events?limit=7&wait=1"+from(cursor), "", "")
	switch {
	case err != nil || a.StatusCode >= 500: // the service is away
		time.Sleep(20 * time.Millisecond)
		return cursor
	case a.StatusCode == http.StatusGone:
		f.mu.Lock()
		f.told++
		f.mu.Unlock()
		f.authenticate()
		return ""
	}
	var read page
	if err := json.Unmarshal([]byte(a.Text), &read); err != nil || a.StatusCode != http.StatusOK {
		f.t.Errorf("events: %d %s", a.StatusCode, a.Text)
		f.end()
		return cursor
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range read.Data {
		f.handled[e.key()]++ // who handles drops what is there; here it is counted
	}
	return read.Cursor
}

// from is the parameter of a listing that goes on.
func from(cursor string) string {
	if cursor == "" {
		return ""
	}
	return "&cursor=" + cursor
}

func (e logged) key() string { return fmt.Sprintf("%s/%d", e.HistoryID, e.Sequence) }

// has says whether an event was handled.
func (f *tail) has(e logged) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.handled[e.key()] > 0
}

// hooks takes webhooks.
type hooks struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (h *hooks) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids[r.Header.Get("webhook-id")] = true
}

func (h *hooks) has(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ids[id]
}

// A copy is restored under a client that goes on following the log, a receiver of
// webhooks and a payer. Who follows the guide has every event that exists, and pays
// nothing twice.
func TestRestoredUnderClients(t *testing.T) {
	old, fresh := redistest.Replicated(t)
	address, err := redistest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	began := 0
	start := func(url string) *sandbox {
		began++
		file := filepath.Join(t.TempDir(), fmt.Sprintf("dev%d.env", began))
		return awaitSandbox(t, launch(t, nil, "dev", "--redis", url, "--addr", address, "--write-env", file, "--no-log"), file)
	}
	first := start(old.URL)
	took := &hooks{ids: map[string]bool{}}
	web := httptest.NewServer(took)
	defer web.Close()
	first.run("webhooks", "create", web.URL, "--quiet")
	payer, follower := newParty(t, first), follow(newParty(t, first))
	order := func(n int) string { return fmt.Sprintf("order-%d", n) }
	pay := func(n int) {
		if code, _ := payer.pay(order(n)); code != "" {
			t.Fatalf("%s: %s", order(n), code)
		}
	}
	for n := range 5 {
		pay(n)
	}
	dir := filepath.Join(t.TempDir(), "copy")
	if out := runProgram(t, []string{"TOLLGATE_REDIS_URL=" + old.URL}, "backup", dir); !strings.Contains(out, "0 findings") {
		t.Errorf("the copy: %s", out)
	}
	copied := time.Now()
	for n := 5; n < 8; n++ { // acknowledged, and lost
		pay(n)
	}
	last := newest(payer)
	testkit.Eventually(t, "the follower has what will be lost", func() bool { return follower.has(last) })
	first.kill()
	old.Stop()

	env := []string{"TOLLGATE_REDIS_URL=" + fresh.URL}
	runProgram(t, env, "restore", dir)
	start(fresh.URL)
	code, since := payer.pay(order(8)) // with the token of before
	at, err := time.Parse(time.RFC3339Nano, since)
	if code != "history_changed" || err != nil || at.After(copied) || at.Before(copied.Add(-time.Minute)) {
		t.Fatalf("a payment after the restore: %q since %q", code, since)
	}
	if code, _ := payer.pay(order(2)); code != "history_changed" {
		t.Errorf("a key that was used before: %q", code)
	}
	var missing []int
	for n := range 9 {
		if payer.paid(order(n)) == 0 {
			missing = append(missing, n)
		}
	}
	if fmt.Sprint(missing) != "[5 6 7 8]" {
		t.Errorf("missing %v", missing)
	}
	payer.authenticate()
	for _, n := range missing {
		pay(n)
	}
	for n := range 9 {
		if times := payer.paid(order(n)); times != 1 {
			t.Errorf("%s was paid %d times", order(n), times)
		}
	}
	all := everyEvent(payer)
	testkit.Eventually(t, "the follower has every event that exists", func() bool {
		return !slices.ContainsFunc(all, func(e logged) bool { return !follower.has(e) })
	})
	testkit.Eventually(t, "so has the receiver", func() bool {
		return !slices.ContainsFunc(all, func(e logged) bool { return strings.HasPrefix(e.Type, "payment.") && !took.has(e.ID) })
	})
	follower.once(all, last)
	if show := launch(t, env, "history", "show"); show.exit() != 1 || !strings.Contains(show.out(), "(restore)") || !strings.Contains(show.out(), "payouts        no") {
		t.Errorf("%s", show.out())
	}
	runProgram(t, env, "history", "accept")
	runProgram(t, env, "history", "show")
	if out := runProgram(t, env, "check"); !strings.Contains(out, "\n0 findings") {
		t.Errorf("%s", out)
	}
}

// Nobody starts on a Redis into which a copy is being restored, and says what to do.
func TestNobodyStartsWhileRestoring(t *testing.T) {
	server := redistest.Fresh(t)
	s := newSite(t, server.URL)
	if err := server.Command("HSET", rediskv.MetaKey, history.Restoring, "bak_1", "partitions", history.NoPartitions); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"serve", "work", "check", "history show"} {
		p := launch(t, s.env, strings.Fields(command)...)
		if code := p.exit(); code != 2 || !p.says("restored into this Redis (bak_1). Wait until 'tollgate restore' has ended") {
			t.Errorf("%s: exit code %d", command, code)
		}
	}
}

// newest is the last event of the log.
func newest(p *party) logged {
	var read page
	p.read("/v1/events?order=desc&limit=1", &read)
	return read.Data[0]
}

// everyEvent is the whole log.
func everyEvent(p *party) (all []logged) {
	for cursor := ""; ; {
		var read page
		p.read("/v1/events?limit=100"+from(cursor), &read)
		all = append(all, read.Data...)
		if cursor = read.Cursor; !read.HasMore {
			return all
		}
	}
}

// once looks whether what was lost is told apart from what exists, by the pair of history
// and sequence, and whether the follower was told once.
func (f *tail) once(all []logged, lost logged) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pairs, ids, sequences := map[string]bool{}, map[string]bool{}, map[int]bool{}
	for _, e := range all {
		pairs[e.key()], ids[e.ID], sequences[e.Sequence] = true, true, true
	}
	if len(pairs) != len(all) || len(ids) != len(all) || len(sequences) != len(all) {
		f.t.Errorf("%d events, %d pairs, %d ids, %d sequence numbers", len(all), len(pairs), len(ids), len(sequences))
	}
	if pairs[lost.key()] || ids[lost.ID] || !sequences[lost.Sequence] {
		f.t.Errorf("%+v was lost, and its number given again in another history", lost)
	}
	if f.told != 1 {
		f.t.Errorf("its cursor was of another history %d times", f.told)
	}
	lostSeen := 0
	for key := range f.handled {
		if !pairs[key] {
			lostSeen++
		}
	}
	if lostSeen == 0 || len(f.handled) != len(all)+lostSeen {
		f.t.Errorf("handled %d events, of which %d were lost; %d exist", len(f.handled), lostSeen, len(all))
	}
}
