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

// ActivationStatus is where an activation stands.
type ActivationStatus string

// A scheduled activation becomes active at its time; it fails when an account
// has been given other rules meanwhile. It is active while one of its accounts
// has its version, or one that was made from that. The last of them leaves by a
// rollback, or because provisioning gives it another rule set: superseded.
const (
	ActivationScheduled  ActivationStatus = "scheduled"
	ActivationActive     ActivationStatus = "active"
	ActivationCanceled   ActivationStatus = "canceled"
	ActivationRolledBack ActivationStatus = "rolled_back"
	ActivationSuperseded ActivationStatus = "superseded"
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
	Rule               *Citation        `json:"rule"`     // null in a rollback
	Replaces           *Citation        `json:"replaces"` // null where the rule adds a line, and in a rollback
	FromVersion        int64            `json:"from_version"`
	ToVersion          int64            `json:"to_version"`
	Rules              []RuleRef        `json:"rules"` // of the version that it leads to
	MerchantAccountIDs []string         `json:"merchant_account_ids"`
	At                 Instant          `json:"at"`
	Status             ActivationStatus `json:"status"`
	ActivatedAt        Instant          `json:"activated_at"`
	EndedAt            Instant          `json:"ended_at"` // canceled, failed, rolled back or superseded
	FailureReason      *string          `json:"failure_reason"`
	// Damaged: it is stored and cannot be read; only Object and ID count.
	Damaged bool `json:"-"`
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
