package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tollgate/cmd/tollgate/clitest"
	"tollgate/rediskv/redistest"
)

// clock is one that a test sets: of Redis by a shim that is loaded before libc, of a
// process of the service, which does not use libc, by its program (package program).
type clock string

func newClock(t *testing.T) clock {
	c := clock(filepath.Join(t.TempDir(), "clock"))
	must(t, os.WriteFile(string(c), fmt.Appendf(nil, "%+015d", 0), 0o600))
	return c
}

// set has it show another time. The file is mapped: it keeps its length.
func (c clock) set(t *testing.T, off time.Duration) {
	t.Helper()
	file, err := os.OpenFile(string(c), os.O_WRONLY, 0)
	must(t, err)
	_, err = file.WriteAt(fmt.Appendf(nil, "%+015d", int(off.Seconds())), 0)
	must(t, err)
	must(t, file.Close())
}

// shimmed is a Redis with a clock that is set.
func shimmed(t *testing.T, c clock) *redistest.Server {
	t.Helper()
	lib := filepath.Join(t.TempDir(), "clock.so")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-O2", "-o", lib, "shim/clock.c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("build the shim: %v\n%s", err, out)
	}
	must(t, os.Setenv("LD_PRELOAD", lib))
	must(t, os.Setenv("TOLLGATE_SHIM_CLOCK", string(c)))
	defer os.Unsetenv("LD_PRELOAD")
	defer os.Unsetenv("TOLLGATE_SHIM_CLOCK")
	return redistest.Started(t, redistest.Real)
}

// clocks: clocks of processes and of Redis are not the same. More than 5 s apart, a worker
// does nothing by the clock, and more than 60 s, an instance gives no tokens. Each says so.
func clocks(t *testing.T, p plan) {
	theirs := newClock(t)
	redis := shimmed(t, theirs)
	w := newWorld(t, p, newSite(t, redis.URL, 3), 0, 0)
	var own []clock
	for _, name := range []string{"serve", "work"} {
		c := newClock(t)
		own = append(own, c)
		pl := newPlace(t, name, append(append([]string(nil), w.env...), "FAULTS_CLOCK="+string(c)))
		if name == "serve" {
			w.serves = append(w.serves, pl)
		} else {
			w.works = append(w.works, pl)
		}
	}
	w.load(6)
	w.await("payments are made", func() bool { return len(w.lastMade()) == len(w.orgs) })

	// Sales days end meanwhile: the first within the minute, and then one every few.
	own[1].set(t, 8*time.Second)
	w.awaitLong("the worker says that its clock is wrong", func() bool { return w.standsStill() })
	before := w.bank.count()
	time.Sleep(time.Until(w.nextCutoff().Add(20 * time.Second)))
	if now := w.bank.count(); now != before {
		w.fail("a worker whose clock is 8 s off has paid %d times", now-before)
	}
	for _, o := range w.orgs {
		if said, known := w.send(o, "GET", "/v1/payouts", "", ""); !known || first(said.text) != "" {
			w.fail("a worker whose clock is 8 s off has closed days: %d %s", said.status, said.text)
		}
	}
	w.tokens("a worker's clock is 8 s off", true)
	own[1].set(t, 0)
	w.awaitLong("what was due is paid", func() bool { return w.bank.count() > before })

	for _, off := range []time.Duration{-8 * time.Second, 8 * time.Second, -75 * time.Second, 75 * time.Second} {
		theirs.set(t, off)
		w.awaitLong(fmt.Sprintf("the worker says that the clock of Redis is %s off", off), func() bool { return w.standsStill() })
		before := w.bank.count()
		far := off.Abs() > time.Minute
		w.awaitLong(fmt.Sprintf("tokens are as they should be when the clock of Redis is %s off", off), func() bool { return w.issues() == !far })
		time.Sleep(5 * time.Second)
		w.tokens(fmt.Sprintf("the clock of Redis is %s off", off), !far)
		if now := w.bank.count(); now != before {
			w.fail("a worker that is %s off has paid %d times", off, now-before)
		}
		theirs.set(t, 0)
		w.awaitLong("all is well again", func() bool { return w.issues() && !w.standsStill() })
	}

	own[0].set(t, -75*time.Second)
	w.awaitLong("an instance whose clock is wrong gives no tokens", func() bool { return !w.issues() })
	own[0].set(t, 0)
	w.awaitLong("it gives tokens again", w.issues)
	w.judge()
}

// standsStill reports whether the worker says that its clock is far from that of Redis.
func (w *world) standsStill() bool {
	a, err := clitest.Send(w.t.Context(), "", "GET", "http://"+w.works[0].at+"/readyz", "")
	return err == nil && a.StatusCode == 503 && strings.Contains(a.Text, "machine_clock") && strings.Contains(a.Text, "that of Redis")
}

// issues reports whether the first instance gives a token.
func (w *world) issues() bool {
	a, err := clitest.AskToken(w.t.Context(), "http://"+w.serves[0].addr, issuer, w.orgs[0].client, w.key)
	return err == nil && a.StatusCode == 200
}

func (w *world) tokens(when string, want bool) {
	w.t.Helper()
	a, err := clitest.AskToken(w.t.Context(), "http://"+w.serves[0].addr, issuer, w.orgs[0].client, w.key)
	if err != nil || (a.StatusCode == 200) != want || (!want && (a.StatusCode != 503 || !strings.Contains(a.Text, "store_unavailable"))) {
		w.fail("%s, and a token is answered %v %s %v", when, a.StatusCode, a.Text, err)
	}
}

// nextCutoff is when the next sales day ends.
func (w *world) nextCutoff() (next time.Time) {
	now := time.Now().UTC()
	for _, o := range w.orgs {
		for _, at := range o.cutoffs {
			when := now.Truncate(24 * time.Hour).Add(at)
			if when.Before(now) {
				when = when.Add(24 * time.Hour)
			}
			if next.IsZero() || when.Before(next) {
				next = when
			}
		}
	}
	return next
}

func (b *bank) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked
}
