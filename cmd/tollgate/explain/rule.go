package explain

import (
	"fmt"
	"net/url"
	"slices"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/wasm"
)

// rule explains a published rule, or one that this binary brings along.
func (r *reader) rule(id string) bool {
	citation, ok := tollgate.ParseRuleID(id)
	if !ok {
		return false
	}
	builtin, err := wasm.Builtin()
	if err != nil {
		r.err = err
		return false
	}
	if slices.ContainsFunc(builtin, func(b wasm.BuiltinRule) bool { return b.Citation == citation }) {
		r.e.facts.Row("rule", citation.String())
		r.e.facts.Row("from", "the program itself: nobody has published it")
		r.next("", "rule test "+citation.String()+" --verbose", "see its golden cases")
	} else {
		v, ok := get[tollgate.Rule](r, "the rule", "/v1/rules/"+escaped(id))
		if !ok {
			return false
		}
		r.e.facts.Row("rule", v.Rule.String())
		r.e.facts.Row("label", v.Label)
		r.e.facts.Row("sha256", v.SHA256)
		r.e.facts.Row("signed by", v.SignerID+", key "+v.KeyID)
		r.happened(v.CreatedAt, "published", id)
		r.next("rules:read", "rule show "+citation.String(), "see its golden cases")
	}
	r.inForce(func(a *cli.AccountAnswer) bool { return slices.Contains(a.RuleSet.Rules, citation) })
	r.story(id)
	r.next("", "rule try "+citation.String()+" --amount 100.00 --currency EUR --payee shop.example", "see what it charges")
	return true
}

// inForce says for which accounts something is in force, and returns them.
func (r *reader) inForce(is func(*cli.AccountAnswer) bool) (accounts []cli.AccountAnswer) {
	each(r, "accounts", "/v1/merchant-accounts", nil, func(raw cli.Raw, a cli.AccountAnswer) bool {
		if is(&a) {
			r.e.facts.Row(onFirst(len(accounts), "in force for"), a.ID+"  "+a.Name)
			accounts = append(accounts, a)
			r.e.Objects = append(r.e.Objects, raw)
		}
		return true
	})
	return accounts
}

// activations hands over the activations of a rule set, the newest first.
func (r *reader) activations(set string, more func(cli.Raw, tollgate.ActivationAnswer) bool) {
	each(r, "activations", "/v1/rule-sets/"+escaped(set)+"/activations", nil, more)
}

func (r *reader) ruleSet(id string) bool {
	found := false
	for i, a := range r.inForce(func(a *cli.AccountAnswer) bool { return a.RuleSet.ID == id }) {
		if found = true; i > 0 {
			continue
		}
		for n, rule := range a.RuleSet.Rules {
			r.e.facts.Row(onFirst(n, fmt.Sprintf("version %d", a.RuleSet.Version)), rule.String())
			r.next("", "explain "+tollgate.RuleID(rule), "see the rule")
		}
	}
	r.activations(id, func(raw cli.Raw, v tollgate.ActivationAnswer) bool {
		found = true
		r.e.Objects = append(r.e.Objects, raw)
		r.activationStory(&v)
		return len(r.e.Story) < 50
	})
	r.next("rules:read", "rule activations "+id, "list what was activated")
	return found
}

func (r *reader) activationStory(v *tollgate.ActivationAnswer) {
	what := "rollback"
	if v.Rule != nil {
		what = v.Rule.String()
	}
	r.happened(v.CreatedAt, fmt.Sprintf("%s asked for, from version %d to %d", what, v.FromVersion, v.ToVersion), v.ID)
	if v.ActivatedAt != 0 {
		r.happened(v.ActivatedAt, what+" in force", v.ID)
	}
	if v.EndedAt != 0 {
		r.happened(v.EndedAt, what+" "+string(v.Status), v.ID)
	}
}

// activation is looked for in the rule sets of the accounts.
func (r *reader) activation(id string) (found bool) {
	var sets []string
	each(r, "accounts", "/v1/merchant-accounts", nil, func(_ cli.Raw, a cli.AccountAnswer) bool {
		sets = appendNew(sets, a.RuleSet.ID)
		return true
	})
	for _, set := range sets {
		body, v, err := cli.Read[tollgate.ActivationAnswer](r.Get(r.ctx, "/v1/rule-sets/"+escaped(set)+"/activations/"+escaped(id), nil))
		switch {
		case notFound(err):
			continue
		case err != nil:
			if !r.missing("the activation", err) {
				r.err = err
			}
			return false
		}
		r.e.Objects = append(r.e.Objects, body)
		r.e.facts.Row("status", string(v.Status))
		r.e.facts.Row("rule set", set)
		r.e.facts.Row("accounts", cli.Joined(v.MerchantAccountIDs, "-"))
		if v.FailureReason != nil {
			r.e.facts.Row("failed", *v.FailureReason)
		}
		r.activationStory(&v)
		if v.Status == tollgate.ActivationScheduled {
			r.next("rules:write", "rule cancel "+id+" --rule-set "+set, "take it back before it happens")
		}
		r.next("rules:read", "rule activations "+set, "list what was activated")
		return true
	}
	return false
}

func (r *reader) shadow(id string) bool {
	s, ok := get[tollgate.Shadow](r, "the shadow", "/v1/shadows/"+escaped(id))
	if !ok {
		return false
	}
	t := &r.e.facts
	t.Row("rule", fmt.Sprintf("%s beside %s", s.Rule.Rule, s.Against))
	t.Row("status", s.Status)
	t.Row("compared", fmt.Sprintf("%d: %d equal, %d different, %d failed", s.Totals.Compared, s.Totals.Equal, s.Totals.Different, s.Totals.Failed))
	for _, d := range s.Totals.Differences {
		t.Row("difference", d.Amount+" "+string(d.Currency))
	}
	r.happened(s.CreatedAt, "started", id)
	if s.StoppedAt != 0 {
		r.happened(s.StoppedAt, "stopped", id)
	}
	r.next("rules:read", "rule shadow show "+id, "see what it prices in another way")
	if s.Status == tollgate.StatusActive {
		r.next("rules:write", "rule shadow stop "+id, "stop it")
	}
	return true
}

func (r *reader) perimeter(id string) bool {
	p, ok := get[tollgate.PerimeterAnswer](r, "the perimeter", "/v1/perimeters/"+escaped(id))
	if !ok {
		return false
	}
	r.e.facts.Row("version", fmt.Sprintf("%d of %v", p.Version, p.Versions))
	for i, a := range p.Accounts {
		r.e.facts.Row(onFirst(i, "in force for"), fmt.Sprintf("%s, version %d", a.ID, a.Version))
	}
	each(r, "events", "/v1/events", url.Values{"types": {string(tollgate.PerimeterActivated)}, "order": {"asc"}}, func(raw cli.Raw, e tollgate.Event) bool {
		data, _ := e.Read()
		if d, ok := data.(*tollgate.MerchantAccountEventData); ok && d.Perimeter.ID == id {
			r.happened(e.CreatedAt, fmt.Sprintf("version %d in force for %s", d.Perimeter.Version, d.MerchantAccountID), e.ID)
		}
		return true
	})
	r.next("accounts:read", "perimeter "+id, "see its constraints and what is left of its budgets")
	return true
}
