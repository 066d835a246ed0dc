package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/handlers/auth"
)

// TestKeyOutlivesItsRequest: the key is told and kept before the request leaves,
// and the command that the error names repeats exactly that request.
func TestKeyOutlivesItsRequest(t *testing.T) {
	home := t.TempDir()
	var mu sync.Mutex // what is told is looked at while the command runs
	var stdout, stderr *bytes.Buffer
	told := func() string {
		mu.Lock()
		defer mu.Unlock()
		return stderr.String()
	}
	var broken atomic.Bool
	broken.Store(true)
	service := clitest.NewForgetful(t, func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if key := r.Header.Get("Idempotency-Key"); !strings.Contains(told(), "idempotency key: "+key+"\n") || len(clitest.Files(t, home)) != 1 {
			t.Errorf("the request is here before its key is told and kept: %q, %v", told(), clitest.Files(t, home))
		}
		if broken.Load() {
			return false
		}
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"object":"payment","id":"pay_1"}`)
		return true
	})
	args := []string{"pay", "100.00", "EUR", "shop.example", "--quiet", "--description", "it's $HOME; `rm` \"x\"\n*", "--metadata", "a=b c"}
	run := func(args []string) int {
		a, out, err := clitest.Payer(t, service.URL, home)
		a.Stderr = writerFunc(func(b []byte) { err.Write(b) }).locked(&mu)
		mu.Lock()
		stdout, stderr = out, err
		mu.Unlock()
		return a.Run(t.Context(), rootCommand(a), args)
	}
	if code := run(args); code != cli.ExitUnavailable || stdout.Len() > 0 {
		t.Fatalf("exit code %d, %s", code, stdout)
	}
	_, command, ok := strings.Cut(told(), "carried out once:\n  ")
	if !ok || len(clitest.Files(t, home)) != 1 {
		t.Fatalf("%s%v", told(), clitest.Files(t, home))
	}
	again := clitest.WordsOf(t, command)
	broken.Store(false)
	if code := run(again); code != cli.ExitOK || stdout.String() != "pay_1\n" {
		t.Fatalf("%q: exit code %d, %s%s", again, code, stdout, told())
	}
	keys, bodies := service.Seen()
	for i := range keys {
		if keys[i] != keys[0] || keys[i] == "" || bodies[i] != bodies[0] {
			t.Errorf("request %d is %s %s, the first %s %s", i+1, keys[i], bodies[i], keys[0], bodies[0])
		}
	}
	if left := clitest.Files(t, home); len(left) != 0 {
		t.Errorf("answered, and still kept: %v", left)
	}
}

// TestUnansweredIsKept says after which ends a request stays open.
func TestUnansweredIsKept(t *testing.T) {
	for what, c := range map[string]struct {
		answer func(w http.ResponseWriter, n int) bool
		open   bool
	}{
		"refused":                  {func(w http.ResponseWriter, _ int) bool { return clitest.Refuse(w, 422, "amount_invalid") }, false},
		"without a token":          {func(w http.ResponseWriter, _ int) bool { return clitest.Refuse(w, 401, "token_expired") }, false},
		"a server that fails":      {func(w http.ResponseWriter, _ int) bool { return clitest.Refuse(w, 503, "store_unavailable") }, true},
		"lost, then no token":      {func(w http.ResponseWriter, n int) bool { return n > 1 && clitest.Refuse(w, 401, "token_expired") }, true},
		"lost, then too many":      {func(w http.ResponseWriter, n int) bool { return n > 1 && clitest.Refuse(w, 429, "rate_limited") }, true},
		"lost, then not allowed":   {func(w http.ResponseWriter, n int) bool { return n > 1 && clitest.Refuse(w, 403, "scope_missing") }, true},
		"lost, then denied":        {func(w http.ResponseWriter, n int) bool { return n > 1 && clitest.Refuse(w, 403, "perimeter_denied") }, false},
		"lost, then refused":       {func(w http.ResponseWriter, n int) bool { return n > 1 && clitest.Refuse(w, 422, "rule_rejected") }, false},
		"lost, then a rule failed": {func(w http.ResponseWriter, n int) bool { return n > 1 && clitest.Refuse(w, 503, "rule_failed") }, true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			service := clitest.NewForgetful(t, func(w http.ResponseWriter, _ *http.Request, n int) bool { return c.answer(w, n) })
			a, stdout, stderr := clitest.Payer(t, service.URL, home)
			code := a.Run(t.Context(), rootCommand(a), []string{"capture", "pay_1", "--json"})
			told := strings.Contains(stderr.String(), "tollgate capture pay_1 --json --idempotency-key ")
			if kept := len(clitest.Files(t, home)) == 1; kept != c.open || told != c.open || (code == cli.ExitUnavailable) != c.open || stdout.Len() > 0 {
				t.Errorf("exit code %d, kept %t, told %t\n%s", code, kept, told, stderr)
			}
		})
	}
	home := t.TempDir()
	a, _, stderr := clitest.Payer(t, "http://127.0.0.1:1", home)
	if code := a.Run(t.Context(), rootCommand(a), []string{"capture", "pay_1"}); code != cli.ExitUnavailable || len(clitest.Files(t, home)) != 0 || strings.Contains(stderr.String(), "may have been") {
		t.Errorf("nobody was reached: exit code %d, %v\n%s", code, clitest.Files(t, home), stderr)
	}
}

// TestUnansweredOfManyProcesses: none loses another's, a command that asks the
// same again is told so, and without a home the key is told all the same.
func TestUnansweredOfManyProcesses(t *testing.T) {
	home := t.TempDir()
	service := clitest.NewForgetful(t, func(w http.ResponseWriter, r *http.Request, _ int) bool {
		return strings.Contains(r.URL.Path, "pay_even") && clitest.Refuse(w, 409, "payment_state_invalid")
	})
	var all sync.WaitGroup
	for n := range 16 {
		all.Go(func() {
			a, _, _ := clitest.Payer(t, service.URL, home)
			a.Run(t.Context(), rootCommand(a), []string{"capture", []string{"pay_even", "pay_odd"}[n%2], fmt.Sprint(n)})
		})
	}
	all.Wait()
	if left := clitest.Files(t, home); len(left) != 8 {
		t.Errorf("%d requests are kept", len(left))
	}
	a, _, stderr := clitest.Payer(t, service.URL, home)
	a.Run(t.Context(), rootCommand(a), []string{"capture", "pay_odd", "3"})
	if !strings.Contains(stderr.String(), "The same request was sent at ") {
		t.Errorf("nothing is said of the one before:\n%s", stderr)
	}
	a, _, stderr = clitest.Payer(t, service.URL, filepath.Join(os.DevNull, "nowhere"))
	if code := a.Run(t.Context(), rootCommand(a), []string{"capture", "pay_even"}); code != cli.ExitRefused || !strings.Contains(stderr.String(), "idempotency key: ") {
		t.Errorf("without a home: %d\n%s", code, stderr)
	}
}

// TestEveryKeyIsAnnounced: each command that takes a key and has example
// arguments announces it, and keeps it when the answer is lost.
func TestEveryKeyIsAnnounced(t *testing.T) {
	examples := map[string][]string{
		"tollgate pay":             {"1.00", "EUR", "x.example"},
		"tollgate capture":         {"pay_1"},
		"tollgate cancel":          {"pay_1"},
		"tollgate review":          {"pay_1", "approve"},
		"tollgate recover":         {"we_1", "--since", "2026-11-01T00:00:00Z"},
		"tollgate refund":          {"pay_1", "4.00"},
		"tollgate resend":          {"we_1", "dlv_1"},
		"tollgate webhooks create": {"https://x.example"},
		"tollgate webhooks test":   {"we_1"},
		"tollgate webhooks rotate": {"we_1"},
		"tollgate payout release":  {"po_1", "--reason", "x"},
		"tollgate client create":   {"till"},
		"tollgate grant create":    {"cli_1", "--scope", "quotes:read"},
		"tollgate grant revoke":    {"grt_1"},
		"tollgate rule cancel":     {"rs_1", "act_1"},
		"tollgate rule rollback":   {"rs_1"},
	}
	// What asks the service for more first, or needs a file or a key.
	others := []string{"tollgate export", "tollgate client key add", "tollgate rule activate", "tollgate rule publish", "tollgate rule shadow start", "tollgate rule shadow stop"}
	a, _, _ := clitest.App(nil)
	seen := map[string]bool{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if c.Flags().Lookup(cli.KeyFlagName) == nil {
			return
		}
		path := c.CommandPath()
		args, ok := examples[path]
		seen[path] = true
		if !ok {
			for _, other := range others {
				ok = ok || path == other
			}
			if !ok {
				t.Errorf("%s takes a key and is in no list", path)
			}
			return
		}
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			service := clitest.NewForgetful(t, func(http.ResponseWriter, *http.Request, int) bool { return false })
			one, _, stderr := clitest.Payer(t, service.URL, home)
			code := one.Run(t.Context(), rootCommand(one), append(strings.Fields(path)[1:], args...))
			if code != cli.ExitUnavailable || len(clitest.Files(t, home)) != 1 || !strings.Contains(stderr.String(), "carried out once:\n  "+path+" ") {
				t.Errorf("exit code %d, %v\n%s", code, clitest.Files(t, home), stderr)
			}
		})
	}
	walk(rootCommand(a))
	for _, path := range slices.Concat(others, slices.Collect(maps.Keys(examples))) {
		if !seen[path] {
			t.Errorf("%s takes no key", path)
		}
	}
}

// TestRelativeTimesRepeat: what is said as how long ago or from now is repeated
// as the moment that it was, and what was signed with its signature.
func TestRelativeTimesRepeat(t *testing.T) {
	private, _, err := auth.GenerateClientKey(rand.Reader, "ES256")
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "team.jwk")
	if err := os.WriteFile(key, private, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TOLLGATE_RULE_KEY", key) // for the shell
	for _, line := range []string{
		"recover we_1 --since 1h",
		"recover --since=90m we_1 --no-wait",
		"recover we_1 --since 2026-11-01T00:00:00+01:00",
		"rule activate rule:my_fee@v1 --rule-set rs_1 --yes --at 2h",
		"rule activate rule:my_fee@v1 --rule-set rs_1 --at=48h -y --add",
		"rule activate rule:my_fee@v1 --accounts ma_1 --yes",
		"rule publish ../../wasm/rules/card_fee/v1/rule.wasm --rule rule:my_fee@v1 --rule-signer sig_1 --rule-key " + key,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			var n atomic.Int64
			service := clitest.NewForgetful(t, func(w http.ResponseWriter, r *http.Request, _ int) bool {
				w.Header().Set("Date", time.Now().Add(time.Duration(n.Add(1))*time.Hour).UTC().Format(http.TimeFormat))
				if strings.HasPrefix(r.URL.Path, "/v1/merchant-accounts/") {
					fmt.Fprint(w, `{"rule_set":{"id":"rs_1","version":1,"rules":[]}}`)
				}
				return r.Method == http.MethodGet
			})
			home := t.TempDir()
			a, _, stderr := clitest.Payer(t, service.URL, home)
			a.Run(t.Context(), rootCommand(a), strings.Fields(line))
			clitest.RepeatsTheSame(t, rootCommand, service, home, stderr.String())
		})
	}
}
