package tollgate

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// told are the members of a resource that its events carry, so that a receiver
// can act without reading it.
var told = map[string][]string{
	"organization":     {"name", "status"},
	"legal_entity":     {"status"},
	"merchant_account": {"status", "cutoff", "perimeter", "rule_set"},
	"grant":            {"client_id", "scopes", "merchant_account_ids", "status"},
}

// ResourceChange is what an event says of a changed organization, legal entity,
// merchant account or grant.
type ResourceChange struct {
	Kind, ID  string
	Revision  int64          // that it has now
	Changed   []string       // members; none where it is new
	Document  jsontext.Value // as it is now
	Effective Date           // of a changed cutoff
}

// Event makes an event of the change: the id first, the revision, what changed,
// and what a receiver needs (interface §6).
func (r ResourceChange) Event(mint Mint, o Origin, t EventType) (Event, error) {
	account := ""
	if r.Kind == "merchant_account" {
		account = r.ID
	}
	list, err := json.Marshal(r.Changed)
	if err != nil {
		return Event{}, fmt.Errorf("event %s: %w", t, err)
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(r.Document, &members); err != nil {
		return Event{}, fmt.Errorf("event %s: %w", t, err)
	}
	data := fmt.Appendf(nil, `{"%s_id":%q,"revision":%d,"changed":%s`, r.Kind, r.ID, r.Revision, list)
	for _, name := range told[r.Kind] {
		data = fmt.Appendf(data, `,%q:%s`, name, members[name])
	}
	if t == CutoffUpdated {
		data = fmt.Appendf(data, `,"effective_date":"%s"`, r.Effective)
	}
	return NewEvent(mint(PrefixEvent), t, o.At, o.Organization, account, o.RequestID, jsontext.Value(append(data, '}')))
}
