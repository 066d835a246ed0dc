package rediskv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
)

// keptDivergences is how many of a shadow's divergences are kept, about.
const keptDivergences = 1000

// shadowsOf are the active shadows that concern an account; list is the field of
// that name of the organization's hash of them.
func shadowsOf(list string, a *tollgate.MerchantAccount) (found []tollgate.Shadow, err error) {
	if list == "" {
		return nil, nil
	}
	var all []tollgate.Shadow
	if err := decode(list, &all); err != nil {
		return nil, fmt.Errorf("shadows: %w", err)
	}
	for _, s := range all {
		covered := len(s.MerchantAccountIDs) == 0 || slices.Contains(s.MerchantAccountIDs, a.ID)
		if covered && slices.Contains(a.RuleSet.Rules, s.Against) {
			found = append(found, s)
		}
	}
	return found, nil
}

// ShadowFacts reads what a change of an organization's shadows is decided from.
func (s *Store) ShadowFacts(ctx context.Context, org string) (f tollgate.ShadowFacts, err error) {
	k := s.space(org)
	found, err := s.readHashes(ctx, "read_shadows", k.organization(), k.shadowing())
	if err != nil {
		return f, err
	}
	f.Revision = found[1].int("v")
	if text := found[1]["list"]; text != "" {
		if err := decode(text, &f.Active); err != nil {
			return f, s.damagedAt(ctx, k.shadowing(), fmt.Errorf("shadows: %w", err))
		}
	}
	return f, nil
}

// CommitShadow writes a change of an organization's shadows.
func (s *Store) CommitShadow(ctx context.Context, c Caller, idem *Idempotency, ch *tollgate.ShadowChange, ans Answer) (Result, error) {
	b := s.commit(c, idem)
	b.notify, b.answer = true, ans
	shadow := ch.Shadow.Value
	shadow.Totals = tollgate.ShadowTotals{} // counted apart
	if err := b.document(shadow.ID, ch.Shadow.Revision, shadow); err != nil {
		return Result{}, err
	}
	text, err := json.Marshal(ch.Active, json.Deterministic(true))
	if err != nil {
		return Result{}, fmt.Errorf("shadows: %w", err)
	}
	var list pairs
	list.set(envelopeField, envelope)
	list.int("v", ch.Revision+1)
	list.set("list", string(text))
	b.hash(b.space.shadowing(), revision(ch.Revision), list)
	if ch.Shadow.Revision == 0 { // two may have the same time, and never the same revision
		b.member(b.space.shadows(), strconv.FormatInt(ch.Revision+1, 10), shadow.ID)
	}
	if err := b.noted(ch.Audit); err != nil {
		return Result{}, err
	}
	return b.run(ctx)
}

// shadow reads a shadow with its totals.
func (s *Store) shadow(ctx context.Context, k space, id string) (of tollgate.Stored[tollgate.Shadow], err error) {
	if !strings.HasPrefix(id, tollgate.PrefixShadow) {
		return of, tollgate.NotFound()
	}
	found, err := s.readHashes(ctx, "read_shadow", k.object(id), k.totals(id))
	if err != nil {
		return of, err
	}
	of.Revision = found[0].int("v")
	shadow := &of.Value
	if err = found[0].document(shadow); err == nil && (of.Revision == 0 || shadow.Object != "shadow" || shadow.ID != id || shadow.Status == "" || shadow.CreatedAt == 0) {
		err = fmt.Errorf("shadow %s: it is another one", id)
	}
	if err != nil {
		return of, s.damaged(ctx, k, "shadow", id, err)
	}
	t := read("shadow", id, found[1])
	shadow.Totals = tollgate.ShadowTotals{
		Compared: t.count("compared"), Equal: t.count("equal"), Different: t.count("different"), Failed: t.count("failed"), Dropped: t.count("dropped"),
		Differences: []tollgate.ShadowDifference{},
	}
	for name := range t.fields {
		if code, ok := strings.CutPrefix(name, "sum:"); ok {
			currency := tollgate.Currency(code)
			shadow.Totals.Differences = append(shadow.Totals.Differences, tollgate.ShadowDifference{Currency: currency, Amount: tollgate.Money{Minor: t.signed(name), Currency: currency}.String()})
		}
	}
	slices.SortFunc(shadow.Totals.Differences, func(a, b tollgate.ShadowDifference) int { return cmp.Compare(a.Currency, b.Currency) })
	return of, s.noticed(ctx, k, t.err())
}

// Shadow reads a shadow.
func (s *Store) Shadow(ctx context.Context, c Caller, id string) (of tollgate.Stored[tollgate.Shadow], err error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return of, err
	}
	return s.shadow(ctx, k, id)
}

// Shadows lists shadows, the newest first, those before one.
func (s *Store) Shadows(ctx context.Context, c Caller, before string, limit int) (rows []tollgate.Shadow, next string, err error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, "", err
	}
	var list []string
	err = s.timed(ctx, "read_shadows", func(ctx context.Context) error {
		start := int64(0)
		if before != "" {
			rank, err := s.client.ZRevRank(ctx, k.shadows(), before).Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			start = rank + 1
		}
		var err error
		list, err = s.client.ZRevRange(ctx, k.shadows(), start, start+int64(limit)).Result()
		return err
	})
	for _, id := range list[:min(limit, len(list))] {
		shadow, err := s.shadow(ctx, k, id)
		if IsDamage(err) {
			shadow.Value, err = tollgate.Shadow{Object: "shadow", ID: id, Damaged: true}, nil
		}
		if err != nil {
			return nil, "", err
		}
		rows = append(rows, shadow.Value)
		if len(list) > limit {
			next = id
		}
	}
	return rows, next, err
}

// Comparison is what an instance has found since it last said so. Operation
// names it: the same one is recorded once, however often it is sent.
type Comparison struct {
	Operation                                   string
	Compared, Equal, Different, Failed, Dropped int64
	Sums                                        map[tollgate.Currency]int64 // by how much more, in minor units
	Divergences                                 []tollgate.Divergence
}

type recordShadowKeys struct{ Shadow, Totals, Divergences string }

type recordShadowArgs struct {
	Operation, InstanceField    string
	MostDivergences, TotalCount int
}

var scriptRecordShadow = newScript[recordShadowKeys, recordShadowArgs](lua, "record_shadow")

// RecordComparison adds what an instance has found. When it cannot say whether
// it did, send the same again, and nothing else of the shadow before.
func (s *Store) RecordComparison(ctx context.Context, org, shadow, instance string, found *Comparison) error {
	k := s.space(org)
	totals := []any{"compared", found.Compared, "equal", found.Equal, "different", found.Different, "failed", found.Failed, "dropped", found.Dropped}
	for currency, sum := range found.Sums {
		totals = append(totals, "sum:"+string(currency), sum)
	}
	inv := scriptRecordShadow.with(recordShadowKeys{k.object(shadow), k.totals(shadow), k.divergences(shadow)},
		recordShadowArgs{Operation: found.Operation, InstanceField: "op:" + instance, MostDivergences: keptDivergences, TotalCount: len(totals) / 2})
	inv.args = append(inv.args, totals...)
	for _, d := range found.Divergences {
		text, err := json.Marshal(d, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("divergence: %w", err)
		}
		inv.args = append(inv.args, text)
	}
	_, _, err := s.run(ctx, inv)
	return err
}

// Divergences lists what a shadow has found, the newest first, before a place.
func (s *Store) Divergences(ctx context.Context, c Caller, shadow, before string, limit int) (rows []jsontext.Value, next string, err error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, "", err
	}
	if _, err := s.shadow(ctx, k, shadow); err != nil {
		return nil, "", err
	}
	var list []redis.XMessage
	if err := s.timed(ctx, "read_divergences", func(ctx context.Context) (err error) {
		from := "+"
		if before != "" {
			from = "(" + before
		}
		list, err = s.client.XRevRangeN(ctx, k.divergences(shadow), from, "-", int64(limit)+1).Result()
		return err
	}); err != nil {
		return nil, "", err
	}
	for i, m := range list {
		if i == limit {
			next = list[i-1].ID
			break
		}
		row := jsontext.Value(text(m, "b"))
		var d struct {
			Object    string           `json:"object"`
			ID        string           `json:"id"`
			CreatedAt tollgate.Instant `json:"created_at"`
			ShadowID  string           `json:"shadow_id"`
		}
		err := cmp.Or(checkEnvelope(text(m, envelopeField)), decode(string(row), &d))
		if err == nil && (d.Object != "divergence" || d.ShadowID != shadow || !strings.HasPrefix(d.ID, tollgate.PrefixDivergence) || d.CreatedAt == 0) {
			err = errors.New("divergence: it is another one")
		}
		if err != nil { // its place in the list is all that is known of it
			id := tollgate.PrefixDivergence + strings.ReplaceAll(m.ID, "-", "_")
			damage := tollgate.DamageOf(s.damaged(ctx, k, "divergence", id, err))
			if row, err = json.Marshal(damage); err != nil {
				return nil, "", fmt.Errorf("divergence: %w", err)
			}
		}
		rows = append(rows, row)
	}
	return rows, next, nil
}
