package main

import (
	"net"
	"testing"

	"tollgate/cmd/tollgate/cli"
	"tollgate/rediskv/redistest"
)

// A worker that cannot start claims nothing: it would be held for as long as a
// lease lasts, and a supervisor starts the next one at once.
func TestWorkMetricsPortTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	s := newSite(t, wire.URL)
	for range 5 { // how far a worker would come is chance
		wire.Reset()
		p := launch(t, s.env, "work", "--metrics-addr", taken.Addr().String())
		if code := p.exit(); code != cli.ExitUsage || !p.says("address already in use") {
			t.Errorf("exit code %d: %v", code, p.lines)
		}
		// A start counts itself in the history of each of the 64 partitions.
		for look, start := range map[string]int{"XREADGROUP": 0, "EVALSHA": 64, "ZRANGE": 0, "XLEN": 0} {
			if n := wire.Count(look); n > start {
				t.Errorf("it has begun to work: %d times %s", n, look)
			}
		}
	}
}
