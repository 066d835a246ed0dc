package tollgate

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// ConfigFacts are what a file is compared with: all that it names and refers to,
// as it was read. What has been read and is not there has its zero value.
type ConfigFacts struct {
	Objects   map[string]StoredObject // by id
	Versions  map[string]string       // documents of perimeters and rule sets, by id@version
	RuleSets  map[string]RuleSetState // by id
	Rules     map[Citation]string     // by rule: its SHA-256
	Owners    map[string]string       // by client: the organization that its id belongs to
	Histories map[string]History      // by rule set; read after its state, whose revision says that it is the latest
	Grants    *GrantList
	Quotas    *Quotas
}

// StoredObject is an object of an organization as it is stored.
type StoredObject struct {
	Revision   int64 // changes with every change of it; 0: there is none yet
	Document   jsontext.Value
	AccountIDs []string        // of an organization
	Perimeter  string          // of a merchant account: its perimeter's document
	Cutoffs    []CutoffVersion // of a merchant account; nil where the release that stored it kept none
	Closed     Date            // the last closed sales day of a merchant account
	Given      string          // the rule set that a merchant account was last given by provisioning, as id@version; empty as Cutoffs
}

// RuleSetState is what a rule set has beside its versions.
type RuleSetState struct {
	ID             string
	Revision, Last int64    // Last is the highest version
	Pending        []string // scheduled activations
}

// GrantList is all of an organization's grants, each with its client.
type GrantList struct {
	Clients  map[string]string // by grant
	Revision int64             // of the list
	Unlisted bool              // they were searched, for the release that stored them kept no list
}

// NewConfigFacts are facts of which nothing has been read.
func NewConfigFacts() *ConfigFacts {
	return &ConfigFacts{
		Objects: map[string]StoredObject{}, Versions: map[string]string{}, RuleSets: map[string]RuleSetState{},
		Rules: map[Citation]string{}, Owners: map[string]string{}, Histories: map[string]History{},
	}
}

// None reports whether there is nothing in them.
func (f *ConfigFacts) None() bool {
	return len(f.Objects)+len(f.Versions)+len(f.RuleSets)+len(f.Rules)+len(f.Owners)+len(f.Histories) == 0 && f.Grants == nil && f.Quotas == nil
}

// Lacks names, by zero values, what a file is to be compared with and has not
// been read. That follows from the file and from what has been read, so it is
// asked again until nothing is lacking.
func (f *ConfigFacts) Lacks(want Config) *ConfigFacts {
	nothing := func(string) string { return "" }
	return f.compare(nothing, Origin{Organization: want.Organization.ID}, want).lacks
}

// look is a fact; one that has not been read is noted and has its zero value.
func look[K comparable, V any](read, lacks map[K]V, name K) V {
	v, ok := read[name]
	if !ok {
		lacks[name] = v
	}
	return v
}

// versionName is what a version of a perimeter or rule set is called by.
func versionName(id string, version int64) string { return fmt.Sprintf("%s@%d", id, version) }
