package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tollgate/rediskv"
)

// world is an app of its own with an environment and buffers.
func world(env map[string]string) (a *app, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	return &app{
		program: "tollgate", env: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		stdin: strings.NewReader(""), stdout: stdout, stderr: stderr, clock: time.Now, entropy: zeros{},
	}, stdout, stderr
}

// zeros is entropy that is none.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// Every command has help, and an example where it does something.
func TestEveryCommandHasHelp(t *testing.T) {
	a, _, _ := world(nil)
	root := rootCommand(a)
	for _, c := range root.Commands() {
		if c.Short == "" {
			t.Errorf("%s has no short help", c.Name())
		}
		for _, sub := range c.Commands() {
			if sub.Runnable() && sub.Example == "" && c.Name() != "completion" { // cobra's own; its text has them
				t.Errorf("%s has no example", sub.CommandPath())
			}
		}
		if c.Runnable() && !c.HasSubCommands() && c.Example == "" {
			t.Errorf("%s has no example", c.Name())
		}
	}
}

// The flags of a command are those that the settings name for it.
func TestSettingsAreFlags(t *testing.T) {
	a, _, _ := world(nil)
	root := rootCommand(a)
	for _, s := range settings {
		for _, name := range s.Commands {
			c, _, err := root.Find([]string{name})
			if err != nil || c.Name() != name {
				t.Errorf("%s is for %s, which is no command", s.Env(), name)
			} else if c.Flags().Lookup(s.Flag) == nil && c.PersistentFlags().Lookup(s.Flag) == nil {
				t.Errorf("%s has no --%s", name, s.Flag)
			}
		}
	}
}

// A flag wins over its variable, which wins over the default.
func TestSettingsOrder(t *testing.T) {
	a, _, _ := world(map[string]string{"TOLLGATE_ADDR": "variable"})
	root := rootCommand(a)
	serve, _, _ := root.Find([]string{"serve"})
	if got := a.config(serve).text("addr"); got != "variable" {
		t.Errorf("addr %q", got)
	}
	if got := a.config(serve).text("metrics-addr"); got != ":9090" {
		t.Errorf("metrics-addr %q", got)
	}
	if err := serve.ParseFlags([]string{"--addr", "flag"}); err != nil {
		t.Fatal(err)
	}
	if got := a.config(serve).text("addr"); got != "flag" {
		t.Errorf("addr %q", got)
	}
}

func TestJudge(t *testing.T) {
	safe := rediskv.Guarantees{Version: "7.0.15", Mode: "standalone", AOF: true, Fsync: "always", EvictionPolicy: "noeviction", Masters: 1}
	for _, c := range []struct {
		name    string
		change  func(*rediskv.Guarantees)
		log     string
		refused string
	}{
		{"safe", func(*rediskv.Guarantees) {}, `"msg":"redis","version":"7.0.15","mode":"standalone","aof":true`, ""},
		{"second lost", func(g *rediskv.Guarantees) { g.Fsync = "everysec" }, `"level":"WARN".*two seconds`, ""},
		{"no file", func(g *rediskv.Guarantees) { g.AOF = false }, `"level":"WARN".*append-only`, ""},
		{"silent", func(g *rediskv.Guarantees) { g.EvictionPolicy = "" }, `"level":"WARN".*noeviction`, ""},
		{"evicts", func(g *rediskv.Guarantees) { g.EvictionPolicy = "allkeys-lru" }, `"msg":"redis"`, "allkeys-lru"},
		{"evicts some", func(g *rediskv.Guarantees) { g.EvictionPolicy = "volatile-ttl" }, `"msg":"redis"`, "volatile-ttl"},
	} {
		var log bytes.Buffer
		g := safe
		c.change(&g)
		err := judge(g, 64, slog.New(slog.NewJSONHandler(&log, nil)))
		if (err == nil) != (c.refused == "") || (err != nil && !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: %v", c.name, err)
		}
		if !regexp.MustCompile(c.log).MatchString(log.String()) {
			t.Errorf("%s: log %s", c.name, &log)
		}
	}
}

func TestReadJWKs(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.jwk")
	if err := os.WriteFile(file, []byte("{\"kty\":\"F\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]string{
		"":                          nil,
		`{"kty":"A","x":1}`:         {`{"kty":"A","x":1}`},
		`{"k":"A"},{"k":"B"}`:       {`{"k":"A"}`, `{"k":"B"}`},
		"{\"k\":\"A\"}\n" + file:    {`{"k":"A"}`, `{"kty":"F"}`},
		file + ", " + file:          {`{"kty":"F"}`, `{"kty":"F"}`},
		" " + file + " \n{\"k\":1}": {`{"kty":"F"}`, `{"k":1}`},
	} {
		keys, err := readJWKs(text)
		var got []string
		for _, k := range keys {
			got = append(got, string(k))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{`{"secret":`, filepath.Join(dir, "none")} {
		if _, err := readJWKs(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestReadSecretKey(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 32)
	text := base64.StdEncoding.EncodeToString(key)
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{text, file} {
		if got, err := readSecretKey(from); err != nil || !bytes.Equal(got, key) {
			t.Errorf("%v", err)
		}
	}
	short := base64.StdEncoding.EncodeToString(key[:31])
	if _, err := readSecretKey(short); err == nil || strings.Contains(err.Error(), short) {
		t.Errorf("31 bytes: %v", err) // the message must not hold what may be a secret
	}
}

// What is quoted is one word of a real shell, whatever it is.
func TestShellQuote(t *testing.T) {
	for _, s := range []string{"", "plain", "/a/b-c_d.e:1@x", "a b", "it's", `$HOME "x" \ ;|&*?<>()`, "tab\there", "ünï", "~", "!x"} {
		out, err := exec.Command("sh", "-c", "printf %s "+shellQuote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("%q: %s gives %q, %v", s, shellQuote(s), out, err)
		}
	}
}

// A file of the environment with odd paths still sources.
func TestEnvironmentSources(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's a dir")
	path := filepath.Join(dir, "dev.env")
	env := (&demo{clientID: "cli_1", clientKey: []byte(`{"kty":"EC"}`), ruleKey: []byte(`{"kty":"EC"}`)}).environment("http://127.0.0.1:1", "token", "whsec_1")
	if err := env.write(path); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", `set -a; . "$1"; set +a; cat "$TOLLGATE_CLIENT_JWK"; env`, "sh", path).CombinedOutput()
	if err != nil || !bytes.HasPrefix(out, []byte(`{"kty":"EC"}`)) || !bytes.Contains(out, []byte("TOLLGATE_GRANT="+demoGrant)) {
		t.Errorf("%v\n%s", err, out)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 3 {
		t.Errorf("%d files beside each other, want 3: %v", len(entries), entries)
	}
}

// The README's table of settings is the one that the program prints.
func TestReadmeHasTheSettings(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a := &app{program: "tollgate", stdout: &out, stderr: &out}
	if code := a.run(t.Context(), rootCommand(a), []string{"settings"}); code != exitOK || !bytes.Contains(readme, out.Bytes()) {
		t.Errorf("README.md has not the output of 'tollgate settings', %d:\n%s", code, &out)
	}
}

func TestTable(t *testing.T) {
	text := table{right: []int{1}}
	text.row("FEE", "AMOUNT", "RULE")
	text.row("Gebühr", "1.00", "x")
	text.row("y", "10000.00", "steers \x1b[2J the terminal")
	want := "FEE       AMOUNT  RULE\n" + "Gebühr      1.00  x\n" + "y       10000.00  steers ?[2J the terminal\n"
	if text.String() != want {
		t.Errorf("got\n%swant\n%s", text.String(), want)
	}
}

func TestPlainHandler(t *testing.T) {
	var out bytes.Buffer
	at := func() time.Time { return time.Date(2026, 11, 21, 18, 16, 28, 0, time.UTC) }
	log := slog.New(newPlainHandler(&out, at)).With("a", 1)
	log.Info("request", "method", "POST", "route", "POST /v1/payments", "status", 201, "took_ms", 3.1, "request_id", "req_1")
	log.Warn("careful", "why", "because")
	log.Debug("unseen")
	want := "18:16:28  POST /v1/payments                             201     3.1 ms  req_1\n18:16:28  careful (warn)  a=1  why=because\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestAddresses(t *testing.T) {
	for addr, want := range map[string]string{":0": "127.0.0.1:0", ":8080": "127.0.0.1:8080", "0.0.0.0:1": "0.0.0.0:1", "[::1]:1": "[::1]:1", "x": "x"} {
		if got := loopback(addr); got != want {
			t.Errorf("%s: %s", addr, got)
		}
	}
	if got := redactURL("redis://user:secret@host:1"); strings.Contains(got, "secret") {
		t.Error(got)
	}
}

// A payment whose answer is lost, or says to try again, is sent again with
// the same key; one that is refused is not.
func TestRetriesKeepTheKey(t *testing.T) {
	for _, c := range []struct {
		name     string
		failures int
		answer   func(http.ResponseWriter)
		requests int32
		exit     int
	}{
		{"cut", 2, func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 3, exitOK},
		{"unavailable", 2, func(w http.ResponseWriter) { problemAnswer(w, 503, "store_unavailable") }, 3, exitOK},
		{"for good", 9, func(w http.ResponseWriter) { problemAnswer(w, 503, "store_unavailable") }, 4, exitUnavailable},
		{"rule", 9, func(w http.ResponseWriter) { problemAnswer(w, 503, "rule_failed") }, 1, exitUnavailable},
		{"refused", 9, func(w http.ResponseWriter) { problemAnswer(w, 422, "amount_invalid") }, 1, exitRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			var keys [8]string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := requests.Add(1)
				keys[n-1] = r.Header.Get("Idempotency-Key")
				if int(n) <= c.failures {
					c.answer(w)
					return
				}
				w.WriteHeader(http.StatusCreated)
				_, _ = w.Write([]byte(`{"id":"pay_1","perimeter":{}}`))
			}))
			defer server.Close()
			a, stdout, stderr := world(map[string]string{"TOLLGATE_URL": server.URL, "TOLLGATE_TOKEN": "x"})
			exit := a.run(t.Context(), rootCommand(a), []string{"pay", "1.00", "EUR", "shop.example", "--quiet"})
			if exit != c.exit || requests.Load() != c.requests {
				t.Errorf("exit %d after %d requests: %s", exit, requests.Load(), stderr)
			}
			if exit == exitOK && stdout.String() != "pay_1\n" {
				t.Errorf("printed %q", stdout)
			}
			if used := slices.Compact(keys[:requests.Load()]); len(used) != 1 || used[0] == "" {
				t.Errorf("keys %q", used)
			}
		})
	}
}

func problemAnswer(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`{"code":"` + code + `","message":"No."}`))
}

// Following goes on where it was when the server is away for a while.
func TestFollowReconnects(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var requests atomic.Int32
	var cursors [8]string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := requests.Add(1)
		cursors[n-1] = r.URL.Query().Get("cursor")
		switch n {
		case 1:
			_, _ = w.Write([]byte(`{"data":[{"id":"evt_1","data":{}}],"next_cursor":"c1"}`))
		case 2:
			panic(http.ErrAbortHandler)
		case 3:
			problemAnswer(w, 503, "store_unavailable")
		default:
			_, _ = w.Write([]byte(`{"data":[{"id":"evt_2","data":{}}],"next_cursor":"c2"}`))
			cancel()
		}
	}))
	defer server.Close()
	a, stdout, stderr := world(map[string]string{"TOLLGATE_URL": server.URL, "TOLLGATE_TOKEN": "x"})
	if exit := a.run(ctx, rootCommand(a), []string{"events", "--follow", "--quiet"}); exit != exitOK {
		t.Errorf("exit %d: %s", exit, stderr)
	}
	if got := strings.Join(cursors[:requests.Load()], " "); got != " c1 c1 c1" {
		t.Errorf("cursors %q", got)
	}
	if !strings.HasPrefix(stdout.String(), "evt_1\n") || strings.Count(stdout.String(), "evt_1") != 1 {
		t.Errorf("printed %q", stdout)
	}
}

// A filtered page can be empty and have a next one; the command walks on. What
// is followed from now on begins with a request that does not wait.
func TestEventsWalkOnAndBeginAtTheEnd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		asked = append(asked, "cursor="+q.Get("cursor")+" after="+q.Get("after")+" wait="+q.Get("wait"))
		switch {
		case q.Get("cursor") == "c2", q.Get("cursor") == "end":
			_, _ = w.Write([]byte(`{"data":[{"id":"evt_1","data":{}}],"has_more":false,"next_cursor":"c3"}`))
			if q.Has("wait") {
				cancel()
			}
		case q.Get("after") == "latest":
			_, _ = w.Write([]byte(`{"data":[],"has_more":false,"next_cursor":"end"}`))
		default:
			_, _ = w.Write([]byte(`{"data":[],"has_more":true,"next_cursor":"c` + map[string]string{"": "1", "c1": "2"}[q.Get("cursor")] + `"}`))
		}
	}))
	defer server.Close()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"events", "--object", "pay_1", "--quiet"}, "cursor= after= wait=, cursor=c1 after= wait=, cursor=c2 after= wait="},
		{[]string{"events", "--follow", "--after", "latest", "--quiet"}, "cursor= after=latest wait=, cursor=end after= wait=20"},
	} {
		asked = nil
		a, stdout, stderr := world(map[string]string{"TOLLGATE_URL": server.URL, "TOLLGATE_TOKEN": "x"})
		if exit := a.run(ctx, rootCommand(a), c.args); exit != exitOK {
			t.Errorf("%v: exit %d: %s", c.args, exit, stderr)
		}
		if got := strings.Join(asked, ", "); got != c.want || strings.Count(stdout.String(), "evt_1\n") > 1 {
			t.Errorf("%v: asked %s; printed %q", c.args, got, stdout)
		}
	}
}
