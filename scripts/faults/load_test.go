package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollgate/scripts/simulate/ledger"
)

// world is everybody in a part: a site, its processes, and clients who never rest.
type world struct {
	*site
	t      *testing.T
	plan   plan
	serves []*place
	works  []*place
	begun  time.Time
	outage outage
	pause  time.Duration // of a client, between two things that it does
	// dirty is whether a read may show what is lost with the master that it was made on:
	// with replicas, only a change that was acknowledged is kept.
	dirty bool

	stopping atomic.Bool
	seldom   atomic.Bool // whether clients do a tenth of it, where what there is is looked at meanwhile
	// losses counts how often Redis was made to forget what it had acknowledged. What was
	// asked for before, or while it happened, may be there or not.
	losses  atomic.Int64
	running sync.WaitGroup

	mu             sync.Mutex
	wrong          []string
	asks           map[*org][]*ask
	asked          int
	sharedPayments int
	sharedChanges  int
}

// ask is something that a client asked for, and what it was answered.
type ask struct {
	ledger.Asked
	path, body string
	said       answer
	losses     int64 // when it was asked for
}

// newWorld starts the processes.
func newWorld(t *testing.T, p plan, s *site, serves, works int) *world {
	t.Helper()
	w := &world{site: s, t: t, plan: p, begun: time.Now(), asks: map[*org][]*ask{}, pause: 60 * time.Millisecond}
	for range serves {
		w.serves = append(w.serves, newPlace(t, "serve", s.env))
	}
	for range works {
		w.works = append(w.works, newPlace(t, "work", s.env))
	}
	t.Cleanup(func() {
		w.stopping.Store(true)
		w.running.Wait() // before the processes end
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, text := range w.wrong {
			t.Error(text)
		}
	})
	return w
}

// fail notes that something is wrong, which is told at the end, also where the part ends
// early. A part goes on, to say how much.
func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) < 200 {
		w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
	}
}

// load has clients ask for something all the time.
func (w *world) load(clients int) {
	w.t.Helper()
	for _, o := range w.orgs {
		for name, types := range map[string]string{"all": `[]`, "captures": `["payment.captured"]`} {
			url := w.receivers.expect(o.id + "-" + name)
			said, _ := w.send(o, "POST", "/v1/webhooks", fmt.Sprintf(`{"url":%q,"event_types":%s}`, url, types), "endpoint-"+name)
			if said.status != 201 {
				w.t.Fatalf("endpoint %s: %d %s", name, said.status, said.text)
			}
		}
	}
	for client := range clients {
		r := rand.New(rand.NewPCG(w.plan.seed, uint64(client+1)))
		w.running.Go(func() {
			for n := client; !w.stopping.Load(); n++ {
				o := w.orgs[n%len(w.orgs)]
				if r.IntN(5) == 0 {
					w.share(r, o)
				} else {
					w.pay(r, o)
				}
				for i := 0; i == 0 || w.seldom.Load() && !w.stopping.Load() && i < 10; i++ {
					time.Sleep(time.Duration(r.Int64N(int64(2 * w.pause))))
				}
			}
		})
	}
}

// rest lets the clients finish what they have begun.
func (w *world) rest() {
	w.stopping.Store(true)
	w.running.Wait()
}

// pay makes a payment, and mostly something of it.
func (w *world) pay(r *rand.Rand, o *org) {
	amount := 100 + r.Int64N(20_000)
	of := w.create(r, o, amount, r.IntN(5) == 0)
	if of.Status != 201 {
		return
	}
	if of.Now {
		w.change(o, of, "refund", 1+r.Int64N(amount), false)
		return
	}
	switch n := r.IntN(10); {
	case n < 2:
		w.change(o, of, "cancel", 0, false)
	case n < 7:
		w.change(o, of, "capture", 1+r.Int64N(amount), r.IntN(2) == 0)
		if n < 4 {
			w.change(o, of, "refund", 1+r.Int64N(amount/2), false)
		}
	}
}

// create asks for a payment.
func (w *world) create(r *rand.Rand, o *org, amount int64, now bool) *ask {
	a := &ask{Asked: ledger.Asked{Kind: "create", Minor: amount, Now: now}, path: "/v1/payments"}
	method := "manual"
	if now {
		method = "automatic"
	}
	account := o.accounts[r.IntN(len(o.accounts))]
	return w.ask(o, a, func() {
		a.body = fmt.Sprintf(`{"merchant_account_id":%q,"amount":%q,"currency":"EUR","payee":"shop.example","capture_method":%q,"reference":%q}`, account, ledger.Money(amount), method, a.Name)
	})
}

// change asks for a change of a payment.
func (w *world) change(o *org, of *ask, kind string, amount int64, final bool) *ask {
	a := &ask{Asked: ledger.Asked{Kind: kind, Of: of.ID, Minor: amount}, path: "/v1/payments/" + of.ID}
	return w.ask(o, a, func() {
		switch kind {
		case "capture":
			a.path, a.body = a.path+"/captures", fmt.Sprintf(`{"amount":%q,"final_capture":%t,"reference":%q}`, ledger.Money(amount), final, a.Name)
		case "refund":
			a.path, a.body = a.path+"/refunds", fmt.Sprintf(`{"amount":%q,"reason":%q}`, ledger.Money(amount), a.Name)
		case "cancel":
			a.path, a.body = a.path+"/cancel", fmt.Sprintf(`{"reason":%q}`, a.Name)
		}
	})
}

// ask sends something until it is answered and, now and then, once more.
func (w *world) ask(o *org, a *ask, write func()) *ask {
	w.mu.Lock()
	w.asked++
	a.Name, a.losses = fmt.Sprintf("ask-%d", w.asked), w.losses.Load()
	w.asks[o] = append(w.asks[o], a)
	number := w.asked
	w.mu.Unlock()
	write()
	said, known := w.send(o, "POST", a.path, a.body, a.Name)
	w.mu.Lock()
	a.Sent, a.Known, a.Status, a.said = true, known && a.losses == w.losses.Load(), said.status, said
	if a.ID = said.at("id"); a.ID == "" {
		a.ID = said.at("payment_id")
	}
	w.mu.Unlock()
	if number%8 == 0 {
		w.again(o, a)
	}
	return a
}

// forgive has what was asked for so far be there or not.
func (w *world) forgive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.losses.Add(1)
	for _, asks := range w.asks {
		for _, a := range asks {
			a.Known = false
		}
	}
}

// again repeats what was carried out: the same key gives the same bytes.
func (w *world) again(o *org, a *ask) {
	w.mu.Lock()
	made := a.Made()
	w.mu.Unlock()
	if !made {
		return
	}
	for range 20 {
		said, err := w.once(o, "http://"+w.serves[0].addr, "POST", a.path, a.body, a.Name)
		if err != nil || said.status >= 500 || said.status == 429 || said.status == 401 || said.status == 410 {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if a.losses != w.losses.Load() {
			return
		}
		if said.status != a.said.status || said.text != a.said.text || !said.repeated {
			w.fail("%s was answered %d %s and, with the same key, %d %s", a.Name, a.said.status, strings.TrimSpace(a.said.text), said.status, said.text)
		}
		return
	}
}
