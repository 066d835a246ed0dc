package simulate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/service"
	"tollgate/rediskv/packs/shelf"
	"tollgate/scripts/simulate/draw"
	"tollgate/scripts/simulate/story"
)

// What is provisioned.
const (
	organization = "org_simulated"
	entity       = "le_simulated"
	open         = "ma_open"
	budgeted     = "ma_budgeted"
	free         = "per_open"
	limited      = "per_budgeted"
	clientID     = "cli_simulated"
	grant        = "grt_simulated"
	ruleSet      = "rs_simulated"

	budget = 20_000 // minor units a day
)

// world is everybody in a story.
type world struct {
	plan      story.Plan
	wire      *wire
	keys      keys
	clientKey []byte
	running   sync.WaitGroup
	ctx       context.Context // until the story is over
	stop      context.CancelFunc
	calm      atomic.Bool // nothing goes wrong any more
	rotating  atomic.Bool // a secret is being made

	token token // of all clients
	loss  loss

	mu        sync.Mutex
	processes map[string]*process
	born      map[string]int

	archive string // a directory
	shelves []shelf.Shelf

	receivers map[string]*receiver
	payer     *payer
	judge     *judge
}

func newWorld(plan story.Plan) (*world, error) {
	x := &world{
		plan: plan, wire: newWire(draw.Chance(plan.Seed), begins), processes: map[string]*process{}, born: map[string]int{},
		receivers: map[string]*receiver{"all": newReceiver("all"), "captures": newReceiver("captures")}, payer: newPayer(), judge: newJudge(),
	}
	x.wire.back, x.wire.trouble.redisAhead = x.wentBack, plan.Ahead
	x.ctx, x.stop = context.WithCancel(context.Background())
	from := entropyOf(x.wire.chance, "keys")
	x.keys.secret = make([]byte, 32)
	_, _ = from.Read(x.keys.secret)
	return x, x.prepareArchive()
}

// provision makes the organization.
func (x *world) provision() error {
	private, public, err := auth.GenerateClientKey(entropyOf(x.wire.chance, "client"), "ES256")
	if err != nil {
		return err
	}
	x.clientKey = private
	done := make(chan error, 1)
	operator := x.start("operator", func(ctx context.Context, p *process) error {
		s, err := p.connect(ctx)
		if err == nil {
			_, err = service.Provision(ctx, s, config(string(public)), nil, false)
			err = errors.Join(err, s.Close())
		}
		done <- err
		<-ctx.Done()
		return nil
	})
	defer operator.end()
	return <-done
}

func config(clientKey string) tollgate.Config {
	account := func(id, perimeter string) tollgate.MerchantAccount {
		return tollgate.MerchantAccount{
			ID: id, LegalEntityID: entity, Name: id, Status: tollgate.StatusActive, Currencies: []tollgate.Currency{"EUR"}, DefaultCurrency: "EUR",
			Cutoff:    tollgate.Cutoff{CutoffTime: "17:00", TimeZone: "UTC", Calendar: "none", Interval: "daily"},
			Perimeter: tollgate.PerimeterRef{ID: perimeter, Version: 1}, RuleSet: tollgate.RuleSet{ID: ruleSet, Version: 1}, CaptureWindowHours: 1,
		}
	}
	scopes := make([]string, 0, 16)
	for _, s := range auth.AllScopes() {
		scopes = append(scopes, string(s))
	}
	limits := fmt.Sprintf(`{"budgets":[{"window":"day","currency":"EUR","amount":"%d.%02d","per":"merchant_account"}],"refunds_restore_budget":true}`, budget/100, budget%100)
	return tollgate.Config{
		Organization:  tollgate.Organization{ID: organization, Name: "Simulated", Status: tollgate.StatusActive, HomeRegion: "here"},
		LegalEntities: []tollgate.LegalEntity{{ID: entity, LegalName: "Simulated", Country: "DE", Type: "company", Status: "verified"}},
		Perimeters: []tollgate.PerimeterDocument{
			{ID: free, Version: 1, Constraints: jsontext.Value(`{}`)}, {ID: limited, Version: 1, Constraints: jsontext.Value(limits)},
		},
		RuleSets:         []tollgate.RuleSet{{ID: ruleSet, Version: 1, Rules: []tollgate.Citation{{Name: "card_fee", Version: 2}}}},
		MerchantAccounts: []tollgate.MerchantAccount{account(open, free), account(budgeted, limited)},
		Clients:          []tollgate.Client{{ID: clientID, Name: "Simulated", Status: tollgate.StatusActive, Keys: []string{clientKey}, GrantIDs: []string{grant}}},
		Grants:           []tollgate.Grant{{ID: grant, ClientID: clientID, Scopes: scopes, Status: tollgate.StatusActive}},
	}
}

// employ starts the process of a place, in place of one that was there.
func (x *world) employ(place string) {
	run := serve
	if place[0] == 'w' {
		run = work
	}
	x.mu.Lock()
	x.born[place]++
	name := fmt.Sprintf("%s.%d", place, x.born[place])
	x.mu.Unlock()
	p := x.start(name, run)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.processes[place] = p
}

// who has a place.
func (x *world) who(place string) *process {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.processes[place]
}

// serving is one of those that serve.
func (x *world) serving(n uint64) *process {
	return x.who(story.Places[n%2])
}

// befall makes a fault happen.
func (x *world) befall(f story.Fault) {
	w := x.wire
	p := x.who(f.Who)
	w.tell("— %s", f)
	later := func(d time.Duration, what func()) {
		w.at(time.Now().Add(d), 0, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			what()
		})
	}
	locked := func(what func()) {
		w.mu.Lock()
		defer w.mu.Unlock()
		what()
	}
	switch f.Kind {
	case "lose":
		locked(func() { w.trouble.lose[p] = true })
		later(f.For, func() { delete(w.trouble.lose, p) })
	case "cut":
		locked(func() { w.cutAll(p) })
	case "slow":
		locked(func() { w.trouble.slow[p] = slowness(f.By) })
		later(f.For, func() { delete(w.trouble.slow, p) })
	case "error":
		locked(func() { w.trouble.error = f.Text })
		later(f.For, func() { w.trouble.error = "" })
	case "double":
		locked(func() { w.trouble.double[p] = true })
		later(f.For, func() { delete(w.trouble.double, p) })
	case "empty":
		locked(func() {
			if w.empty(f) {
				w.push(time.Now().Add(f.For), 0, func() {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.restore()
				})
			}
		})
	case "crash":
		locked(func() { w.crash(f) })
	case "forget":
		locked(w.redis.forget)
	case "away":
		locked(func() {
			w.trouble.away[p] = true
			w.cutAll(p)
		})
		later(f.For, func() { delete(w.trouble.away, p) })
	case "freeze":
		p.freeze(time.Now().Add(f.For))
	case "skew":
		p.skew(f.By)
		w.at(time.Now().Add(f.For), 0, func() { p.skew(0) })
	case "kill":
		if p.kill() { // else another is on its way already
			w.at(time.Now().Add(f.For), 0, func() { x.employ(f.Who) })
		}
	}
}

// cutAll ends the connections of a process, or all, each a little later than another: those
// who used them try again one after the other. The lock is held.
func (w *wire) cutAll(p *process) {
	for _, c := range w.conns {
		if p == nil || c.process == p {
			w.push(time.Now().Add(time.Duration(c.last%uint64(cutting))), c.last, func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				c.breakOff()
			})
		}
	}
}

// cutting is how long that takes.
const cutting = time.Millisecond

// peace ends whatever goes wrong.
func (x *world) peace() {
	x.calm.Store(true)
	w := x.wire
	w.mu.Lock()
	w.trouble = newTrouble()
	w.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.processes {
		p.skew(0)
	}
}
