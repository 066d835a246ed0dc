package provision

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"tollgate"
	"tollgate/rediskv/store"
)

// perimeterFault is what is wrong with a new version of a perimeter, and was not
// when an earlier release stored it.
type perimeterFault struct {
	at  string // its YAML path
	err error
}

// compilePerimeter checks constraints with today's meaning. What only an earlier
// release would have stored is later: it is no fault if that release did.
func compilePerimeter(d tollgate.PerimeterDocument) (p *tollgate.Perimeter, later, now error) {
	bare := func(err error) error {
		return errors.New(strings.TrimPrefix(err.Error(), fmt.Sprintf("perimeter %s@%d: ", d.ID, d.Version)))
	}
	d.Semantics = tollgate.PerimeterSemantics
	p, err := d.Compile()
	if err == nil {
		return p, nil, nil
	}
	d.Semantics = 0
	if p, old := d.Compile(); old == nil {
		return p, bare(err), nil
	}
	return nil, nil, bare(err)
}

// earlierPerimeters are the versions in the file that an earlier release has
// stored, and that keep its meaning. Faults of the others are problems.
func earlierPerimeters(ctx context.Context, store *store.Store, configs []tollgate.Config, faults map[string]perimeterFault, problems *fileProblems) (warnings []string, err error) {
	for _, config := range configs {
		refs := make([]tollgate.PerimeterRef, len(config.Perimeters))
		for i, d := range config.Perimeters {
			refs[i] = tollgate.PerimeterRef{ID: d.ID, Version: d.Version}
		}
		stored, err := store.PerimeterDocuments(ctx, config.Organization.ID, refs)
		if err != nil {
			return nil, err
		}
		for i, ref := range refs {
			name := fmt.Sprintf("%s@%d", ref.ID, ref.Version)
			if stored[i].Damage != nil {
				return nil, stored[i].Damage
			}
			if d := stored[i]; d.PerimeterDocument != nil && d.Semantics == 0 {
				warnings = append(warnings, fmt.Sprintf("perimeter %s keeps its meaning, %s; give it the next version for today's", name, tollgate.EarlierSemantics))
			} else if f, ok := faults[name]; ok {
				problems.add(f.at, f.err)
			}
		}
	}
	return warnings, nil
}
