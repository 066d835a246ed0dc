package tollgate

import "fmt"

// Quotas are an organization's counts of what nothing else counts.
type Quotas struct {
	Rules      int64 // names of rules
	Perimeters int64 // versions of perimeters
	Revision   int64 // 0: they are not kept yet, and were counted
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
func (f PublicationFacts) Publish(mint Mint, o Origin, r Rule) (*Publication, error) {
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
		return nil, QuotaExceeded("rule", "rule:%s has %d versions, which are as many as a rule can have. Publish the next one under a new name.", r.Rule.Name, MaxRuleVersions)
	case f.Versions == 0 && f.Quotas.Rules >= MaxRuleNames:
		return nil, QuotaExceeded("rule", "An organization has at most %d names of rules. Publish a new version of one that is there.", MaxRuleNames)
	case f.Versions == 0:
		p.Quotas = &Quotas{Rules: f.Quotas.Rules + 1, Perimeters: f.Quotas.Perimeters, Revision: f.Quotas.Revision}
	}
	var err error
	p.Event, err = NewEvent(mint(PrefixEvent), RulePublished, o.At, o.Organization, "", o.RequestID, RulePublishedData{r.ID, r.Rule, r.SHA256, r.SignerID})
	return p, err
}

// RulePublishedData is the data of rule.published.
type RulePublishedData struct {
	RuleID   string   `json:"rule_id"`
	Rule     Citation `json:"rule"`
	SHA256   string   `json:"sha256"`
	SignerID string   `json:"signer_id"`
}
