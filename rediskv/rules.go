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

// Publication is a rule that has been examined, with its signer as it was read.
type Publication struct {
	Rule   tollgate.Rule
	Module []byte
	Golden []byte // the cases' JSON
	Signer *RuleSigner
}

// RuleSigner returns a signer from the cache.
func (s *Store) RuleSigner(ctx context.Context, org, id string) (*RuleSigner, error) {
	k := s.space(org)
	return lookup(ctx, s, entry{"signer", org, id}, func(ctx context.Context) (*RuleSigner, error) {
		if !strings.HasPrefix(id, tollgate.PrefixRuleSigner) {
			return nil, notFound()
		}
		found, err := s.readHashes(ctx, "read_signer", k.object(id))
		if err != nil {
			return nil, err
		}
		r := &RuleSigner{Revision: found[0].int("v")}
		return r, decode(found[0]["json"], &r.RuleSigner)
	})
}

// PublishRule writes a rule with its module, index, event and audit entry, or
// nothing. CodeRuleExists when the version is there with other content; for the
// same content and signer the answer is again's, of the rule as it is.
// CodeRuleInvalid when there is a later version. ErrStale says that the signer
// has been changed.
func (s *Store) PublishRule(ctx context.Context, c Caller, idem *Idempotency, p Publication, ans Answer, again func(*tollgate.Rule) (Answer, error)) (Result, error) {
	k, r := s.space(c.Organization), p.Rule
	return Retried(func() (Result, error) {
		found, err := s.readHashes(ctx, "read_rule", k.object(p.Signer.ID), k.rule(r.Rule), k.ruleName(r.Rule.Name))
		if err != nil {
			return Result{}, err
		}
		signer, there, name := found[0], found[1], found[2]
		if signer.int("v") != p.Signer.Revision {
			return Result{}, ErrStale
		}
		if len(there) > 0 {
			return s.published(ctx, c, idem, there, r, again)
		}
		if last := name.int("last"); last > int64(r.Rule.Version) {
			return Result{}, &tollgate.Error{
				Code: tollgate.CodeRuleInvalid, Param: "rule", Rule: &r.Rule,
				Message: fmt.Sprintf("Versions only grow, and rule:%s@v%d is published.", r.Rule.Name, last),
			}
		}
		if name.int("v") >= tollgate.MaxRuleVersions { // each has raised it by one
			return Result{}, tollgate.QuotaExceeded("rule", "rule:%s has %d versions, which are as many as a rule can have. Publish the next one under a new name.", r.Rule.Name, tollgate.MaxRuleVersions)
		}
		b := s.commit(c, idem)
		b.answer = ans
		var names []hashWrite
		if name["v"] == "" {
			q, err := s.readQuotas(ctx, k)
			if err != nil {
				return Result{}, err
			}
			if q.int("rules") >= tollgate.MaxRuleNames {
				return Result{}, tollgate.QuotaExceeded("rule", "An organization has at most %d names of rules. Publish a new version of one that is there.", tollgate.MaxRuleNames)
			}
			names = append(names, q.with("rules", 1))
		}
		doc, err := json.Marshal(r, json.Deterministic(true))
		if err != nil {
			return Result{}, fmt.Errorf("rule %s: %w", r.Rule, err)
		}
		var f, last pairs
		f.int("v", 1)
		f.set("json", string(doc))
		f.set("sha", r.SHA256)
		f.set("golden", string(p.Golden))
		last.int("v", name.int("v")+1)
		last.int("last", int64(r.Rule.Version))
		b.hash(k.rule(r.Rule), "", f)
		b.hash(k.ruleName(r.Rule.Name), name["v"], last)
		b.unchanged(k.object(p.Signer.ID), signer["v"])
		b.hashes = append(b.hashes, names...)
		b.version(k.module(r.SHA256), string(p.Module))
		b.member(k.rules(), "0", ruleMember(r.Rule))
		if err := b.event(tollgate.RulePublished, "", struct {
			RuleID   string            `json:"rule_id"`
			Rule     tollgate.Citation `json:"rule"`
			SHA256   string            `json:"sha256"`
			SignerID string            `json:"signer_id"`
		}{r.ID, r.Rule, r.SHA256, r.SignerID}); err != nil {
			return Result{}, err
		}
		if err := b.audit("rule.publish", r.SignerID, "rule", r.ID); err != nil {
			return Result{}, err
		}
		return b.run(ctx)
	})
}

// published answers for a version that is there: the same rule again is no
// fault.
func (s *Store) published(ctx context.Context, c Caller, idem *Idempotency, there fields, r tollgate.Rule, again func(*tollgate.Rule) (Answer, error)) (Result, error) {
	if idem != nil {
		if earlier, ok, err := s.FindRepeated(ctx, c, *idem); err != nil || ok {
			return earlier, err
		}
	}
	var old tollgate.Rule
	if err := readRule(there, r.Rule, &old); err != nil {
		return Result{}, s.damaged(ctx, s.space(c.Organization), "rule", r.ID, err)
	}
	if old.SHA256 != r.SHA256 || old.GoldenSHA256 != r.GoldenSHA256 || old.SignerID != r.SignerID {
		return Result{}, &tollgate.Error{
			Code: tollgate.CodeRuleExists, Param: "rule", Rule: &r.Rule,
			Message: r.Rule.String() + " exists with other content or by another signer; a version never changes, publish the next one.",
		}
	}
	ans, err := again(&old)
	return Result{Answer: ans}, err
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
	if err := decode(f["json"], into); err != nil {
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
		if err := readRule(fields{"v": f[0], "json": f[1], "sha": f[2]}, cited[i], &rows[i]); err != nil {
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
			return notFound()
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
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, sum := range published {
		refs[i].SHA256 = sum.Val()
	}
	return refs, nil
}
