//go:build linux

package rules

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
)

// terminal is a pseudo-terminal: what is typed, and what a program reads.
func terminal(t *testing.T) (typed, read *os.File) {
	t.Helper()
	typed, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { typed.Close() })
	if err := unix.IoctlSetPointerInt(int(typed.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(typed.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	read, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	return typed, read
}

// TestActivateAsks: before anything is changed, a person at a terminal sees what
// it changes and says yes; only then is it asked for, with the rule that was
// shown as replaced.
func TestActivateAsks(t *testing.T) {
	const shown = `"rule_set_id":"rs_1","rule":"rule:my_fee@v1","replaces":"rule:card_fee@v2","merchant_account_ids":["ma_1"],
		"comparison":{"payee":"shop.example","before":["rule:card_fee@v2"],"after":["rule:my_fee@v1"],"samples":[{"amount":"100.00","currency":"EUR",
			"before":{"total":"2.15","lines":[],"error":null},"after":{"total":null,"lines":[],"error":{"code":"rule_rejected","rule":"rule:my_fee@v1"}}}]}`
	for answer, want := range map[string]struct {
		exit int
		sent string
	}{
		"n\n":    {cli.ExitRefused, ""},
		"\n":     {cli.ExitRefused, ""},
		"\x04":   {cli.ExitRefused, ""}, // the end of the input
		"yeah\n": {cli.ExitRefused, ""},
		"y\n":    {cli.ExitOK, `"replaces":"rule:card_fee@v2"`},
		"YES\n":  {cli.ExitOK, `"replaces":"rule:card_fee@v2"`},
	} {
		var sent string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if strings.Contains(string(body), `"dry_run":true`) {
				_, _ = io.WriteString(w, `{"object":"activation_preview",`+shown+`}`)
				return
			}
			sent = string(body)
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"object":"activation","id":"act_1","status":"active",`+shown+`}`)
		}))
		defer server.Close()
		a, stdout, stderr := clitest.App(map[string]string{"TOLLGATE_URL": server.URL, "TOLLGATE_TOKEN": "x"})
		typed, read := terminal(t)
		a.Stdin = read
		if _, err := io.WriteString(typed, answer); err != nil {
			t.Fatal(err)
		}
		exit := a.Run(t.Context(), clitest.Root(a, Command(a)), strings.Fields("rule activate rule:my_fee@v1 --replace card_fee --rule-set rs_1"))
		if exit != want.exit || !strings.Contains(sent, want.sent) || (want.sent == "") != (sent == "") {
			t.Errorf("%q: exit %d, sent %q, %s", answer, exit, sent, stderr)
		}
		for _, line := range []string{"before  rule:card_fee@v2", "after   rule:my_fee@v1", "100.00  EUR         2.15  rule_rejected rule:my_fee@v1"} {
			if !strings.Contains(stdout.String(), line) {
				t.Errorf("%q: no %q in\n%s", answer, line, stdout)
			}
		}
		if !strings.Contains(stderr.String(), "Put rule:my_fee@v1 in force in the place of rule:card_fee@v2 for ma_1? [y/N]") {
			t.Errorf("%q: %s", answer, stderr)
		}
	}
}

// TestAskedRepeats: the command that repeats what was asked for at a terminal
// asks for the same, without asking again what is meant by now.
func TestAskedRepeats(t *testing.T) {
	t.Parallel()
	service := clitest.NewForgetful(t, func(w http.ResponseWriter, r *http.Request, n int) bool {
		if strings.HasPrefix(r.URL.Path, "/v1/merchant-accounts/") {
			_, _ = fmt.Fprintf(w, `{"rule_set":{"id":"rs_%d","version":1,"rules":[]}}`, n)
			return true
		}
		if r.Header.Get("Idempotency-Key") == "" {
			_, _ = io.WriteString(w, `{"object":"activation_preview","rule_set_id":"rs_1","rule":"rule:my_fee@v2","replaces":"rule:my_fee@v1","merchant_account_ids":["ma_1"]}`)
			return true
		}
		return false
	})
	home := t.TempDir()
	a, _, stderr := clitest.Payer(t, service.URL, home)
	typed, read := terminal(t)
	a.Stdin = read
	if _, err := io.WriteString(typed, "y\n"); err != nil {
		t.Fatal(err)
	}
	a.Run(t.Context(), clitest.Root(a, Command(a)), strings.Fields("rule activate rule:my_fee@v2 --accounts ma_1 --no-wait"))
	const want = "tollgate rule activate rule:my_fee@v2 --accounts ma_1 --no-wait --rule-set rs_1 --replace rule:my_fee@v1 --yes --idempotency-key "
	if !strings.Contains(stderr.String(), "\n  "+want) {
		t.Fatalf("%s", stderr)
	}
	clitest.RepeatsTheSame(t, func(a *cli.App) *cobra.Command { return clitest.Root(a, Command(a)) }, service, home, stderr.String())
}
