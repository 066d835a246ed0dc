package dev

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
)

// The command shows what happens from before the clock was moved until nothing
// more does, and says so when nothing was due.
func TestClockShowsEvents(t *testing.T) {
	page := func(cursor string, types ...string) string {
		var events []string
		for _, kind := range types {
			events = append(events, fmt.Sprintf(`{"id":"evt_%s","type":%q,"created_at":"2026-11-21T12:00:00.000Z","sequence":1,"data":{}}`, cursor, kind))
		}
		return fmt.Sprintf(`{"object":"list","data":[%s],"has_more":false,"next_cursor":%q}`, strings.Join(events, ","), cursor)
	}
	for _, c := range []struct {
		pages []string
		shows []string
	}{
		{[]string{page("1", "payout.created"), page("2", "payout.paid", "payment.expired"), page("3")}, []string{"payout.created", "payout.paid", "payment.expired"}},
		{[]string{page("1")}, []string{"Nothing was due."}},
	} {
		var asked []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			asked = append(asked, req.Method+" "+req.URL.Query().Get("after")+req.URL.Query().Get("cursor"))
			switch {
			case req.Method == http.MethodPost:
				_, _ = io.WriteString(w, `{"object":"sandbox_clock","now":"2026-12-05T12:00:00.000Z","real_time":"2026-11-21T12:00:00.000Z"}`)
			case req.URL.Query().Has("after"):
				_, _ = io.WriteString(w, page("0"))
			default:
				_, _ = io.WriteString(w, c.pages[0])
				c.pages = c.pages[1:]
			}
		}))
		a, stdout, stderr := clitest.App(map[string]string{"TOLLGATE_URL": server.URL, "TOLLGATE_TOKEN": "t"})
		start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		a.Clock = func() time.Time { return start } // its limit does not end it
		want := []string{"GET latest", "POST ", "GET 0", "GET 1", "GET 2"}[:3+len(c.pages)-1]
		if code := a.Run(t.Context(), clitest.Root(a, Commands(a)...), []string{"clock", "advance", "336h"}); code != cli.ExitOK {
			t.Errorf("exit code %d: %s", code, stderr)
		}
		server.Close()
		for _, text := range append(c.shows, "336h0m0s of real time") {
			if !strings.Contains(stdout.String(), text) {
				t.Errorf("%q is not in\n%s", text, stdout)
			}
		}
		if !slices.Equal(asked, want) {
			t.Errorf("asked %q, want %q", asked, want)
		}
	}
}
