package wasm

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"path"
	"sort"

	"github.com/go-json-experiment/json"

	"tollgate"
)

// rulesFS has the released rules: rules/<name>/v<version>/ holds a rule's
// table, the module that Build makes of it and its golden cases, so that a
// citation is a path. rules/SHA256SUMS freezes what is released.
//
//go:embed rules/SHA256SUMS rules/*/*/rule.toml rules/*/*/rule.wasm rules/*/*/golden.json
var rulesFS embed.FS

// BuiltinRule is a rule that the binary brings along.
type BuiltinRule struct {
	Citation tollgate.Citation
	Source   []byte // the table in TOML
	Module   []byte
	Golden   []GoldenCase
}

// GoldenCase is an input with the outcome that a version of a rule must always
// have: lines, a refusal, or a failure.
type GoldenCase struct {
	Kind     GoldenKind        `json:"kind,omitempty"`
	Amount   string            `json:"amount"`
	Currency tollgate.Currency `json:"currency"`
	Payee    string            `json:"payee,omitempty"`
	Lines    []GoldenLine      `json:"lines,omitempty"`
	Refused  string            `json:"refused,omitempty"` // the error's message
	Failed   bool              `json:"failed,omitzero"`
}

// GoldenLine is an expected fee line.
type GoldenLine struct {
	Label  string `json:"label"`
	Amount string `json:"amount"`
}

// Builtin returns the rules that the binary brings along, ordered by name and
// version.
func Builtin() ([]BuiltinRule, error) {
	names, err := rulesFS.ReadDir("rules") // fs.Glob brings a sort along that the edge has no room for
	if err != nil {
		return nil, fmt.Errorf("built-in rules: %w", err)
	}
	var all []BuiltinRule
	for _, name := range names {
		versions, _ := rulesFS.ReadDir("rules/" + name.Name()) // none of a file
		for _, version := range versions {
			r, err := builtin("rules/" + name.Name() + "/" + version.Name())
			if err != nil {
				return nil, fmt.Errorf("built-in rule %s %s: %w", name.Name(), version.Name(), err)
			}
			all = append(all, r)
		}
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i].Citation, all[j].Citation
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version)) < 0
	})
	return all, nil
}

func builtin(dir string) (r BuiltinRule, err error) {
	name, version := path.Base(path.Dir(dir)), path.Base(dir)
	if r.Citation, err = tollgate.ParseCitation("rule:" + name + "@" + version); err != nil {
		return r, err
	}
	if r.Source, err = rulesFS.ReadFile(dir + "/rule.toml"); err != nil {
		return r, err
	}
	if r.Module, err = rulesFS.ReadFile(dir + "/rule.wasm"); err != nil {
		return r, err
	}
	golden, err := rulesFS.ReadFile(dir + "/golden.json")
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(golden, &r.Golden, json.RejectUnknownMembers(true))
}

// Ref pins the rule's module.
func (r BuiltinRule) Ref() tollgate.RuleRef { return RefOf(r.Citation, r.Module) }

// BuiltinRefs pins every built-in rule.
func BuiltinRefs() ([]tollgate.RuleRef, error) {
	all, err := Builtin()
	refs := make([]tollgate.RuleRef, len(all))
	for i, r := range all {
		refs[i] = r.Ref()
	}
	return refs, err
}

// LoadBuiltin loads every built-in rule; none is ever evicted.
func (e *Engine) LoadBuiltin(ctx context.Context) error {
	all, err := Builtin()
	if err != nil {
		return err
	}
	for _, r := range all {
		if _, err := e.load(ctx, r.Citation, r.Module, true); err != nil {
			return err
		}
	}
	return nil
}
