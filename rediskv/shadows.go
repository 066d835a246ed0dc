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

// StartShadow writes a new shadow. CodeQuotaExceeded when there are
// tollgate.MaxShadows already.
func (s *Store) StartShadow(ctx context.Context, c Caller, idem *Idempotency, shadow tollgate.Shadow, ans Answer) (Result, error) {
	return Retried(func() (Result, error) {
		list, active, err := s.activeShadows(ctx, s.space(c.Organization))
		if err != nil {
			return Result{}, err
		}
		if len(active) >= tollgate.MaxShadows {
			return Result{}, tollgate.QuotaExceeded("shadows", "An organization has at most %d shadows at once; stop one.", tollgate.MaxShadows)
		}
		b := s.commit(c, idem)
		b.answer = ans
		b.member(b.space.shadows(), strconv.FormatInt(list.int("v")+1, 10), shadow.ID) // two may have the same time, and never the same revision
		return b.shadow(ctx, "rule.shadow", shadow, "", list, append(active, shadow))
	})
}

// StopShadow ends a shadow; what it has found stays.
func (s *Store) StopShadow(ctx context.Context, c Caller, idem *Idempotency, id string, answer func(*tollgate.Shadow) (Answer, error)) (Result, error) {
	return Retried(func() (Result, error) {
		k := s.space(c.Organization)
		shadow, revision, err := s.shadow(ctx, k, id)
		if err != nil {
			return Result{}, err
		}
		if shadow.Status != tollgate.StatusActive {
			return Result{}, stateInvalid("The shadow is stopped.")
		}
		list, active, err := s.activeShadows(ctx, k)
		if err != nil {
			return Result{}, err
		}
		active = slices.DeleteFunc(active, func(other tollgate.Shadow) bool { return other.ID == id })
		shadow.Status, shadow.StoppedAt = "stopped", s.Now()
		b := s.commit(c, idem)
		if b.answer, err = answer(shadow); err != nil {
			return Result{}, err
		}
		return b.shadow(ctx, "rule.unshadow", *shadow, revision, list, active)
	})
}

// activeShadows reads an organization's hash of them.
func (s *Store) activeShadows(ctx context.Context, k space) (list fields, active []tollgate.Shadow, err error) {
	found, err := s.readHashes(ctx, "read_shadows", k.organization(), k.shadowing())
	if err != nil {
		return nil, nil, err
	}
	if text := found[1]["list"]; text != "" {
		if err := decode(text, &active); err != nil {
			return nil, nil, s.damagedAt(ctx, k.shadowing(), fmt.Errorf("shadows: %w", err))
		}
	}
	return found[1], active, nil
}

// shadow commits a shadow that was read at a revision, and which ones are
// active now.
func (b *commit) shadow(ctx context.Context, kind string, shadow tollgate.Shadow, revision string, list fields, active []tollgate.Shadow) (Result, error) {
	shadow.Totals = tollgate.ShadowTotals{} // counted apart
	doc, err := json.Marshal(shadow, json.Deterministic(true))
	if err != nil {
		return Result{}, fmt.Errorf("shadow %s: %w", shadow.ID, err)
	}
	text, err := json.Marshal(active, json.Deterministic(true))
	if err != nil {
		return Result{}, fmt.Errorf("shadows: %w", err)
	}
	var f, all pairs
	f.int("v", fields{"v": revision}.int("v")+1)
	f.set("json", string(doc))
	all.int("v", list.int("v")+1)
	all.set("list", string(text))
	b.notify = true
	b.hash(b.space.object(shadow.ID), revision, f)
	b.hash(b.space.shadowing(), list["v"], all)
	if err := b.audit(kind, shadow.Rule.Rule.String(), "shadow", shadow.ID); err != nil {
		return Result{}, err
	}
	return b.run(ctx)
}

// shadow reads a shadow with its totals.
func (s *Store) shadow(ctx context.Context, k space, id string) (*tollgate.Shadow, string, error) {
	if !strings.HasPrefix(id, tollgate.PrefixShadow) {
		return nil, "", notFound()
	}
	found, err := s.readHashes(ctx, "read_shadow", k.object(id), k.totals(id))
	if err != nil {
		return nil, "", err
	}
	shadow := new(tollgate.Shadow)
	if err = decode(found[0]["json"], shadow); err == nil && (found[0]["v"] == "" || shadow.Object != "shadow" || shadow.ID != id || shadow.Status == "" || shadow.CreatedAt == 0) {
		err = fmt.Errorf("shadow %s: it is another one", id)
	}
	if err != nil {
		return nil, "", s.damaged(ctx, k, "shadow", id, err)
	}
	t := read("shadow", id, found[1])
	shadow.Totals = tollgate.ShadowTotals{
		Compared: t.count("compared"), Equal: t.count("equal"), Different: t.count("different"), Failed: t.count("failed"), Dropped: t.count("dropped"),
		Differences: []tollgate.ShadowDifference{},
	}
	for name := range t.fields {
		if code, ok := strings.CutPrefix(name, "sum:"); ok {
			currency := tollgate.Currency(code)
			shadow.Totals.Differences = append(shadow.Totals.Differences, tollgate.ShadowDifference{Currency: currency, Amount: tollgate.Signed(t.signed(name), currency)})
		}
	}
	slices.SortFunc(shadow.Totals.Differences, func(a, b tollgate.ShadowDifference) int { return cmp.Compare(a.Currency, b.Currency) })
	return shadow, found[0]["v"], s.noticed(ctx, k, t.err())
}

// Shadow reads a shadow.
func (s *Store) Shadow(ctx context.Context, c Caller, id string) (*tollgate.Shadow, error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, err
	}
	shadow, _, err := s.shadow(ctx, k, id)
	return shadow, err
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
		shadow, _, err := s.shadow(ctx, k, id)
		if IsDamage(err) {
			shadow, err = &tollgate.Shadow{Object: "shadow", ID: id, Damaged: true}, nil
		}
		if err != nil {
			return nil, "", err
		}
		rows = append(rows, *shadow)
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

var scriptRecordShadow = newScript[recordShadowKeys, recordShadowArgs]("record_shadow")

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
	if _, _, err := s.shadow(ctx, k, shadow); err != nil {
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
		err := decode(string(row), &d)
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
