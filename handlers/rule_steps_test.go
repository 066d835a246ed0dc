package handlers_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/rediskv/instances"
	"tollgate/rediskv/redistest"
	"tollgate/wasm"
	"tollgate/wasm/compiler"
)

// publication is what a team sends to publish a rule.
type publication struct {
	Rule      string            `json:"rule"`
	Module    []byte            `json:"module"`
	Golden    []wasm.GoldenCase `json:"golden"`
	Signature string            `json:"signature"`
}

// newPublication makes a rule of some percent, its cases and its signature by
// one of the world's signers.
func (w *world) newPublication(rule, percentage, signer string) publication {
	w.t.Helper()
	module, _, err := compiler.Build([]byte("label = \"Shop fee\"\n[[fee]]\npercentage = \"" + percentage + "\"\n"))
	p := publication{Rule: rule, Module: must(w.t, module, err)}
	for _, minor := range []int64{10000, 20000, 999} {
		p.Golden = append(p.Golden, wasm.GoldenCase{
			Amount: eur(minor), Currency: "EUR", Payee: "shop.example", Lines: []wasm.GoldenLine{{Label: "Shop fee", Amount: eur(percentOf(minor, percentage))}},
		})
	}
	w.sign(&p, signer, nil)
	return p
}

func eur(minor int64) string { return tollgate.Money{Minor: minor, Currency: "EUR"}.String() }

// percentOf is percent of an amount in minor units, half to even.
func percentOf(minor int64, percentage string) int64 {
	var whole, hundredths int64
	_, _ = fmt.Sscanf(percentage, "%d.%d", &whole, &hundredths)
	if len(percentage) == len("1.5") {
		hundredths *= 10
	}
	product := minor * (whole*100 + hundredths)
	fee, rest := product/10000, product%10000
	if rest*2 > 10000 || (rest*2 == 10000 && fee%2 == 1) {
		fee++
	}
	return fee
}

// sign signs a publication as it is; change may alter the statement first.
func (w *world) sign(p *publication, signer string, change func(*auth.RuleStatement)) {
	w.t.Helper()
	c, err := tollgate.ParseCitation(p.Rule)
	_, golden, digestErr := wasm.GoldenDigest(p.Golden)
	check(w.t, digestErr)
	statement := auth.RuleStatement{
		GoldenSHA256: golden, IssuedAt: w.now().Unix(), Signer: w.vars[signer], Organization: w.vars["org"],
		Rule: must(w.t, c, err), SHA256: wasm.RefOf(c, p.Module).SHA256,
	}
	if change != nil {
		change(&statement)
	}
	signature, err := auth.SignRule(w.private[signer], statement)
	p.Signature = must(w.t, signature, err)
}

func (p publication) body(t testing.TB) string {
	t.Helper()
	text, err := json.Marshal(p)
	return string(must(t, text, err))
}

// publish publishes a rule and returns its reference.
func (w *world) publish(rule, percentage string) tollgate.RuleRef {
	w.t.Helper()
	p := w.newPublication(rule, percentage, "team")
	w.want(w.call("POST", "/v1/rules", p.body(w.t)), 201, "")
	c, err := tollgate.ParseCitation(rule)
	return wasm.RefOf(must(w.t, c, err), p.Module)
}

// activated has the worker carry out what is due.
func (w *world) activated() {
	w.t.Helper()
	check(w.t, w.work())
}

func (w *world) work() error {
	for partition := range w.store.Partitions() {
		if _, err := w.store.ActivateDue(w.t.Context(), partition, 100); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) publication(words []string) error {
	made := p.newPublication(words[0], words[1], "team")
	golden, err := json.Marshal(made.Golden)
	p.vars["module"], p.vars["golden"], p.vars["signature"] = base64.StdEncoding.EncodeToString(made.Module), string(golden), made.Signature
	return err
}

// instance makes another instance say something, or nothing any more.
func (p *player) instance(words []string) error {
	const id = "ins_01kb7z2c000000000000000001"
	me := instances.Instance{ID: id}
	if p.other = nil; words[0] == "gone" {
		return p.store.Deregister(p.t.Context(), id)
	}
	upcoming, err := p.upcoming()
	for _, a := range upcoming {
		for _, ref := range a.Rules {
			m := instances.LoadedModule{RuleRef: ref}
			switch words[0] {
			case "lacking":
				continue
			case "failing":
				m.Error = ref.Rule.String() + " cannot be loaded"
			}
			me.Modules = append(me.Modules, m)
		}
	}
	if err != nil {
		return err
	}
	p.other = &me
	return p.store.Heartbeat(p.t.Context(), me)
}

// upcoming is what is to come, as an instance finds it that goes at once.
func (w *world) upcoming() ([]instances.Upcoming, error) {
	const id = "ins_01kb7z2c000000000000000002"
	look, err := w.operator.Look(w.t.Context(), instances.Changes{}, instances.Instance{ID: id}, false)
	return look.Upcoming, errors.Join(err, w.operator.Deregister(w.t.Context(), id))
}

func (p *player) activations() error { return p.work() }

// compared has the server compare until a shadow has compared so many.
func (p *player) compared(words []string) error {
	id, err := fill(words[0], p.vars)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	ended := make(chan struct{})
	go func() { p.server.Shadow(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	for ctx.Err() == nil {
		r := p.call("GET", "/v1/shadows/"+id, "")
		if totals, _ := r.body["totals"].(map[string]any); fmt.Sprint(totals["compared"]) == words[1] {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("%s has not compared %s", id, words[1])
}

// ruleSet provisions the next version of an account's rule set.
func (w *world) ruleSet(account string, list []string) {
	c := w.configs[""]
	a := w.account(account)
	a.RuleSet.Version++
	a.RuleSet.Rules = citing(list...)
	c.RuleSets = append(c.RuleSets, a.RuleSet)
	for { // an activation may have taken that version
		if _, err := redistest.Provision(w.t.Context(), w.operator, *c, true); err == nil || a.RuleSet.Version > 20 {
			break
		}
		a.RuleSet.Version++
		c.RuleSets[len(c.RuleSets)-1] = a.RuleSet
	}
	w.apply("")
}
