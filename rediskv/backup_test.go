package rediskv_test

import (
	"crypto/rand"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"tollgate/rediskv"
	"tollgate/rediskv/backup"
	"tollgate/rediskv/checks"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// Every kind of record and of key is in a copy, is found sound in it, and is put back
// as it was.
func TestEveryKindIsRestored(t *testing.T) {
	kind := redistest.Kind(t)
	if kind == redistest.Miniredis {
		t.Skip("the embedded one gives no copy of itself")
	}
	f := oneOfEach(t)
	to := redistest.Started(t, kind)
	o := backup.Options{Redis: rediskv.Options{URL: f.URL, Clock: time.Now, Entropy: rand.Reader}}
	dir := filepath.Join(t.TempDir(), "copy")
	raw, _ := f.raw(t)
	before := testkit.State(t, raw)
	_, err := backup.Take(t.Context(), o, dir)
	must(t, err)
	kept, err := backup.Open(dir)
	must(t, err)
	live, copied := map[string]bool{}, map[string]bool{}
	for _, found := range testkit.Findings(t, f.Store) {
		live[found.ID+" "+found.Message] = true
	}
	w := &checks.Walk{Found: func(found checks.Finding) { copied[found.ID+" "+found.Message] = true }}
	must(t, kept.Check(t.Context(), o, f.Clock.Now, w))
	if !maps.Equal(copied, live) || w.Looked["organizations"] != 1 {
		t.Errorf("checks of the copy find %v, of Redis %v", copied, live)
	}
	o.Redis.URL = to.URL
	must(t, backup.Restore(t.Context(), o, kept))
	testkit.Restored(t, before, testkit.State(t, rawClient(t, to.URL)))
}
