package client

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
)

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
		{"cut", 2, func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 3, cli.ExitOK},
		{"unavailable", 2, func(w http.ResponseWriter) { clitest.Refuse(w, 503, "store_unavailable") }, 3, cli.ExitOK},
		{"for good", 9, func(w http.ResponseWriter) { clitest.Refuse(w, 503, "store_unavailable") }, 4, cli.ExitUnavailable},
		{"rule", 9, func(w http.ResponseWriter) { clitest.Refuse(w, 503, "rule_failed") }, 1, cli.ExitUnavailable},
		{"refused", 9, func(w http.ResponseWriter) { clitest.Refuse(w, 422, "amount_invalid") }, 1, cli.ExitRefused},
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
			a, stdout, stderr := clitest.App(map[string]string{"TOLLGATE_URL": server.URL, "TOLLGATE_TOKEN": "x"})
			exit := a.Run(t.Context(), clitest.Root(a, Commands(a)...), []string{"pay", "1.00", "EUR", "shop.example", "--quiet"})
			if exit != c.exit || requests.Load() != c.requests {
				t.Errorf("exit %d after %d requests: %s", exit, requests.Load(), stderr)
			}
			if exit == cli.ExitOK && stdout.String() != "pay_1\n" {
				t.Errorf("printed %q", stdout)
			}
			if used := slices.Compact(keys[:requests.Load()]); len(used) != 1 || used[0] == "" {
				t.Errorf("keys %q", used)
			}
		})
	}
}

// Following goes on where it was when the server is away for a while.
func TestFollowReconnects(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
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
			clitest.Refuse(w, 503, "store_unavailable")
		default:
			_, _ = w.Write([]byte(`{"data":[{"id":"evt_2","data":{}}],"next_cursor":"c2"}`))
			cancel()
		}
	}))
	defer server.Close()
	a, stdout, stderr := clitest.App(map[string]string{"TOLLGATE_URL": server.URL, "TOLLGATE_TOKEN": "x"})
	if exit := a.Run(ctx, clitest.Root(a, Commands(a)...), []string{"events", "--follow", "--quiet"}); exit != cli.ExitOK {
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
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
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
		a, stdout, stderr := clitest.App(map[string]string{"TOLLGATE_URL": server.URL, "TOLLGATE_TOKEN": "x"})
		if exit := a.Run(ctx, clitest.Root(a, Commands(a)...), c.args); exit != cli.ExitOK {
			t.Errorf("%v: exit %d: %s", c.args, exit, stderr)
		}
		if got := strings.Join(asked, ", "); got != c.want || strings.Count(stdout.String(), "evt_1\n") > 1 {
			t.Errorf("%v: asked %s; printed %q", c.args, got, stdout)
		}
	}
}
