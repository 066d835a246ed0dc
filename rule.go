package tollgate

import (
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
