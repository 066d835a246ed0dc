package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

// keptDivergences is how many of a shadow's divergences are kept, about.
const keptDivergences = 1000

// ShadowsOf are the active shadows that concern an account; list is the field of
// that name of the organization's hash of them.
func ShadowsOf(list string, a *tollgate.MerchantAccount) (found []tollgate.Shadow, err error) {
	if list == "" {
		return nil, nil
	}
	var all []tollgate.Shadow
	if err := record.Decode(list, &all); err != nil {
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
	k := s.db.Space(org)
	found, err := s.db.ReadHashes(ctx, "read_shadows", k.Organization(), k.Shadowing())
	if err != nil {
		return f, err
	}
	f.Revision = found[1].Int("v")
	if text := found[1]["list"]; text != "" {
		if err := record.Decode(text, &f.Active); err != nil {
			return f, s.db.DamagedAt(ctx, k.Shadowing(), fmt.Errorf("shadows: %w", err))
		}
	}
	return f, nil
}

// CommitShadow writes a change of an organization's shadows.
func (s *Store) CommitShadow(ctx context.Context, c rediskv.Caller, idem *rediskv.Idempotency, ch *tollgate.ShadowChange, ans rediskv.Answer) (rediskv.Result, error) {
	b := s.db.NewCommit(c, idem)
	b.Notify, b.Answer = true, ans
	shadow := ch.Shadow.Value
	shadow.Totals = tollgate.ShadowTotals{} // counted apart
	if err := b.Document(shadow.ID, ch.Shadow.Revision, shadow); err != nil {
		return rediskv.Result{}, err
	}
	text, err := json.Marshal(ch.Active, json.Deterministic(true))
	if err != nil {
		return rediskv.Result{}, fmt.Errorf("shadows: %w", err)
	}
	var list rediskv.Pairs
	list.Set(rediskv.EnvelopeField, rediskv.Envelope)
	list.Int("v", ch.Revision+1)
	list.Set("list", string(text))
	b.Hash(b.Space.Shadowing(), rediskv.Revision(ch.Revision), list)
	if ch.Shadow.Revision == 0 { // two may have the same time, and never the same revision
		b.Member(b.Space.Shadows(), strconv.FormatInt(ch.Revision+1, 10), shadow.ID)
	}
	if err := b.Noted(ch.Audit); err != nil {
		return rediskv.Result{}, err
	}
	return b.Run(ctx)
}

// shadow reads a shadow with its totals.
func (s *Store) shadow(ctx context.Context, k rediskv.Space, id string) (of tollgate.Stored[tollgate.Shadow], err error) {
	if !strings.HasPrefix(id, tollgate.PrefixShadow) {
		return of, tollgate.NotFound()
	}
	found, err := s.db.ReadHashes(ctx, "read_shadow", k.Object(id), k.Totals(id))
	if err != nil {
		return of, err
	}
	return s.shadowOf(ctx, k, id, found[0], found[1])
}

// shadowOf reads a shadow's hash, and that of its totals.
func (s *Store) shadowOf(ctx context.Context, k rediskv.Space, id string, f, totals rediskv.Fields) (of tollgate.Stored[tollgate.Shadow], err error) {
	of.Revision = f.Int("v")
	shadow := &of.Value
	if err = f.Document(shadow); err == nil && (of.Revision == 0 || shadow.Object != "shadow" || shadow.ID != id || shadow.Status == "" || shadow.CreatedAt == 0) {
		err = fmt.Errorf("shadow %s: it is another one", id)
	}
	if err != nil {
		return of, s.db.Damaged(ctx, k, "shadow", id, err)
	}
	t := record.ReadHash("shadow", id, totals)
	shadow.Totals = tollgate.ShadowTotals{
		Compared: t.Count("compared"), Equal: t.Count("equal"), Different: t.Count("different"), Failed: t.Count("failed"), Dropped: t.Count("dropped"),
		Differences: []tollgate.ShadowDifference{},
	}
	for _, name := range slices.Sorted(maps.Keys(t.Fields)) {
		if code, ok := strings.CutPrefix(name, "sum:"); ok {
			currency := tollgate.Currency(code)
			shadow.Totals.Differences = append(shadow.Totals.Differences, tollgate.ShadowDifference{Currency: currency, Amount: tollgate.Money{Minor: t.Signed(name), Currency: currency}.String()})
		}
	}
	return of, s.db.Noticed(ctx, k, t.Err())
}

// Shadow reads a shadow.
func (s *Store) Shadow(ctx context.Context, c rediskv.Caller, id string) (of tollgate.Stored[tollgate.Shadow], err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	return s.shadow(ctx, k, id)
}

// Shadows lists shadows, the newest first, those before one.
func (s *Store) Shadows(ctx context.Context, c rediskv.Caller, before string, limit int) (rows []tollgate.Shadow, next string, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	list, next, err := s.newest(ctx, "read_shadows", k.Shadows(), before, limit)
	if err != nil {
		return nil, "", err
	}
	var keys []string
	for _, id := range list {
		keys = append(keys, k.Object(id), k.Totals(id))
	}
	var found []rediskv.Fields
	err = rediskv.EachHash(ctx, s.db, c, "read_shadows", keys, func(key string) string { return key }, func(_ string, f rediskv.Fields) { found = append(found, f) })
	for i := 0; err == nil && i < len(list); i++ {
		id, f, totals := list[i], found[2*i], found[2*i+1]
		shadow, err := s.shadowOf(ctx, k, id, f, totals)
		if err != nil || s.db.DamagedAt(ctx, k.Object(id), rediskv.Counters(f)) != nil || s.db.DamagedAt(ctx, k.Totals(id), rediskv.Counters(totals)) != nil {
			shadow.Value = tollgate.Shadow{Object: "shadow", ID: id, Damaged: true}
		}
		rows = append(rows, shadow.Value)
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

var scriptRecordShadow = script.New[recordShadowKeys, recordShadowArgs](lua, "record_shadow")

// RecordComparison adds what an instance has found. When it cannot say whether
// it did, send the same again, and nothing else of the shadow before.
func (s *Store) RecordComparison(ctx context.Context, org, shadow, instance string, found *Comparison) error {
	k := s.db.Space(org)
	totals := []any{"compared", found.Compared, "equal", found.Equal, "different", found.Different, "failed", found.Failed, "dropped", found.Dropped}
	for currency, sum := range found.Sums {
		totals = append(totals, "sum:"+string(currency), sum)
	}
	inv := scriptRecordShadow.With(recordShadowKeys{k.Object(shadow), k.Totals(shadow), k.Divergences(shadow)},
		recordShadowArgs{Operation: found.Operation, InstanceField: "op:" + instance, MostDivergences: keptDivergences, TotalCount: len(totals) / 2})
	inv.Args = append(inv.Args, totals...)
	for _, d := range found.Divergences {
		text, err := json.Marshal(d, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("divergence: %w", err)
		}
		inv.Args = append(inv.Args, text, record.Row(k.Divergences(shadow), string(text)))
	}
	_, _, err := s.db.Run(ctx, inv)
	return err
}

// Divergences lists what a shadow has found, the newest first, before a place.
func (s *Store) Divergences(ctx context.Context, c rediskv.Caller, shadow, before string, limit int) (rows []jsontext.Value, next string, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	defer rediskv.Beside(func() error { _, err := s.shadow(ctx, k, shadow); return err })(&err)
	var list []redis.XMessage
	if err := s.db.Timed(ctx, "read_divergences", func(ctx context.Context) (err error) {
		from := "+"
		if before != "" {
			from = "(" + before
		}
		list, err = s.db.Redis.XRevRangeN(ctx, k.Divergences(shadow), from, "-", int64(limit)+1).Result()
		return err
	}); err != nil {
		return nil, "", err
	}
	for i, m := range list {
		if i == limit {
			next = list[i-1].ID
			break
		}
		row := jsontext.Value(rediskv.Text(m, "b"))
		var d struct {
			Object    string           `json:"object"`
			ID        string           `json:"id"`
			CreatedAt tollgate.Instant `json:"created_at"`
			ShadowID  string           `json:"shadow_id"`
		}
		err := cmp.Or(record.CheckRow(k.Divergences(shadow), m.Values), record.Decode(string(row), &d))
		if err == nil && (d.Object != "divergence" || d.ShadowID != shadow || !strings.HasPrefix(d.ID, tollgate.PrefixDivergence) || d.CreatedAt == 0) {
			err = errors.New("divergence: it is another one")
		}
		if err != nil { // its place in the list is all that is known of it
			id := tollgate.PrefixDivergence + strings.ReplaceAll(m.ID, "-", "_")
			damage := tollgate.DamageOf(s.db.Damaged(ctx, k, "divergence", id, err))
			if row, err = json.Marshal(damage); err != nil {
				return nil, "", fmt.Errorf("divergence: %w", err)
			}
		}
		rows = append(rows, row)
	}
	return rows, next, nil
}
