package handlers_test

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"tollgate/handlers"
)

// TestNoticed: whoever waits for something that has arrived is ready to run
// afterwards.
func TestNoticed(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	noticed := handlers.Noticed()
	r, w, err := os.Pipe()
	check(t, err)
	defer w.Close()
	defer r.Close()
	var read atomic.Int64
	go func() {
		b := make([]byte, 1)
		for {
			if _, err := r.Read(b); err != nil {
				return
			}
			read.Add(1)
		}
	}()
	noticed() // and until then nobody has read
	const often = 100
	for n := range int64(often) {
		_, err = w.Write([]byte{0})
		check(t, err)
		noticed()
		for range 4 { // whoever is ready has run
			runtime.Gosched()
		}
		if got := read.Load(); got != n+1 {
			t.Fatalf("%d of %d bytes are read", got, n+1)
		}
	}
}

// TestOthersAreNoticed: before an organization has another turn at what it
// computes, sends or reads, beside others, theirs are noticed.
func TestOthersAreNoticed(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"processors", "sending", "reads"} {
		q := w.server.Queue(name, w.vars["org"])
		for i, step := range []struct {
			org   string
			looks int64
		}{{"org_greedy", 0}, {"org_greedy", 0}, {"org_modest", 0}, {"org_greedy", 0}, {"org_greedy", 1}, {"org_greedy", 1}, {"org_modest", 0}, {"org_modest", 1}} {
			before := w.server.Looks()
			done, err := q.Turn(t.Context(), step.org, "cli_a")
			check(t, err)
			done()
			if n := w.server.Looks() - before; n != step.looks {
				t.Errorf("%s, turn %d: %d looks, not %d", name, i, n, step.looks)
			}
		}
	}
}
