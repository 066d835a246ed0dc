package faults

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"tollgate/scripts/simulate/ledger"
)

// settlePatience is how long what is late may take to come: leases of workers that were
// killed, deliveries and payouts that are tried again.
const settlePatience = 3 * time.Minute

// judge reads everything and compares it with what was acknowledged.
func (w *world) judge() {
	w.t.Helper()
	w.rest()
	w.relax()
	until := time.Now().Add(settlePatience)
	var counts [4]int
	for _, o := range w.orgs {
		for _, a := range w.some(o, 40) {
			w.again(o, a)
		}
		l, wrong := w.settle(o, until)
		for _, text := range wrong {
			w.fail("%s: %s", o.id, text)
		}
		counts[0] += len(l.Payments)
		counts[1] += len(l.Transactions)
		counts[2] += len(l.Events)
		counts[3] += len(l.Payouts)
	}
	code, stdout, stderr := program.Try(w.t, w.env, "check")
	if code != 0 {
		w.fail("tollgate check: exit code %d\n%s%s", code, stdout, stderr)
	}
	w.t.Logf("read: %d payments, %d transactions, %d events, %d payouts", counts[0], counts[1], counts[2], counts[3])
	w.tell()
}

// tell prints the figures, and what receivers and the bank have found wrong.
func (w *world) tell() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	made, unknown := 0, 0
	for _, asks := range w.asks {
		for _, a := range asks {
			if a.Made() {
				made++
			}
			if a.Maybe() {
				unknown++
			}
		}
	}
	w.t.Logf("asked for %d changes in %s: %d acknowledged, %d of unknown end; %d changes of %d shared payments were judged", w.asked, time.Since(w.begun).Round(time.Second), made, unknown, w.sharedChanges, w.sharedPayments)
	w.t.Log(w.outage.String())
	if made == 0 {
		w.t.Error("nothing was acknowledged")
	}
	for _, text := range append(w.receivers.wrong, w.bank.wrong...) {
		w.t.Error(text)
	}
}

// made is how many changes were acknowledged.
func (w *world) made() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, asks := range w.asks {
		for _, a := range asks {
			if a.Made() {
				n++
			}
		}
	}
	return n
}

// quiet fails where a process has told of what may not happen.
func (w *world) quiet() {
	for _, pl := range append(w.serves, w.works...) {
		if tales := pl.tells(); len(tales) > 0 {
			w.fail("%s says:\n%s", pl.name, strings.Join(tales[:min(len(tales), 5)], "\n"))
		}
	}
}

// some are a few of what was asked for.
func (w *world) some(o *org, count int) (some []*ask) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range count {
		some = append(some, w.asks[o][rand.IntN(len(w.asks[o]))])
	}
	return some
}

// settle reads until all holds, or what does not hold has had its time.
func (w *world) settle(o *org, until time.Time) (l ledger.Ledger, wrong []string) {
	for {
		wrong = nil
		say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
		var err error
		if l, err = ledger.Read(func(path string) ([]byte, error) { return w.get(o, path) }, o.perimeter); err != nil {
			say("%v", err)
		} else {
			w.hold(o, &l, say)
		}
		if len(wrong) == 0 || time.Now().After(until) {
			return l, wrong
		}
		time.Sleep(2 * time.Second)
	}
}

// hold is all that must hold.
func (w *world) hold(o *org, l *ledger.Ledger, wrong ledger.Wrong) {
	w.mu.Lock()
	var asked []ledger.Asked
	for _, a := range w.asks[o] {
		asked = append(asked, a.Asked)
	}
	w.mu.Unlock()
	if missing := l.Missing(); missing != "" {
		wrong("it has not come: %s", missing)
	}
	l.HoldPayments(asked, wrong)
	l.HoldChanges(asked, wrong)
	l.HoldEvents(wrong)
	l.HoldBudget(o.accounts[0], budget, wrong)
	l.HoldDeliveries(w.receivers.of(o), wrong)
	paid := w.bank.of(o)
	if w.losses.Load() > 0 { // somebody has to look at what was paid and is forgotten
		known := map[string]bool{}
		for _, p := range l.Payouts {
			known[p.ID] = true
		}
		maps.DeleteFunc(paid, func(id string, _ int64) bool { return !known[id] })
	}
	l.HoldPayouts(paid, o.closed, wrong)
}

func (w *world) get(o *org, path string) ([]byte, error) {
	said, known := w.send(o, "GET", path, "", "")
	if !known || said.status != http.StatusOK {
		return nil, errors.New(fmt.Sprint(said.status, " ", said.text))
	}
	return []byte(said.text), nil
}
