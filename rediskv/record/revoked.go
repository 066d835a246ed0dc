package record

import (
	"fmt"
	"strings"

	"tollgate"
)

// Revoked is the field of a grant with its tokens that were revoked one by one: "<token
// id>:<until>", with commas between them. Until is in seconds since 1970.
const Revoked = "revoked"

// RevokedIn are the ids of the tokens that the fields of a grant say are revoked. A
// script writes the list and its copy at once: where they differ, it is damage.
func RevokedIn(f map[string]string) (map[string]bool, error) {
	list := f[Revoked]
	if list != f[Copied(Revoked)] {
		return nil, fmt.Errorf("its list %s has another copy", Revoked)
	}
	if list == "" {
		return nil, nil
	}
	ids := map[string]bool{}
	for one := range strings.SplitSeq(list, ",") {
		id, until, _ := strings.Cut(one, ":")
		if !tollgate.ValidID(id) || until == "" || strings.Trim(until, "0123456789") != "" {
			return nil, fmt.Errorf("its list %s has %q", Revoked, one)
		}
		ids[id] = true
	}
	return ids, nil
}
