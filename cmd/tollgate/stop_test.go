package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// SIGTERM under load: /readyz says no while requests are still served, so that
// whoever sends them goes elsewhere; none that was sent fails, and a listing
// that waits is answered at once.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	s := newSite(t, wire.URL)
	// All that is looked at below takes milliseconds; the rest is for a machine
	// that stalls.
	const drain = 10 * time.Second
	server := s.serve("--drain-delay", drain.String())
	base := server.serving()
	s.authenticate(base)

	l := startLoad(s, base, 8, true)
	l.more(50)
	type answer struct {
		received
		at time.Time
	}
	waited := make(chan answer, 1)
	wire.Reset()
	go func() {
		r, _ := s.send("GET", base+"/v1/events?types=payout.*&wait=20", "", "")
		waited <- answer{r, time.Now()}
	}()
	testkit.Eventually(t, "a listing waits", func() bool { return wire.Count("XRANGE") > 0 })
	signaled := time.Now()
	server.signal(syscall.SIGTERM)
	testkit.Eventually(t, "/readyz says no before connections are refused", func() bool {
		r, err := s.send("GET", base+"/readyz", "", "")
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode == http.StatusServiceUnavailable && strings.Contains(r.Text, `"draining":true`)
	})
	l.more(20) // served all the same
	l.stop()
	if code := server.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := s.send("GET", base+"/healthz", "", ""); err == nil {
		t.Error("answers after its end")
	}
	r := <-waited
	if took := r.at.Sub(signaled); r.Response == nil || r.StatusCode != http.StatusOK || took > drain {
		t.Errorf("the listing that waited: %+v after %s", r, took)
	}

	l.point(s.serve().serving())
	l.check()
}

// A second signal ends it at once, whatever is in flight.
func TestSecondSignal(t *testing.T) {
	s := newSite(t, redistest.URL(t))
	server := s.serve("--drain-delay", "1h")
	base := server.serving()
	server.signal(syscall.SIGTERM)
	testkit.Eventually(t, "it drains", func() bool {
		r, err := s.send("GET", base+"/readyz", "", "")
		return err == nil && strings.Contains(r.Text, `"draining":true`)
	})
	server.signal(syscall.SIGTERM)
	if code := server.exit(); code == 0 {
		t.Error("exit code 0 after a second signal")
	}
}
