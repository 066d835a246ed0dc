package simulate

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"net/http"
	"sync"
	"time"
)

// Result is what became of a story.
type Result struct {
	Plan     Plan
	Faults   []string // what is wrong; none: all is well
	Trace    uint64   // of all that was said
	Commands int
	Time     time.Duration // that passed in it
	Story    []string
}

// play plays a story. It is called in a bubble.
func play(plan Plan, alter func(string) string, keep bool) (r Result) {
	r.Plan = plan
	//lint:ignore SA1019 nobody else can tell the Redis client how long to wait between its tries
	rand.Seed(int64(plan.Seed))
	x, err := newWorld(plan)
	if err != nil {
		r.Faults = []string{err.Error()}
		return r
	}
	x.wire.redis.alter = alter
	defer x.wire.redis.close()
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
	r.Faults, r.Trace, r.Commands, r.Time = x.judge.faults, x.wire.trace, x.wire.commands, x.wire.now().Sub(begins)
	return r
}

// direct is the whole story.
func (x *world) direct() {
	defer x.end()
	if err := x.provision(); err != nil {
		x.judge.wrong("provisioning: %v", err)
		return
	}
	for _, place := range workers {
		x.employ(place)
	}
	asking := x.schedule()
	x.running.Go(x.follow)
	pause(x.ctx, x.plan.Length)
	asking.Wait()
	x.peace()
	pause(x.ctx, x.plan.After)
	l, err := x.settle()
	if err != nil {
		x.judge.wrong("%v", err)
	}
	x.verdict(l)
}

// schedule has everything happen that is planned.
func (x *world) schedule() *sync.WaitGroup {
	var asking sync.WaitGroup
	begun := time.Now()
	for i, f := range x.plan.Faults {
		x.wire.at(begun.Add(f.At), uint64(i), func() { x.befall(f) })
	}
	made := map[int]chan struct{}{}
	outcomes := map[int]*outcome{}
	for _, want := range x.plan.Wants {
		o := &outcome{Want: want}
		x.judge.wants = append(x.judge.wants, o)
		if want.Kind == "create" {
			outcomes[want.Number], made[want.Number] = o, make(chan struct{})
		}
	}
	for name := range x.receivers {
		asking.Go(func() { x.subscribe(name) })
	}
	for _, o := range x.judge.wants {
		asking.Go(func() {
			pause(x.ctx, o.At+time.Duration(x.wire.chance.of("at", o.Number)%1_000_000))
			if o.Kind == "create" {
				defer close(made[o.Number])
				x.want(o, nil)
			} else if of := outcomes[o.Of]; of != nil {
				<-made[o.Of]
				x.want(o, of)
			}
		})
	}
	return &asking
}

func (x *world) subscribe(name string) {
	pause(x.ctx, 5*time.Second+time.Duration(x.wire.chance.of("subscribe", name)%1_000_000))
	c := &client{world: x, name: "endpoint-" + name}
	types := `[]`
	if name == "captures" {
		types = `["payment.captured"]`
	}
	said, known := c.send("POST", "/v1/webhooks", fmt.Sprintf(`{"url":"http://127.0.0.1:9000/%s","event_types":%s}`, name, types), "endpoint-"+name)
	if !known || said.status != http.StatusCreated {
		x.judge.wrong("endpoint %s: %d %s", name, said.status, said.body)
	}
}

func money(minor int64) string { return fmt.Sprintf("%d.%02d", minor/100, minor%100) }

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
		body = fmt.Sprintf(`{"merchant_account_id":%q,"amount":%q,"currency":"EUR","payee":"shop.example","capture_method":%q,"reference":%q}`, account, money(o.Minor), method, name)
	default:
		if !of.known || of.id == "" || of.status >= 300 {
			return
		}
		path += "/" + of.id
		switch o.Kind {
		case "capture":
			path, body = path+"/captures", fmt.Sprintf(`{"amount":%q,"final_capture":%t,"reference":%q}`, money(o.Minor), o.Final, name)
		case "refund":
			path, body = path+"/refunds", fmt.Sprintf(`{"amount":%q,"reason":%q}`, money(o.Minor), name)
		case "cancel":
			path, body = path+"/cancel", fmt.Sprintf(`{"reason":%q}`, name)
		}
	}
	o.asked = true
	o.take(c.send("POST", path, body, key))
	x.wire.tell("%s %s: %d %s", name, o.Want, o.status, o.id)
	if o.Again == 0 || !o.known {
		return
	}
	pause(x.ctx, o.Again)
	again, known := c.send("POST", path, body, key)
	if !o.made() { // nothing was kept, so this is another request
		o.take(again, known)
		x.wire.tell("%s again: %d %s", name, o.status, o.id)
	} else if known && (again.status != o.status || string(again.body) != string(o.body)) {
		x.judge.wrong("%s was answered %d %s and, with the same key, %d %s", name, o.status, o.body, again.status, again.body)
	}
}

// take notes an answer.
func (o *outcome) take(said answer, known bool) {
	o.answer, o.known = said, known
	var made struct {
		ID      string `json:"id"`
		Payment string `json:"payment_id"`
	}
	_ = json.Unmarshal(o.body, &made)
	if o.id = made.ID; o.id == "" {
		o.id = made.Payment
	}
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
}
