package rules

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/cmd/tollgate/webhooks"
)

// The lists of rules, activations and shadows are printed whole: all of their
// pages, although one of them is empty.
func TestRuleListsAreWhole(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("cursor") {
		case "":
			_, _ = w.Write([]byte(`{"object":"list","data":[{"id":"x_3","totals":{}}],"has_more":true,"next_cursor":"c1"}`))
		case "c1":
			_, _ = w.Write([]byte(`{"object":"list","data":[],"has_more":true,"next_cursor":"c2"}`))
		default:
			_, _ = w.Write([]byte(`{"object":"list","data":[{"id":"x_2"},{"id":"x_1"}],"has_more":false,"next_cursor":null}`))
		}
	}))
	defer server.Close()
	for _, args := range [][]string{{"rule", "activations", "rs_1"}, {"rule", "shadow", "list"}, {"rule", "published"}} {
		for flag, want := range map[string]string{
			"--quiet": "x_3\nx_2\nx_1\n",
			"--json":  `{"object":"list","data":[{"id":"x_3","totals":{}},{"id":"x_2"},{"id":"x_1"}],"has_more":false,"next_cursor":null}`,
		} {
			a, stdout, stderr := clitest.App(map[string]string{"TOLLGATE_URL": server.URL, "TOLLGATE_TOKEN": "x"})
			if exit := a.Run(t.Context(), clitest.Root(a, Command(a)), append(args, flag)); exit != cli.ExitOK {
				t.Errorf("%v: exit %d: %s", args, exit, stderr)
			}
			got := stdout.String()
			if flag == "--json" {
				got = strings.Join(strings.Fields(got), "")
			}
			if got != want {
				t.Errorf("%v %s: %s", args, flag, got)
			}
		}
	}
}

// What is said relative to now is relative to the service's now, which in the
// sandbox may be far ahead of this machine's.
func TestRelativeToTheService(t *testing.T) {
	now := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	var sent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", now.Format(http.TimeFormat))
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			sent = string(body)
		}
		clitest.Refuse(w, http.StatusForbidden, "scope_missing") // has the time all the same
	}))
	defer server.Close()
	for _, c := range []struct{ args, want string }{
		{"rule activate rule:shop_fee@v1 --rule-set rs_1 --yes --at 2h", `"at":"2031-05-06T09:08:10.000Z"`},
		{"recover we_1 --since 1h", `"since":"2031-05-06T06:08:09.000Z"`},
		{"rule backtest rule:card_fee@v1 --against rule:card_fee@v2 --since 24h", `"created_after":"2031-05-05T07:08:09.000Z"`},
		{"rule activate rule:shop_fee@v1 --rule-set rs_1 --yes --at 2026-12-01T00:00:00+01:00", `"at":"2026-11-30T23:00:00.000Z"`},
	} {
		sent = ""
		a, _, stderr := clitest.App(map[string]string{"TOLLGATE_URL": server.URL, "TOLLGATE_TOKEN": "x"})
		if exit := a.Run(t.Context(), clitest.Root(a, append(webhooks.Commands(a), Command(a))...), strings.Fields(c.args)); exit != cli.ExitRefused {
			t.Errorf("%s: exit %d: %s", c.args, exit, stderr)
		}
		if !strings.Contains(sent, c.want) {
			t.Errorf("%s: sent %s, want %s", c.args, sent, c.want)
		}
	}
	// Without a service, --since is relative to this machine.
	a, _, stderr := clitest.App(nil)
	a.Stdin = strings.NewReader("")
	if exit := a.Run(t.Context(), clitest.Root(a, Command(a)), strings.Fields("rule backtest rule:card_fee@v1 --against rule:card_fee@v2 --since 24h --tickets -")); exit != cli.ExitOK {
		t.Errorf("offline: exit %d: %s", exit, fmt.Sprint(stderr))
	}
}
