package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// An instance that starts while Redis is away quotes with what it knew, says since
// when nobody could confirm it, and is whole again when Redis is back.
func TestStartWithoutRedis(t *testing.T) {
	t.Parallel() // it waits most of its time
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	s := newSite(t, wire.URL)
	s.hasty()
	folder := t.TempDir()
	first := s.serve("--snapshot-dir", folder)
	s.authenticate(first.serving())
	const payment = `{"amount":"100.00","currency":"EUR","payee":"shop.example"}`
	var before, away, after tollgate.Quote
	testkit.Within(t, "what it quotes with is known to be current", patience, func() bool {
		before = tollgate.Quote{}
		s.must(http.StatusOK, "POST", first.serving()+"/v1/quotes", "", payment).into(t, &before)
		return before.AsOf == 0
	})
	testkit.Within(t, "what it knows is kept", patience, func() bool {
		files, err := filepath.Glob(folder + "/*.org.json")
		return err == nil && len(files) > 0 && filesHave(t, folder+"/redis.json", `"confirmed":"2`)
	})
	first.kill()

	wire.Refuse()
	second := s.serve("--snapshot-dir", folder, "--metrics-addr", "127.0.0.1:0")
	testkit.Within(t, "it quotes", patience, func() bool { return second.logged("quoting without redis") != nil })
	line := second.logged("quoting without redis")
	base := "http://" + line["addr"].(string)
	s.must(http.StatusOK, "POST", base+"/v1/quotes", "", payment).into(t, &away)
	if ids := s.must(http.StatusOK, "GET", base+"/.well-known/jwks.json", "", "").Text; !strings.Contains(ids, `"kid":`) || strings.Contains(ids, `"d":`) {
		t.Errorf("the keys by which it verifies tokens: %s", ids)
	}
	if away.Digest != before.Digest || away.AsOf == 0 || before.AsOf != 0 {
		t.Errorf("before %+v, and while redis is away %+v", before, away)
	}
	s.must(http.StatusServiceUnavailable, "POST", base+"/v1/payments", "key", payment)
	s.must(http.StatusServiceUnavailable, "GET", base+"/readyz", "", "")
	if r := s.must(http.StatusOK, "GET", base+"/readyz?for=quotes", "", ""); !strings.Contains(r.Text, `"redis":"unreachable","rules":"ok"`) {
		t.Error(r.Text)
	}
	s.must(http.StatusOK, "GET", "http://"+line["metrics_addr"].(string)+"/metrics", "", "")

	wire.Accept()
	if again := second.serving(); again != base {
		t.Errorf("it moves from %s to %s", base, again)
	}
	testkit.Within(t, "it is ready", patience, func() bool {
		r, err := s.send("GET", base+"/readyz", "", "")
		return err == nil && r.StatusCode == http.StatusOK
	})
	s.must(http.StatusOK, "POST", base+"/v1/quotes", "", payment).into(t, &after)
	if after.Digest != before.Digest || after.AsOf != 0 {
		t.Errorf("before %+v, and after %+v", before, after)
	}
	s.must(http.StatusCreated, "POST", base+"/v1/payments", "key", payment)
	second.signal(syscall.SIGTERM)
	if code := second.exit(); code != 0 {
		t.Errorf("it ends with %d", code)
	}

	// One that is stopped while it quotes ends as any other.
	wire.Refuse()
	third := s.serve("--snapshot-dir", folder)
	testkit.Within(t, "it quotes", patience, func() bool { return third.logged("quoting without redis") != nil })
	third.signal(syscall.SIGTERM)
	if code := third.exit(); code != 0 {
		t.Errorf("it ends with %d", code)
	}
}

// logged is the last line with a message; nil: there is none.
func (p *process) logged(message string) (entry map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.lines {
		var read map[string]any
		if json.Unmarshal([]byte(line), &read) == nil && read["msg"] == message {
			entry = read
		}
	}
	return entry
}

func filesHave(t *testing.T, file, text string) bool {
	t.Helper()
	b, err := os.ReadFile(file)
	return err == nil && strings.Contains(string(b), text)
}
