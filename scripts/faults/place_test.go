package faults

import (
	"testing"

	"tollgate/cmd/tollgate/clitest"
)

// place is where one process runs, and after its end the next.
type place struct {
	t     *testing.T
	name  string // serve, work
	addr  string // of the interface, the same for all of them; "" for work
	env   []string
	at    string // where it says of itself how it is
	now   *clitest.Process
	kills int
	tales []string // what those that ended had to tell, see tells
}

func newPlace(t *testing.T, name string, env []string) *place {
	t.Helper()
	pl := &place{t: t, name: name, env: env}
	if name == "serve" {
		pl.addr = addr(t)
		pl.env = append(append([]string(nil), env...), "TOLLGATE_ADDR="+pl.addr)
	}
	pl.start()
	return pl
}

// start starts the process and waits until it runs.
func (pl *place) start() {
	pl.t.Helper()
	pl.now = program.Start(pl.t, pl.env, pl.name)
	pl.at = pl.now.Ready()
}

// kill is kill -9.
func (pl *place) kill() {
	pl.now.End("KILL")
	pl.kills++
	pl.tales = append(pl.tales, pl.tellsNow()...)
}

// tells are the lines of all logs that tell of what may never happen.
func (pl *place) tells() []string { return append(pl.tales, pl.tellsNow()...) }

func (pl *place) tellsNow() []string {
	return pl.now.Lines("panic", "damaged", "integrity", "history")
}
