package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

// RuleSigner is who may publish rules.
type RuleSigner struct {
	tollgate.RuleSigner
	Revision int64
}

// RuleSigner returns a signer from the cache.
func (s *Store) RuleSigner(ctx context.Context, org, id string) (*RuleSigner, error) {
	k := s.db.Space(org)
	return rediskv.Lookup(ctx, s.db, rediskv.EntryOf("signer", org, id), func(ctx context.Context) (*RuleSigner, error) {
		f, err := s.db.ReadObject(ctx, "read_signer", k, tollgate.PrefixRuleSigner, id)
		if err != nil {
			return nil, err
		}
		r := &RuleSigner{Revision: f.Int("v")}
		return r, f.Document(&r.RuleSigner)
	})
}

// PublicationFacts reads what publishing a version of a rule is decided from.
// ErrStale says that the signer is not as it was read before.
func (s *Store) PublicationFacts(ctx context.Context, org string, signer *RuleSigner, rule tollgate.Citation) (f tollgate.PublicationFacts, err error) {
	k := s.db.Space(org)
	found, err := s.db.ReadHashes(ctx, "read_rule", k.Object(signer.ID), k.Rule(rule), k.RuleName(rule.Name))
	if err != nil {
		return f, err
	}
	there, name := found[1], found[2]
	if f.Signer = found[0].Int("v"); f.Signer != signer.Revision {
		return f, rediskv.ErrStale
	}
	f.Versions, f.Last = name.Int("v"), name.Int("last") // each version has raised v by one
	if len(there) > 0 {
		f.Published = new(tollgate.Rule)
		return f, s.db.Damaged(ctx, k, "rule", tollgate.RuleID(rule), readRule(there, rule, f.Published))
	}
	if f.Versions == 0 {
		f.Quotas, err = s.ReadQuotas(ctx, k)
	}
	return f, err
}

// PublishRule writes a rule with its module, index, event and audit entry.
// golden is the JSON of its cases.
func (s *Store) PublishRule(ctx context.Context, c rediskv.Caller, idem *rediskv.Idempotency, p *tollgate.Publication, module, golden []byte, ans rediskv.Answer) (rediskv.Result, error) {
	b := s.db.NewCommit(c, idem)
	k, r := b.Space, p.Rule
	b.Answer = ans
	doc, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		return rediskv.Result{}, fmt.Errorf("rule %s: %w", r.Rule, err)
	}
	var f, last rediskv.Pairs
	f.Int("v", 1)
	f.Set(rediskv.EnvelopeField, rediskv.Envelope)
	f.Set("json", string(doc))
	f.Set("sha", r.SHA256)
	f.Set("golden", string(golden))
	f.Set(record.Golden, record.GoldenSum(k.Rule(r.Rule), string(golden)))
	last.Set(rediskv.EnvelopeField, rediskv.Envelope)
	last.Int("v", p.Versions)
	last.Int("last", int64(r.Rule.Version))
	b.Hash(k.Rule(r.Rule), "", f)
	b.Hash(k.RuleName(r.Rule.Name), rediskv.Revision(p.Facts.Versions), last)
	b.Unchanged(k.Object(r.SignerID), rediskv.Revision(p.Facts.Signer))
	if p.Quotas != nil {
		Quotas(b, *p.Quotas)
	}
	b.Version(k.Module(r.SHA256), string(module))
	b.Member(k.Rules(), "0", ruleMember(r.Rule))
	b.Events = append(b.Events, p.Event)
	if err := b.Noted(p.Audit); err != nil {
		return rediskv.Result{}, err
	}
	return b.Run(ctx)
}

// ruleMember orders rules by name and version.
func ruleMember(c tollgate.Citation) string { return fmt.Sprintf("%s@v%06d", c.Name, c.Version) }

// Rule reads a published rule and its golden cases.
func (s *Store) Rule(ctx context.Context, c rediskv.Caller, rule tollgate.Citation) (r *tollgate.Rule, golden []byte, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	found, err := s.db.ReadHashes(ctx, "read_rule", k.Rule(rule))
	if err != nil {
		return nil, nil, err
	}
	r, golden = new(tollgate.Rule), []byte(found[0]["golden"])
	err = readRule(found[0], rule, r)
	sum := found[0][record.Golden]
	if err == nil && (!jsontext.Value(golden).IsValid() || jsontext.Value(golden).Kind() != '[' || sum != "" && sum != record.GoldenSum(k.Rule(rule), string(golden))) {
		err = fmt.Errorf("%s: its golden cases", rule)
	}
	if err != nil {
		return nil, nil, s.db.Damaged(ctx, k, "rule", tollgate.RuleID(rule), err)
	}
	return r, golden, nil
}

// readRule reads a rule's hash, and checks that it is the one of its key.
func readRule(f rediskv.Fields, cited tollgate.Citation, into *tollgate.Rule) error {
	if err := f.Document(into); err != nil {
		return fmt.Errorf("%s: %w", cited, err)
	}
	if f["v"] == "" || into.Object != "rule" || into.Rule != cited || into.ID != tollgate.RuleID(cited) || into.SHA256 != f["sha"] || into.CreatedAt == 0 {
		return fmt.Errorf("%s: it is another one", cited)
	}
	return nil
}

// Rules lists published rules by name and version, those after one; name
// selects the versions of one rule.
func (s *Store) Rules(ctx context.Context, c rediskv.Caller, name, after string, limit int) (rows []tollgate.Rule, next string, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	by := &redis.ZRangeBy{Min: "-", Max: "+", Count: int64(limit) + 1}
	if name != "" {
		by.Min, by.Max = "["+name+"@v", "["+name+"@w"
	}
	if after != "" {
		by.Min = "(" + after
	}
	var members []string
	if err := s.db.Timed(ctx, "read_rules", func(ctx context.Context) (err error) {
		members, err = s.db.Redis.ZRangeByLex(ctx, k.Rules(), by).Result()
		return err
	}); err != nil {
		return nil, "", err
	}
	if len(members) > limit {
		members = members[:limit]
		next = members[limit-1]
	}
	cited, keys := make([]tollgate.Citation, len(members)), make([]string, len(members))
	for i, m := range members {
		if cited[i], err = citationOf(m); err != nil {
			return nil, "", err
		}
		keys[i] = k.Rule(cited[i])
	}
	found, err := s.db.ReadFields(ctx, "read_rules", keys, "v", "json", "sha")
	if err != nil {
		return nil, "", err
	}
	rows = make([]tollgate.Rule, len(members))
	for i, f := range found {
		if err := readRule(f, cited[i], &rows[i]); err != nil {
			id := tollgate.RuleID(cited[i])
			rows[i] = tollgate.Rule{Object: "rule", ID: id, Damaged: true}
			s.db.Damaged(ctx, k, "rule", id, err)
		}
	}
	return rows, next, nil
}

// citationOf reads what ruleMember printed.
func citationOf(member string) (tollgate.Citation, error) {
	name, version, _ := strings.Cut(member, "@v")
	return tollgate.ParseCitation("rule:" + name + "@v" + strings.TrimLeft(version, "0"))
}

// Module reads the bytes of a published rule.
func (s *Store) Module(ctx context.Context, org string, ref tollgate.RuleRef) (module []byte, err error) {
	if s.db.IsOffline() {
		return s.db.KeptModule(ref.SHA256)
	}
	err = s.db.Timed(ctx, "read_module", func(ctx context.Context) (err error) {
		module, err = s.db.Redis.Get(ctx, s.db.Space(org).Module(ref.SHA256)).Bytes()
		if errors.Is(err, redis.Nil) {
			return tollgate.NotFound()
		}
		return err
	})
	return module, err
}

// Resolve pins citations: to the rules that every organization has, or to what
// this one has published. What there is no rule for has no sum. A version never
// changes, so neither does its pin.
func (s *Store) Resolve(ctx context.Context, org string, cited []tollgate.Citation) ([]tollgate.RuleRef, error) {
	return s.Pinned(ctx, s.db.Space(org), cited)
}

// pin is the field of a rule's hash with the sum of its module.
const pin = "sha"

// Pinned pins rules to their modules, in their order; one that there is not has no
// sum.
func (s *Store) Pinned(ctx context.Context, k rediskv.Space, cited []tollgate.Citation) ([]tollgate.RuleRef, error) {
	refs := make([]tollgate.RuleRef, len(cited))
	published := map[int]*redis.StringCmd{}
	for i, c := range cited {
		refs[i].Rule = c
		if ref, ok := s.db.Builtin[c]; ok {
			refs[i] = ref
		} else {
			published[i] = nil
		}
	}
	if len(published) == 0 {
		return refs, nil
	}
	if s.db.IsOffline() {
		for i := range published {
			f, err := s.db.KeptHash(ctx, "read_rules", k.Rule(cited[i]))
			if err != nil {
				return nil, err
			}
			refs[i].SHA256 = f[pin]
		}
		return refs, nil
	}
	err := s.db.Timed(ctx, "read_rules", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		for i := range published {
			published[i] = pipe.HGet(ctx, k.Rule(cited[i]), pin)
		}
		return rediskv.Answered(pipe.Exec(ctx))
	})
	if err != nil {
		return nil, err
	}
	for i, sum := range published {
		refs[i].SHA256 = sum.Val()
		s.db.Note(ctx, k.Rule(cited[i]), rediskv.Fields{pin: sum.Val()})
	}
	return refs, nil
}
