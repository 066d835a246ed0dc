package rediskv

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
)

// RuleSigner is who may publish rules.
type RuleSigner struct {
	tollgate.RuleSigner
	Revision int64
}

// RuleSigner returns a signer from the cache.
func (s *Store) RuleSigner(ctx context.Context, org, id string) (*RuleSigner, error) {
	k := s.space(org)
	return lookup(ctx, s, entry{"signer", org, id}, func(ctx context.Context) (*RuleSigner, error) {
		if !strings.HasPrefix(id, tollgate.PrefixRuleSigner) {
			return nil, tollgate.NotFound()
		}
		found, err := s.readHashes(ctx, "read_signer", k.object(id))
		if err != nil {
			return nil, err
		}
		r := &RuleSigner{Revision: found[0].int("v")}
		return r, found[0].document(&r.RuleSigner)
	})
}

// PublicationFacts reads what publishing a version of a rule is decided from.
// ErrStale says that the signer is not as it was read before.
func (s *Store) PublicationFacts(ctx context.Context, org string, signer *RuleSigner, rule tollgate.Citation) (f tollgate.PublicationFacts, err error) {
	k := s.space(org)
	found, err := s.readHashes(ctx, "read_rule", k.object(signer.ID), k.rule(rule), k.ruleName(rule.Name))
	if err != nil {
		return f, err
	}
	there, name := found[1], found[2]
	if f.Signer = found[0].int("v"); f.Signer != signer.Revision {
		return f, ErrStale
	}
	f.Versions, f.Last = name.int("v"), name.int("last") // each version has raised v by one
	if len(there) > 0 {
		f.Published = new(tollgate.Rule)
		return f, s.damaged(ctx, k, "rule", tollgate.RuleID(rule), readRule(there, rule, f.Published))
	}
	if f.Versions == 0 {
		f.Quotas, err = s.readQuotas(ctx, k)
	}
	return f, err
}

// PublishRule writes a rule with its module, index, event and audit entry.
// golden is the JSON of its cases.
func (s *Store) PublishRule(ctx context.Context, c Caller, idem *Idempotency, p *tollgate.Publication, module, golden []byte, ans Answer) (Result, error) {
	b := s.commit(c, idem)
	k, r := b.space, p.Rule
	b.answer = ans
	doc, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		return Result{}, fmt.Errorf("rule %s: %w", r.Rule, err)
	}
	var f, last pairs
	f.int("v", 1)
	f.set(envelopeField, envelope)
	f.set("json", string(doc))
	f.set("sha", r.SHA256)
	f.set("golden", string(golden))
	last.set(envelopeField, envelope)
	last.int("v", p.Versions)
	last.int("last", int64(r.Rule.Version))
	b.hash(k.rule(r.Rule), "", f)
	b.hash(k.ruleName(r.Rule.Name), revision(p.Facts.Versions), last)
	b.unchanged(k.object(r.SignerID), revision(p.Facts.Signer))
	if p.Quotas != nil {
		b.quotas(*p.Quotas)
	}
	b.version(k.module(r.SHA256), string(module))
	b.member(k.rules(), "0", ruleMember(r.Rule))
	b.events = append(b.events, p.Event)
	if err := b.noted(p.Audit); err != nil {
		return Result{}, err
	}
	return b.run(ctx)
}

// ruleMember orders rules by name and version.
func ruleMember(c tollgate.Citation) string { return fmt.Sprintf("%s@v%06d", c.Name, c.Version) }

// Rule reads a published rule and its golden cases.
func (s *Store) Rule(ctx context.Context, c Caller, rule tollgate.Citation) (r *tollgate.Rule, golden []byte, err error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, nil, err
	}
	found, err := s.readHashes(ctx, "read_rule", k.rule(rule))
	if err != nil {
		return nil, nil, err
	}
	r, golden = new(tollgate.Rule), []byte(found[0]["golden"])
	err = readRule(found[0], rule, r)
	if err == nil && (!jsontext.Value(golden).IsValid() || jsontext.Value(golden).Kind() != '[') {
		err = fmt.Errorf("%s: its golden cases", rule)
	}
	if err != nil {
		return nil, nil, s.damaged(ctx, k, "rule", tollgate.RuleID(rule), err)
	}
	return r, golden, nil
}

// readRule reads a rule's hash, and checks that it is the one of its key.
func readRule(f fields, cited tollgate.Citation, into *tollgate.Rule) error {
	if err := f.document(into); err != nil {
		return fmt.Errorf("%s: %w", cited, err)
	}
	if f["v"] == "" || into.Object != "rule" || into.Rule != cited || into.ID != tollgate.RuleID(cited) || into.SHA256 != f["sha"] || into.CreatedAt == 0 {
		return fmt.Errorf("%s: it is another one", cited)
	}
	return nil
}

// Rules lists published rules by name and version, those after one; name
// selects the versions of one rule.
func (s *Store) Rules(ctx context.Context, c Caller, name, after string, limit int) (rows []tollgate.Rule, next string, err error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, "", err
	}
	by := &redis.ZRangeBy{Min: "-", Max: "+", Count: int64(limit) + 1}
	if name != "" {
		by.Min, by.Max = "["+name+"@v", "["+name+"@w"
	}
	if after != "" {
		by.Min = "(" + after
	}
	var members []string
	if err := s.timed(ctx, "read_rules", func(ctx context.Context) (err error) {
		members, err = s.client.ZRangeByLex(ctx, k.rules(), by).Result()
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
		keys[i] = k.rule(cited[i])
	}
	found, err := s.readFields(ctx, "read_rules", keys, "v", "json", "sha")
	if err != nil {
		return nil, "", err
	}
	rows = make([]tollgate.Rule, len(members))
	for i, f := range found {
		if err := readRule(f, cited[i], &rows[i]); err != nil {
			id := tollgate.RuleID(cited[i])
			rows[i] = tollgate.Rule{Object: "rule", ID: id, Damaged: true}
			s.damaged(ctx, k, "rule", id, err)
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
	err = s.timed(ctx, "read_module", func(ctx context.Context) (err error) {
		module, err = s.client.Get(ctx, s.space(org).module(ref.SHA256)).Bytes()
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
	return s.resolve(ctx, s.space(org), cited)
}

func (s *Store) resolve(ctx context.Context, k space, cited []tollgate.Citation) ([]tollgate.RuleRef, error) {
	refs := make([]tollgate.RuleRef, len(cited))
	published := map[int]*redis.StringCmd{}
	for i, c := range cited {
		refs[i].Rule = c
		if ref, ok := s.shipped[c]; ok {
			refs[i] = ref
		} else {
			published[i] = nil
		}
	}
	if len(published) == 0 {
		return refs, nil
	}
	err := s.timed(ctx, "read_rules", func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		for i := range published {
			published[i] = pipe.HGet(ctx, k.rule(cited[i]), "sha")
		}
		return answered(pipe.Exec(ctx))
	})
	if err != nil {
		return nil, err
	}
	for i, sum := range published {
		refs[i].SHA256 = sum.Val()
	}
	return refs, nil
}
