package tollgate

import (
	"fmt"
	"slices"
	"strings"
)

// RuleChange is what an activation does to a rule set. The next version of a
// rule takes the place of the one before. A rule whose name is new to the set
// either replaces one of its rules or is said to add its fee to theirs, for the
// difference is charged to every payment (interface §11, "activation").
type RuleChange struct {
	Rule     Citation
	Replaces Citation // a rule of the set; version 0: whichever version the set has; none: see Adds
	Adds     bool     // only where the name is new
	Position int      // from 1, of a rule that replaces none; 0: at the end
}

// With is the rule set after a change. replaced is the rule whose place was
// taken, nil when the change adds one. The error says what is wrong with it:
// CodeParameterMissing, with the rules in force, where it does not say whether
// it adds or replaces.
func (r RuleSet) With(change RuleChange) (next RuleSet, replaced *Citation, err error) {
	c, replaces, position := change.Rule, change.Replaces, change.Position
	next = RuleSet{ID: r.ID, Rules: slices.Clone(r.Rules)}
	version := slices.IndexFunc(r.Rules, func(old Citation) bool { return old.Name == c.Name })
	at := version
	if replaces != (Citation{}) {
		at = slices.IndexFunc(r.Rules, func(old Citation) bool {
			return old == replaces || (replaces.Version == 0 && old.Name == replaces.Name)
		})
	}
	switch {
	case change.Adds && replaces != (Citation{}):
		return next, nil, Invalid("adds", "A rule replaces another or adds its fee, not both; leave replaces or adds out.")
	case slices.Contains(r.Rules, c):
		return next, nil, Invalid("rule", "The rule set has %s already.", c)
	case at < 0 && replaces != (Citation{}):
		return next, nil, Invalid("replaces", "The rule set has no %s; it has %s.", replaces.named(), citations(r.Rules))
	case version >= 0 && r.Rules[at].Name != c.Name:
		return next, nil, Invalid("replaces", "The rule set would have two versions of %s, which charge both; replace %s.", c.Name, r.Rules[version])
	case version >= 0 && change.Adds:
		return next, nil, Invalid("adds", "%s takes the place of %s and adds nothing; leave adds out.", c, r.Rules[version])
	case at < 0 && !change.Adds:
		return next, nil, r.unsaid(c)
	case at >= 0 && position != 0 && position != at+1:
		return next, nil, Invalid("position", "The rule set has %s at position %d, and what replaces it stands there.", r.Rules[at], at+1)
	case at >= 0:
		replaced, next.Rules[at] = &r.Rules[at], c
	case len(r.Rules) >= MaxRules:
		return next, nil, Invalid("rule", "A rule set has at most %d rules.", MaxRules)
	case position > len(r.Rules)+1:
		return next, nil, Invalid("position", "The rule set has %d rules.", len(r.Rules))
	case position == 0:
		next.Rules = append(next.Rules, c)
	default:
		next.Rules = slices.Insert(next.Rules, position-1, c)
	}
	return next, replaced, nil
}

// unsaid refuses a rule of a new name that says neither what it replaces nor
// that it adds its fee.
func (r RuleSet) unsaid(c Citation) error {
	message := fmt.Sprintf("%s is new to the rule set, which has %s. Say which of them it replaces (replaces), or that it charges beside them (adds: true).", c, citations(r.Rules))
	if len(r.Rules) == 0 {
		message = fmt.Sprintf("%s is new to the rule set, which has no rules yet. Say that it adds its fee (adds: true).", c)
	}
	return &Error{Code: CodeParameterMissing, Param: "replaces", Message: message, Context: ErrorContext{RulesInForce: slices.Clone(r.Rules)}}
}

func citations(list []Citation) string {
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = c.String()
	}
	return strings.Join(names, ", ")
}
