// Package shadow prices again with candidates what was charged with the rules in
// force, and writes down where they differ.
package shadow

import (
	"context"
	"slices"
	"sync"
	"time"

	"tollgate"
	"tollgate/handlers/problem"
	"tollgate/handlers/rulesync"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/rules"
)

const (
	shadowQueue    = 1024            // pricings that wait to be compared; more are dropped
	shadowInterval = time.Second     // between writing down what was found
	shadowBatch    = 64              // divergences that are written at once
	shadowEnd      = 2 * time.Second // for what waits at the end
)

// Comparer compares candidates with what was charged, behind the requests: it
// never answers one and never makes one wait.
type Comparer struct {
	rules *rulesync.Sync
	queue chan shadowed

	mu      sync.Mutex
	dropped map[shadowKey]int64
}

type shadowKey struct{ org, id string }

// shadowed is a pricing to be compared.
type shadowed struct {
	shadow  tollgate.Shadow
	org     string
	account string
	priced  tollgate.Pricing
}

// New makes one to which nothing has been offered.
func New(rules *rulesync.Sync) *Comparer {
	return &Comparer{rules: rules, queue: make(chan shadowed, shadowQueue), dropped: make(map[shadowKey]int64)}
}

// Offer gives a pricing to be compared, and lets it go when too many wait.
func (s *Comparer) Offer(a *accounts.Account, p tollgate.Pricing) {
	for _, shadow := range a.Shadows {
		select {
		case s.queue <- shadowed{shadow, a.OrganizationID, a.ID, p}:
		default:
			s.mu.Lock()
			s.dropped[shadowKey{a.OrganizationID, shadow.ID}]++
			s.mu.Unlock()
		}
	}
}

// comparison is what was found of a shadow and is not written down yet. What
// was sent is kept as it was, with its operation, until Redis says that it is
// recorded: it may have been, and only the answer lost.
type comparison struct{ open, sent *rules.Comparison }

// next is what to send: what nobody knows the fate of before anything new.
func (c *comparison) next() *rules.Comparison {
	if c.sent == nil {
		c.sent, c.open = c.open, nil
	}
	return c.sent
}

// Run compares what offer was given until ctx ends; then what still waits, and
// writes down what was found, for no longer than shadowEnd.
func (s *Comparer) Run(ctx context.Context) {
	found := make(map[shadowKey]*comparison)
	compare := func(one shadowed) (full bool) {
		key := shadowKey{one.org, one.shadow.ID}
		c := s.of(found, key)
		s.compare(ctx, one, c)
		return len(c.Divergences) >= shadowBatch && found[key].sent == nil // else Redis is away
	}
	record := func(ctx context.Context) {
		for key, c := range found {
			if s.record(ctx, key, c) {
				delete(found, key)
			}
		}
	}
	tick := time.NewTicker(shadowInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shadowEnd)
			defer cancel()
			for len(s.queue) > 0 {
				switch one := <-s.queue; {
				case last.Err() != nil:
					s.of(found, shadowKey{one.org, one.shadow.ID}).Dropped++
				case compare(one):
					record(last)
				}
			}
			s.addDropped(found)
			if record(last); len(found) > 0 {
				s.rules.Log.Warn("comparisons not written at the end", "shadows", len(found))
			}
			return
		case one := <-s.queue:
			if !compare(one) {
				continue
			}
		case <-tick.C:
			s.addDropped(found)
		}
		record(ctx)
	}
}

// of is what was found of a shadow and not sent yet.
func (s *Comparer) of(found map[shadowKey]*comparison, key shadowKey) *rules.Comparison {
	c, ok := found[key]
	if !ok {
		c = new(comparison)
		found[key] = c
	}
	if c.open == nil {
		c.open = &rules.Comparison{Operation: s.rules.Store.NewID(""), Sums: make(map[tollgate.Currency]int64)}
	}
	return c.open
}

// addDropped adds what Offer has let go.
func (s *Comparer) addDropped(found map[shadowKey]*comparison) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, n := range s.dropped {
		s.of(found, key).Dropped += n
	}
	clear(s.dropped)
}

// record writes down what was found, and reports whether nothing is left.
func (s *Comparer) record(ctx context.Context, key shadowKey, c *comparison) bool {
	for next := c.next(); next != nil; next = c.next() {
		err := s.rules.Store.RecordComparison(ctx, key.org, key.id, s.rules.Instance, next)
		if err != nil && problem.From(err).Code == tollgate.CodeStoreUnavailable {
			return false
		}
		if err != nil {
			s.rules.Log.Error("comparison not written", "shadow", key.id, "error", err)
		}
		c.sent = nil
	}
	return true
}

// compare prices again with the candidate in the place of the other rule.
func (s *Comparer) compare(ctx context.Context, one shadowed, found *rules.Comparison) {
	rules := slices.Clone(one.priced.Rules)
	at := slices.IndexFunc(rules, func(ref tollgate.RuleRef) bool { return ref.Rule == one.shadow.Against })
	if at < 0 {
		return
	}
	rules[at] = one.shadow.Rule
	var lines []tollgate.FeeLine
	err := s.rules.Load(ctx, one.org, rules...)
	if err == nil {
		lines, err = s.rules.Engine.Shadow(rules, one.priced.Input)
	}
	if err != nil && problem.From(err).Code == tollgate.CodeStoreUnavailable {
		found.Dropped++ // the candidate is not to be had now, which is not its failure
		return
	}
	found.Compared++
	if err == nil && sameFees(lines, one.priced.Lines) {
		found.Equal++
		return
	}
	found.Different++
	currency := one.priced.Input.Amount.Currency
	d := tollgate.Divergence{
		Object: "divergence", ID: s.rules.Store.NewID(tollgate.PrefixDivergence), CreatedAt: tollgate.At(s.rules.Clock()), ShadowID: one.shadow.ID, MerchantAccountID: one.account,
		Input: tollgate.EvaluationInput{Amount: one.priced.Input.Amount, Currency: currency, Payee: tollgate.KeptPayee(one.priced.Input.Payee), CaptureIndex: one.priced.Input.CaptureIndex},
		Live:  one.priced.Lines, Shadow: lines,
	}
	if err != nil {
		e := problem.From(err)
		found.Failed++
		d.Error = &tollgate.DivergenceError{Code: e.Code, Message: e.Message}
	} else {
		more := tollgate.FeeTotal(lines, currency).Minor - tollgate.FeeTotal(one.priced.Lines, currency).Minor
		found.Sums[currency] += more
		d.Difference = &tollgate.Money{Minor: more, Currency: currency}
	}
	if len(found.Divergences) < shadowBatch {
		found.Divergences = append(found.Divergences, d)
	}
}

// sameFees reports whether two pricings charge the same under the same names,
// whatever rules say so.
func sameFees(a, b []tollgate.FeeLine) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Amount != b[i].Amount || a[i].Label != b[i].Label {
			return false
		}
	}
	return true
}
