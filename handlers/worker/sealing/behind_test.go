package sealing_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate/handlers/worker/loop"
	"tollgate/handlers/worker/sealing"
	"tollgate/rediskv/checks"
	"tollgate/rediskv/testkit"
)

// gauge is how far behind a sealer said that it is.
type gauge struct {
	loop.Unobserved
	behind time.Duration
}

func (g *gauge) AuditBehind(_ int, oldest time.Duration) { g.behind = oldest }

// While entries cannot be sealed, the alert hears for how long: nobody has said what the
// issuer is, no secret key opens the audit key, or the tree is damaged.
func TestSealingIsBehind(t *testing.T) {
	t.Parallel()
	r := newRecord(t)
	var heard gauge
	behind := func(what string, want bool) {
		t.Helper()
		c := r.sealer().Config
		c.Observer, c.Wall = &heard, func() time.Time { return time.Now().Add(time.Hour) }
		r.write(1)
		_, err := sealing.New(c).Partition(t.Context(), r.space().Partition)
		if is := heard.behind > 59*time.Minute; is != want {
			t.Errorf("%s: %s behind, %v", what, heard.behind, err)
		}
	}
	behind("no issuer", true)
	r.serve()
	behind("sealed", false)
	r.keyed("x")
	behind("another secret key", true)
	r.keyed("k")
	behind("sealed again", false)
	must(t, r.raw.Append(t.Context(), r.space().AuditTree(), " ").Err())
	must(t, r.raw.SetRange(t.Context(), r.space().AuditTree(), 20, "#").Err())
	behind("a damaged tree", true)
	if !slices.ContainsFunc(testkit.Findings(t, r.Store), func(f checks.Finding) bool {
		return f.Object == "audit_tree" && strings.HasPrefix(f.Message, r.space().AuditTree())
	}) {
		t.Errorf("check finds %+v", testkit.Findings(t, r.Store))
	}
}
