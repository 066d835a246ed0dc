package rulesync

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
)

// silence finds the currencies that a rule is silent about, of those given. A
// module that cannot be loaded is not silent: it fails. Of one that could not be
// loaded just now, nobody knows.
func (s *Sync) silence(ctx context.Context, org string, ref tollgate.RuleRef, currencies []tollgate.Currency) (list []tollgate.Currency, err error) {
	if err := s.Load(ctx, org, ref); err != nil {
		if Passes(err) {
			return nil, err
		}
		return nil, nil
	}
	for _, c := range s.Engine.Silent(ref) {
		if slices.Contains(currencies, c) {
			list = append(list, c)
		}
	}
	return list, nil
}

// RefuseSilence keeps a rule from being activated that would make currencies of
// the accounts free by saying nothing about them. The rules that are in force
// already stay.
func (s *Sync) RefuseSilence(ctx context.Context, org string, p *tollgate.ActivationPlan) error {
	at := slices.IndexFunc(p.Rules, func(ref tollgate.RuleRef) bool { return ref.Rule == *p.Rule })
	silent, err := s.silence(ctx, org, p.Rules[at], p.Currencies)
	if err != nil || len(silent) == 0 {
		return err
	}
	names := make([]string, len(silent))
	for i, c := range silent {
		names[i] = string(c)
	}
	return &tollgate.Error{
		Code: tollgate.CodeRuleInvalid, Param: "rule", Rule: p.Rule, Context: tollgate.ErrorContext{Currencies: silent},
		Message: fmt.Sprintf("%s charges nothing in %s, which the accounts take, and does not say that this is meant. "+
			"Publish a version that has a fee for each, or says otherwise: refuse or free.", p.Rule, strings.Join(names, ", ")),
	}
}

// Marked adds to accounts, as they are stored, which of their rules in force are
// silent about which of their currencies.
func (s *Sync) Marked(ctx context.Context, org string, docs []jsontext.Value) ([]jsontext.Value, error) {
	list := slices.Clone(docs)
	for i, doc := range docs {
		var a struct {
			tollgate.MerchantAccount
			Damaged bool `json:"damaged"`
		}
		if err := json.Unmarshal(doc, &a); err != nil || a.ID == "" || a.Damaged {
			continue // one that cannot be read is shown as it is
		}
		refs, err := s.Store.Resolve(ctx, org, a.RuleSet.Rules)
		if err != nil {
			return nil, err
		}
		found := []tollgate.SilentRule{}
		for _, ref := range refs {
			silent, err := s.silence(ctx, org, ref, a.Currencies)
			if err != nil {
				return nil, err
			}
			if len(silent) > 0 {
				found = append(found, tollgate.SilentRule{Rule: ref.Rule, Currencies: silent})
			}
		}
		text, err := json.Marshal(found, json.Deterministic(true))
		if err != nil {
			return nil, fmt.Errorf("account %s: %w", a.ID, err)
		}
		list[i] = append(append(append(slices.Clone(doc[:len(doc)-1]), `,"silent_rules":`...), text...), '}')
	}
	return list, nil
}
