package tollgate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Rule is one published version of a pricing rule. It never changes.
type Rule struct {
	Object       string   `json:"object"` // "rule"
	ID           string   `json:"id"`     // see RuleID
	CreatedAt    Instant  `json:"created_at"`
	Rule         Citation `json:"rule"`
	SHA256       string   `json:"sha256"` // of the module, in hex
	GoldenSHA256 string   `json:"golden_sha256"`
	Bytes        int      `json:"bytes"`
	Label        string   `json:"label"`    // of lines that bring none
	MaxFuel      int64    `json:"max_fuel"` // of the golden cases
	SignerID     string   `json:"signer_id"`
	KeyID        string   `json:"key_id"`
	Signature    string   `json:"signature"` // the compact JWS that it was published with
	// Damaged: it is stored and cannot be read; only Object and ID count.
	Damaged bool `json:"-"`
}

// RuleSigner is who may publish rules for an organization.
type RuleSigner struct {
	ID             string   `json:"id"`
	OrganizationID string   `json:"organization_id"`
	Name           string   `json:"name"`
	Status         string   `json:"status"` // active or disabled
	Keys           []string `json:"keys"`   // public JWKs, one JSON text each
}

// RuleID is the identifier of a citation: "rul_card_fee_v4".
func RuleID(c Citation) string { return PrefixRule + c.Name + "_v" + strconv.Itoa(c.Version) }

// ParseRuleID reads what RuleID printed.
func ParseRuleID(id string) (Citation, bool) {
	text, ok := strings.CutPrefix(id, PrefixRule)
	at := strings.LastIndex(text, "_v")
	if !ok || at < 0 {
		return Citation{}, false
	}
	c, err := ParseCitation("rule:" + text[:at] + "@v" + text[at+2:])
	return c, err == nil
}

// MaxRules is how many rules a rule set has at most; each may make 16 lines.
const MaxRules = 32

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

// with is the rule set after a change. replaced is the rule whose place was
// taken, nil when the change adds one. The error says what is wrong with it:
// CodeParameterMissing, with the rules in force, where it does not say whether
// it adds or replaces.
func (r RuleSet) with(change RuleChange) (next RuleSet, replaced *Citation, err error) {
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

// PublicationFacts are what publishing a version of a rule is decided from.
type PublicationFacts struct {
	Signer    int64 // the signer's revision
	Published *Rule // the version, where it is there already
	Versions  int64 // how many there are of its name
	Last      int64 // the highest of them
	Quotas    Quotas
}

// Publication is everything that publishing a rule writes, all or nothing, if
// nothing that it was decided from has changed.
type Publication struct {
	Rule     Rule
	Versions int64   // how many there are of its name, with this one
	Quotas   *Quotas // with a new name; nil where the name is not new
	Event    Event
	Audit    AuditEntry
	Facts    PublicationFacts
}

// Publish decides whether a rule that has been examined is published.
// CodeRuleExists when the version is there with other content; for the same
// content and signer both results are nil. CodeRuleInvalid when there is a later
// version, CodeQuotaExceeded when there are too many.
func (f PublicationFacts) Publish(newID NewIDFunc, o Origin, r Rule) (*Publication, error) {
	p := &Publication{Rule: r, Versions: f.Versions + 1, Facts: f, Audit: AuditEntry{
		Type: "rule.publish", Outcome: "succeeded", Reason: r.SignerID, Target: AuditTarget{Type: "rule", ID: r.ID},
	}}
	switch old := f.Published; {
	case old != nil && (old.SHA256 != r.SHA256 || old.GoldenSHA256 != r.GoldenSHA256 || old.SignerID != r.SignerID):
		return nil, &Error{
			Code: CodeRuleExists, Param: "rule", Rule: &r.Rule,
			Message: r.Rule.String() + " exists with other content or by another signer; a version never changes, publish the next one.",
		}
	case old != nil:
		return nil, nil
	case f.Last > int64(r.Rule.Version):
		return nil, &Error{
			Code: CodeRuleInvalid, Param: "rule", Rule: &r.Rule,
			Message: fmt.Sprintf("Versions only grow, and rule:%s@v%d is published.", r.Rule.Name, f.Last),
		}
	case f.Versions >= MaxRuleVersions:
		return nil, quotaExceeded("rule", "rule:%s has %d versions, which are as many as a rule can have. Publish the next one under a new name.", r.Rule.Name, MaxRuleVersions)
	case f.Versions == 0 && f.Quotas.Rules >= MaxRuleNames:
		return nil, quotaExceeded("rule", "An organization has at most %d names of rules. Publish a new version of one that is there.", MaxRuleNames)
	case f.Versions == 0:
		p.Quotas = &Quotas{Rules: f.Quotas.Rules + 1, Perimeters: f.Quotas.Perimeters, Revision: f.Quotas.Revision}
	}
	var err error
	p.Event, err = NewEvent(newID(PrefixEvent), RulePublished, o.At, o.Organization, "", o.RequestID, RulePublishedData{r.ID, r.Rule, r.SHA256, r.SignerID})
	return p, err
}

// RulePublishedData is the data of rule.published.
type RulePublishedData struct {
	RuleID   string   `json:"rule_id"`
	Rule     Citation `json:"rule"`
	SHA256   string   `json:"sha256"`
	SignerID string   `json:"signer_id"`
}
