package sealing_test

import (
	"crypto/rand"
	"path/filepath"
	"testing"

	"tollgate/rediskv"
	"tollgate/rediskv/backup"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// A copy has the tree, its checkpoints and the keys: what is restored from it is
// verified, by whoever keeps a checkpoint of before, too. It is another history, so
// another tree goes on from it.
func TestRestoredRecord(t *testing.T) {
	t.Parallel()
	kind := redistest.Kind(t)
	if kind == redistest.Miniredis {
		t.Skip("the embedded one gives no copy of itself")
	}
	r, earlier := numbered(t)
	r.seal()
	kept, key := r.last(), r.key()
	o := backup.Options{Redis: rediskv.Options{URL: r.URL, Clock: r.Clock.Now, Entropy: rand.Reader}}
	dir := filepath.Join(t.TempDir(), "copy")
	_, err := backup.Take(t.Context(), o, dir)
	must(t, err)
	taken, err := backup.Open(dir)
	must(t, err)
	o.Redis.URL = redistest.Started(t, kind).URL
	must(t, backup.Restore(t.Context(), o, taken))

	r.Store = testkit.Open(t, rediskv.Options{URL: o.Redis.URL, Clock: r.Clock.Now})
	r.raw = r.Redis
	r.keyed("k")
	if report := r.green(earlier, kept.Last.Note); report.Trees[0].Size != kept.Size || report.Trees[0].Unsealed != 0 {
		t.Errorf("restored: %+v", report.Trees)
	}
	r.write(3)
	r.seal()
	report := r.green(earlier, kept.Last.Note)
	if len(report.Trees) != 2 || report.Trees[0].Before != kept.HistoryID || report.Trees[0].Lost != 0 || !r.key().Equal(key) {
		t.Errorf("gone on: %+v", report.Trees)
	}
}
