// Package story is what a story is before it is played: what clients want, and what goes
// wrong, drawn from a seed.
package story

import (
	"fmt"
	"strings"
	"time"
)

// Plan is a whole story before it is played: what clients want, and what goes wrong.
// Everything else follows from the seed. Whatever is left out of a plan, the rest is
// still a plan.
type Plan struct {
	Seed       uint64
	Partitions int
	Interval   time.Duration // of the workers
	Length     time.Duration // in which clients want something and things go wrong
	After      time.Duration // how long nothing goes wrong before everything is read
	Wants      []Want
	Faults     []Fault
	Ahead      time.Duration // of Redis' clock, until it crashes
	Untailed   bool          // nobody follows the events
	GoOn       bool          // writes go on where Redis has lost something, else they wait for an operator
}

// Want is what a client asks for.
type Want struct {
	Number int // its name in the story, whatever else is left out
	At     time.Duration
	Kind   string // create, capture, cancel, refund, rotate (another secret of an endpoint), revoke (a token)
	Of     int    // the number of the want that creates the payment
	Minor  int64
	Budget bool // of the account with a budget
	Now    bool // captured at once
	Final  bool
	Bare   bool          // without a key, so it is asked once
	Again  time.Duration // when it is asked again, with its key; 0: never
}

// Fault is something that goes wrong.
type Fault struct {
	At   time.Duration
	Kind string // lose, double, cut, slow, error, forget, kill, freeze, skew, away, crash, empty
	Who  string // serve-0, serve-1, work-0, work-1
	For  time.Duration
	By   time.Duration
	Back int // changes that Redis forgets though somebody knows of them, as a failover or a restore does; none of before the Lull ends
	Text string
}

func (f Fault) String() string {
	text := fmt.Sprintf("%s %s %s", f.At.Round(time.Millisecond), f.Kind, f.Who)
	if f.For != 0 {
		text += " for " + f.For.Round(time.Millisecond).String()
	}
	if f.By != 0 {
		text += " by " + f.By.Round(time.Millisecond).String()
	}
	if f.Back != 0 {
		text += fmt.Sprintf(" back by %d changes", f.Back)
	}
	return strings.TrimSpace(text + " " + f.Text)
}

func (w Want) String() string {
	text := fmt.Sprintf("%s want %d: %s", w.At.Round(time.Millisecond), w.Number, w.Kind)
	if w.Kind != "create" && w.Kind != "rotate" && w.Kind != "revoke" {
		text += fmt.Sprintf(" of %d", w.Of)
	}
	text += fmt.Sprintf(" %d", w.Minor)
	for name, is := range map[string]bool{"budget": w.Budget, "automatic": w.Now, "final": w.Final, "without a key": w.Bare} {
		if is {
			text += " " + name
		}
	}
	if w.Again > 0 {
		text += " again after " + w.Again.Round(time.Millisecond).String()
	}
	return text
}

const (
	// Length is how long clients want something and things go wrong.
	Length = 5 * time.Minute
	// Lull is before anybody wants anything.
	Lull = 20 * time.Second
)

// Places are those of the processes, two that serve and two that work.
var Places = []string{"serve-0", "serve-1", "work-0", "work-1"}

// PlanOf is what a seed means. r is drawn from it.
func PlanOf(seed uint64, r Random) Plan {
	p := Plan{Seed: seed, Partitions: 1 + int(seed%2), Interval: 5 * time.Second, Length: Length}
	moment := func() time.Duration { return Lull + time.Duration(r.Int64N(int64(p.Length-Lull))) }
	var created []Want
	for n := range 12 + r.IntN(16) {
		w := Want{Number: n, At: moment(), Kind: "create", Minor: 1 + r.Int64N(9999), Budget: r.IntN(3) == 0, Now: r.IntN(5) == 0}
		created = append(created, w)
	}
	p.Wants = append(p.Wants, created...)
	for range 25 + r.IntN(25) {
		of := created[r.IntN(len(created))]
		w := Want{Number: len(p.Wants), Of: of.Number, At: of.At + time.Duration(r.Int64N(int64(3*time.Minute)))}
		if r.IntN(3) == 0 { // beside another
			other := p.Wants[r.IntN(len(p.Wants))]
			w.Of, w.At = other.Number, other.At+time.Duration(r.Int64N(int64(5*time.Millisecond)))
			if other.Kind != "create" {
				w.Of = other.Of
			}
			of = created[w.Of]
			if other.Kind == "create" {
				w.At += time.Second
			}
		}
		switch k := r.IntN(10); {
		case k < 6:
			w.Kind, w.Minor, w.Final, w.Bare = "capture", 1+r.Int64N(of.Minor), r.IntN(3) == 0, r.IntN(2) == 0
		case k < 8:
			w.Kind, w.Minor = "refund", 1+r.Int64N(max(1, of.Minor/2))
			w.At += time.Minute
		default:
			w.Kind = "cancel"
		}
		p.Wants = append(p.Wants, w)
	}
	for range 4 {
		p.Wants = append(p.Wants, Want{Number: len(p.Wants), At: moment(), Kind: "rotate"})
	}
	for i := range p.Wants {
		if !p.Wants[i].Bare && r.IntN(3) == 0 {
			p.Wants[i].Again = time.Duration(r.Int64N(int64(2 * time.Minute)))
		}
	}
	for range r.IntN(16) {
		p.Faults = append(p.Faults, someFault(r, moment))
	}
	p.GoOn = r.IntN(2) == 0
	for range 2 + r.IntN(3) {
		p.Wants = append(p.Wants, Want{Number: len(p.Wants), At: moment(), Kind: "revoke"})
	}
	return p
}

// Random is what a fault is made of.
type Random interface {
	IntN(int) int
	Int64N(int64) int64
}

func someFault(r Random, moment func() time.Duration) Fault {
	f := Fault{At: moment(), Who: Places[r.IntN(len(Places))]}
	within := func(least, most time.Duration) time.Duration {
		return least + time.Duration(r.Int64N(int64(most-least)))
	}
	switch r.IntN(12) {
	case 0, 1:
		f.Kind, f.For = "lose", within(10*time.Second, 100*time.Second)
	case 2:
		f.Kind = "cut"
	case 3:
		f.Kind, f.For, f.By = "slow", within(time.Second, 20*time.Second), within(100*time.Millisecond, 4*time.Second)
	case 4:
		f.Kind, f.For, f.Who = "error", within(100*time.Millisecond, 8*time.Second), "redis"
		f.Text = []string{
			"OOM command not allowed when used memory > 'maxmemory'.", "READONLY You can't write against a read only replica.",
			"LOADING Redis is loading the dataset in memory", "TRYAGAIN Multiple keys request during rehashing of slot",
			"MOVED 3999 simulated-other:6379",
		}[r.IntN(5)]
	case 5:
		f.Kind, f.Who = "forget", "redis"
	case 6:
		f.Kind, f.For = "kill", within(100*time.Millisecond, 30*time.Second)
	case 7:
		f.Kind, f.For = "freeze", within(time.Second, 90*time.Second)
	case 8:
		f.Kind, f.For = "away", within(time.Second, 15*time.Second)
	case 9:
		f.Kind, f.Who = "crash", "redis"
		if r.IntN(2) == 0 {
			f.Back = 1 + r.IntN(300)
		}
	case 10:
		// Up to a minute a worker goes on (health.ClockLimit).
		most := []time.Duration{time.Minute, 10 * time.Minute}[r.IntN(2)]
		f.Kind, f.For, f.By = "skew", within(10*time.Second, 100*time.Second), within(-most, most)
	case 11:
		f.Kind, f.For = "double", within(10*time.Second, 100*time.Second)
		if r.IntN(4) == 0 { // rarely: nearly all is excused after it
			f.Kind, f.Who = "empty", "redis"
			f.Text = []string{"FLUSHALL", "restart"}[r.IntN(2)]
			f.Back = r.IntN(300)
		}
	}
	return f
}
