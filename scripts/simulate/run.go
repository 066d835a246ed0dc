package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"sync"
	"time"

	"tollgate/scripts/simulate/draw"
	"tollgate/scripts/simulate/ledger"
	"tollgate/scripts/simulate/story"
)

// Result is what became of a story.
type Result struct {
	Plan     story.Plan
	Faults   []string // what is wrong; none: all is well
	Trace    uint64   // of all that was said
	Commands int
	Time     time.Duration // that passed in it, without the night that all slept through
	Story    []string
}

// begins is when every story begins. The sales day ends in its midst.
var begins = time.Date(2026, 3, 2, 16, 57, 30, 0, time.UTC)

// planOf is what a seed means.
func planOf(seed uint64) story.Plan { return story.PlanOf(seed, draw.Chance(seed).Stream("plan")) }

// play plays a story. It is called in a bubble.
func play(plan story.Plan, bent bend, keep bool) (r Result) {
	r.Plan = plan
	defer begin(draw.Chance(plan.Seed).Of("runtime"))()
	//lint:ignore SA1019 nobody else can tell the Redis client how long to wait between its tries
	rand.Seed(int64(plan.Seed))
	x, err := newWorld(plan)
	if err != nil {
		r.Faults = []string{err.Error()}
		return r
	}
	x.wire.bend, x.wire.redis.alter = bent, bent.alter
	defer x.wire.close()
	if keep {
		var mu sync.Mutex
		x.wire.log = func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			r.Story = append(r.Story, fmt.Sprintf(format, args...))
		}
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		x.direct()
	}()
	x.wire.run(over)
	r.Faults, r.Trace, r.Commands, r.Time = x.judge.faults, x.wire.trace, x.wire.commands, time.Since(x.wire.origin)
	return r
}

// direct is the whole story.
func (x *world) direct() {
	defer x.end()
	if err := x.provision(); err != nil {
		x.judge.wrong("provisioning: %v", err)
		return
	}
	for _, place := range story.Places {
		x.employ(place)
	}
	asking := x.schedule()
	if !x.plan.Untailed {
		x.running.Go(x.follow)
	}
	pause(x.ctx, x.plan.Length)
	asking.Wait()
	x.peace()
	pause(x.ctx, x.plan.After)
	for x.unsettled() {
		pause(x.ctx, 10*time.Second)
	}
	l, err := x.settle()
	if err != nil {
		x.judge.wrong("%v", err)
	}
	x.verdict(l)
	l.HoldBudget(budgeted, budget, x.judge.wrong)
	x.nextDay()
}

// nextDay has everybody sleep until shortly before the next sales day ends, and judges
// again when it is over.
func (x *world) nextDay() {
	x.judge.mu.Lock()
	known := len(x.judge.faults) > 0
	x.judge.mu.Unlock()
	if known {
		return
	}
	x.wire.leap(begins.Truncate(24 * time.Hour).Add(41*time.Hour - 10*time.Second).Sub(x.wire.now()))
	pause(x.ctx, 30*time.Second)
	l, err := x.settle()
	if x.verdict(l); err != nil {
		x.judge.wrong("a day later: %v", err)
		return
	}
	x.monthsLater(&l)
}

// schedule has everything happen that is planned.
func (x *world) schedule() *sync.WaitGroup {
	var asking sync.WaitGroup
	begun := time.Now()
	for i, f := range x.plan.Faults {
		x.wire.at(begun.Add(f.At), uint64(i), func() { x.befall(f) })
	}
	x.wire.at(begun.Add(story.Lull), 0, func() {
		x.wire.mu.Lock()
		defer x.wire.mu.Unlock()
		x.wire.safe = len(x.wire.redis.effects)
	})
	made := map[int]chan struct{}{}
	outcomes := map[int]*outcome{}
	for _, want := range x.plan.Wants {
		o := &outcome{Want: want}
		x.judge.wants = append(x.judge.wants, o)
		if want.Kind == "create" {
			outcomes[want.Number], made[want.Number] = o, make(chan struct{})
			x.judge.creates[want.Number] = o
		}
	}
	for name := range x.receivers {
		asking.Go(func() { x.subscribe(name) })
	}
	for _, o := range x.judge.wants {
		asking.Go(func() {
			pause(x.ctx, o.At+time.Duration(x.wire.chance.Of("at", o.Number)%1_000_000))
			switch of := outcomes[o.Of]; {
			case o.Kind == "rotate":
				x.rotate(o)
			case o.Kind == "revoke":
				x.revoke(o)
			case o.Kind == "create":
				defer close(made[o.Number])
				x.want(o, nil)
			case of != nil:
				<-made[o.Of]
				x.want(o, of)
			}
		})
	}
	return &asking
}

func (x *world) subscribe(name string) {
	pause(x.ctx, 5*time.Second+time.Duration(x.wire.chance.Of("subscribe", name)%1_000_000))
	c := &client{world: x, name: "endpoint-" + name}
	types := `[]`
	if name == "captures" {
		types = `["payment.captured"]`
	}
	said, known := c.send("POST", "/v1/webhooks", fmt.Sprintf(`{"url":"http://127.0.0.1:9000/%s","event_types":%s}`, name, types), "endpoint-"+name)
	if !known || said.status != http.StatusCreated {
		x.judge.wrong("endpoint %s: %d %s", name, said.status, said.body)
		return
	}
	x.learn(x.receivers[name], said.body)
}

// learn notes a secret, and where it belongs.
func (x *world) learn(to *receiver, body []byte) {
	var made struct {
		ID     string `json:"id"`
		Secret string `json:"secret"`
	}
	_ = json.Unmarshal(body, &made)
	to.mu.Lock()
	defer to.mu.Unlock()
	to.id = made.ID
	if made.Secret != "" { // else it was shown in an answer that was lost
		to.secrets = append(to.secrets, made.Secret)
	}
}

// rotate asks for another secret.
func (x *world) rotate(o *outcome) {
	to := x.receivers["all"]
	to.mu.Lock()
	id := to.id
	to.mu.Unlock()
	if id == "" {
		return
	}
	x.rotating.Store(true) // from now on it may sign before it is known
	c := &client{world: x, name: o.name()}
	x.ask(o)
	x.take(o)(c.send("POST", "/v1/webhooks/"+id+"/secrets", `{"overlap_seconds":0}`, o.name()))
	x.wire.tell("%s %s: %d", o.name(), o.Want, o.status)
	if o.made() {
		x.learn(to, o.body)
	}
}

// want asks for something.
func (x *world) want(o *outcome, of *outcome) {
	name := fmt.Sprintf("want-%d", o.Number)
	c := &client{world: x, name: name}
	path, body, key := "/v1/payments", "", name
	switch o.Kind {
	case "create":
		account, method := open, "manual"
		if o.Budget {
			account = budgeted
		}
		if o.Now {
			method = "automatic"
		}
		body = fmt.Sprintf(`{"merchant_account_id":%q,"amount":%q,"currency":"EUR","payee":"shop.example","capture_method":%q,"reference":%q}`, account, ledger.Money(o.Minor), method, name)
	default:
		if !of.known || of.id == "" || of.status >= 300 {
			return
		}
		path += "/" + of.id
		switch o.Kind {
		case "capture":
			path, body = path+"/captures", fmt.Sprintf(`{"amount":%q,"final_capture":%t,"reference":%q}`, ledger.Money(o.Minor), o.Final, name)
		case "refund":
			path, body = path+"/refunds", fmt.Sprintf(`{"amount":%q,"reason":%q}`, ledger.Money(o.Minor), name)
		case "cancel":
			path, body = path+"/cancel", fmt.Sprintf(`{"reason":%q}`, name)
		}
	}
	x.ask(o)
	if o.Bare {
		x.take(o)(c.sendUpTo(1, "POST", path, body, ""))
	} else {
		x.take(o)(c.send("POST", path, body, key))
	}
	x.wire.tell("%s %s: %d %s", name, o.Want, o.status, o.id)
	if o.Again == 0 || !o.known {
		return
	}
	pause(x.ctx, o.Again)
	if o.excused && x.wasTold() { // it compares first, and a key is not repeated
		return
	}
	again, known := c.send("POST", path, body, key)
	if historyCode(again) != "" { // it is told, and nothing was done
		return
	}
	if o.excused && o.promised() && known && again.status < 300 && again.id() != o.id {
		// Who did not know of what is lost may be asked before who does has found it. Clients
		// are told of it in the end, which the reader holds.
		if x.loss.known(again.by, o) {
			x.judge.wrong("%s was made again as %s by %s, which told nobody that %s may be missing", o.name(), again.id(), again.by.name, o.id)
		}
		return
	}
	if !o.promised() { // nothing was kept, so this is another request
		x.ask(o)
		x.take(o)(again, known)
		x.wire.tell("%s again: %d %s", name, o.status, o.id)
	} else if known && (again.status != o.status || string(again.body) != string(o.body)) {
		x.judge.wrong("%s was answered %d %s and, with the same key, %d %s", name, o.status, o.body, again.status, again.body)
	}
}

// ask notes that something is asked for.
func (x *world) ask(o *outcome) {
	o.asked, o.sent = true, x.wire.now()
}

// take notes an answer. Who is told that the history has changed does not know what
// became of an earlier try.
func (x *world) take(o *outcome) func(answer, bool) {
	return func(said answer, known bool) {
		o.answer, o.known, o.acked = said, known && historyCode(said) == "", x.wire.now()
		o.id = said.id()
		x.excuse(o)
	}
}

// id is that of what was made.
func (a answer) id() string {
	var made struct {
		ID      string `json:"id"`
		Payment string `json:"payment_id"`
	}
	_ = json.Unmarshal(a.body, &made)
	return cmp.Or(made.ID, made.Payment)
}

// end ends everybody.
func (x *world) end() {
	x.mu.Lock()
	all := x.processes
	x.mu.Unlock()
	for _, p := range all {
		p.end()
	}
	x.stop()
	x.running.Wait()
	_ = os.RemoveAll(x.archive)
}
