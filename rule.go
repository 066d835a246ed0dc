package tollgate

import (
	"slices"
	"strconv"
	"strings"
	"time"
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

// With is the rule set with one rule in place of the version that it has of it,
// or, without one, at a place from 1 (0: the end). The error says what is wrong
// with that.
func (r RuleSet) With(c Citation, position int) (RuleSet, error) {
	next := RuleSet{ID: r.ID, Rules: slices.Clone(r.Rules)}
	at := slices.IndexFunc(r.Rules, func(old Citation) bool { return old.Name == c.Name })
	switch {
	case at >= 0 && r.Rules[at] == c:
		return next, Invalid("rule", "The rule set has %s already.", c)
	case at >= 0 && position != 0 && position != at+1:
		return next, Invalid("position", "The rule set has %s at position %d, and there it stays.", r.Rules[at], at+1)
	case at >= 0:
		next.Rules[at] = c
	case len(r.Rules) >= MaxRules:
		return next, Invalid("rule", "A rule set has at most %d rules.", MaxRules)
	case position > len(r.Rules)+1:
		return next, Invalid("position", "The rule set has %d rules.", len(r.Rules))
	case position == 0:
		next.Rules = append(next.Rules, c)
	default:
		next.Rules = slices.Insert(next.Rules, position-1, c)
	}
	return next, nil
}

// MaxRules is how many rules a rule set has at most; each may make 16 lines.
const MaxRules = 32

// ActivationStatus is where an activation stands.
type ActivationStatus string

// A scheduled activation becomes active at its time; it fails when an account
// has been given other rules meanwhile.
const (
	ActivationScheduled  ActivationStatus = "scheduled"
	ActivationActive     ActivationStatus = "active"
	ActivationCanceled   ActivationStatus = "canceled"
	ActivationRolledBack ActivationStatus = "rolled_back"
	ActivationFailed     ActivationStatus = "failed"
)

// Activation moves accounts from one version of a rule set to the next at a
// time.
type Activation struct {
	Object             string           `json:"object"` // "activation"
	ID                 string           `json:"id"`
	CreatedAt          Instant          `json:"created_at"`
	Kind               ActivationKind   `json:"kind"`
	RuleSetID          string           `json:"rule_set_id"`
	Rule               *Citation        `json:"rule"` // null in a rollback
	FromVersion        int64            `json:"from_version"`
	ToVersion          int64            `json:"to_version"`
	Rules              []RuleRef        `json:"rules"` // of the version that it leads to
	MerchantAccountIDs []string         `json:"merchant_account_ids"`
	At                 Instant          `json:"at"`
	Status             ActivationStatus `json:"status"`
	ActivatedAt        Instant          `json:"activated_at"`
	EndedAt            Instant          `json:"ended_at"` // canceled, failed or rolled back
	FailureReason      *string          `json:"failure_reason"`
}

// ActivationKind says which way an activation leads.
type ActivationKind string

// An activation goes to a new version, a rollback to one that was in force.
const (
	ActivationForward  ActivationKind = "activation"
	ActivationRollback ActivationKind = "rollback"
)

// InstanceGrace is how long an activation that is due waits for an instance
// that has not loaded its rules; then it goes on without that one.
const InstanceGrace = 30 * time.Second

// Retired are the rules of before that none of the sets in use names any more.
func Retired(before []Citation, inUse [][]Citation) (retired []Citation) {
	for _, c := range before {
		if !slices.ContainsFunc(inUse, func(set []Citation) bool { return slices.Contains(set, c) }) {
			retired = append(retired, c)
		}
	}
	return retired
}
