package provision

import (
	"context"
	"fmt"
	"strings"

	"tollgate"
	"tollgate/rediskv/store"
)

// references are what a file leaves to Redis to hold: objects that it names and
// does not describe, and rules that an organization must have published.
type references struct {
	objects []reference
	rules   []citedRule
}

// reference is an object that must be there, and what is said where it is not.
type reference struct {
	organization, id, at, problem string // no id: the organization itself
}

type citedRule struct {
	organization string
	rule         tollgate.Citation
	at           string
}

func (r *references) none() bool { return len(r.objects) == 0 && len(r.rules) == 0 }

func (r *references) check(ctx context.Context, store *store.Store, problems *fileProblems) error {
	for _, o := range r.objects {
		there, err := store.Holds(ctx, o.organization, o.id)
		if err != nil {
			return err
		}
		if !there {
			problems.addf(o.at, "%s", o.problem)
		}
	}
	for _, c := range r.rules {
		refs, err := store.Resolve(ctx, c.organization, []tollgate.Citation{c.rule})
		if err != nil {
			return err
		}
		if refs[0].SHA256 == "" {
			problems.addf(c.at, "there is no %s (tollgate rule list)", c.rule)
		}
	}
	return nil
}

// refer notes that an object must be there which the file does not describe.
func (c *organizationCheck) refer(at, prefix, id, format string, args ...any) {
	problem := fmt.Sprintf(format, args...)
	bare, _, _ := strings.Cut(id, "@")
	wrong := prefix != "" && (!strings.HasPrefix(bare, prefix) || !tollgate.ValidID(bare))
	if wrong || !tollgate.ValidID(c.form.ID) {
		c.problems.addf(at, "%s", problem)
		return
	}
	c.references.objects = append(c.references.objects, reference{c.form.ID, id, at, problem})
}
