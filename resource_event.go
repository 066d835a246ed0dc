package tollgate

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ResourceChange is what an event says of a changed organization, legal entity,
// merchant account or grant.
type ResourceChange struct {
	Kind, ID  string
	Revision  int64          // that it has now
	Changed   []string       // members; none where it is new
	Document  jsontext.Value // as it is now
	Effective Date           // of a changed cutoff
}

// OrganizationEventData is the data of organization.updated. As in all events of
// resources, behind the id stand the revision, the members that changed, and the
// members of the resource that a receiver needs so that it can act without
// reading it (interface §6).
type OrganizationEventData struct {
	OrganizationID string   `json:"organization_id"`
	Revision       int64    `json:"revision"`
	Changed        []string `json:"changed"`
	Name           string   `json:"name"`
	Status         string   `json:"status"`
}

// LegalEntityEventData is the data of legal_entity.updated.
type LegalEntityEventData struct {
	LegalEntityID string   `json:"legal_entity_id"`
	Revision      int64    `json:"revision"`
	Changed       []string `json:"changed"`
	Status        string   `json:"status"`
}

// MerchantAccountEventData is the data of events of an account, but one.
type MerchantAccountEventData struct {
	MerchantAccountID string       `json:"merchant_account_id"`
	Revision          int64        `json:"revision"`
	Changed           []string     `json:"changed"`
	Status            string       `json:"status"`
	Cutoff            Cutoff       `json:"cutoff"`
	Perimeter         PerimeterRef `json:"perimeter"`
	RuleSet           RuleSet      `json:"rule_set"`
}

// CutoffEventData is the data of cutoff.updated.
type CutoffEventData struct {
	MerchantAccountEventData
	EffectiveDate Date `json:"effective_date"` // the first sales day that ends by it
}

// GrantEventData is the data of grant.created and grant.revoked.
type GrantEventData struct {
	GrantID            string   `json:"grant_id"`
	Revision           int64    `json:"revision"`
	Changed            []string `json:"changed"`
	ClientID           string   `json:"client_id"`
	Scopes             []string `json:"scopes"`
	MerchantAccountIDs []string `json:"merchant_account_ids"`
	Status             string   `json:"status"`
}

// data is that of an event of a type, without the members of the resource.
func (r ResourceChange) data(t EventType) any {
	account := MerchantAccountEventData{MerchantAccountID: r.ID, Revision: r.Revision, Changed: r.Changed}
	switch {
	case r.Kind == "organization":
		return &OrganizationEventData{OrganizationID: r.ID, Revision: r.Revision, Changed: r.Changed}
	case r.Kind == "legal_entity":
		return &LegalEntityEventData{LegalEntityID: r.ID, Revision: r.Revision, Changed: r.Changed}
	case r.Kind == "grant":
		return &GrantEventData{GrantID: r.ID, Revision: r.Revision, Changed: r.Changed}
	case t == CutoffUpdated:
		return &CutoffEventData{account, r.Effective}
	default:
		return &account
	}
}

// event makes an event of the change. The document has the members that the
// event carries of it under the same names.
func (r ResourceChange) event(newID NewIDFunc, o Origin, t EventType) (Event, error) {
	account := ""
	if r.Kind == "merchant_account" {
		account = r.ID
	}
	data := r.data(t)
	if err := json.Unmarshal(r.Document, data); err != nil {
		return Event{}, fmt.Errorf("event %s: %w", t, err)
	}
	return NewEvent(newID(PrefixEvent), t, o.At, o.Organization, account, o.RequestID, data)
}
