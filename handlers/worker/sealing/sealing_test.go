package sealing_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/audit"
	"tollgate/handlers/tlog/auditor"
	"tollgate/handlers/worker/sealing"
	"tollgate/rediskv/testkit"
)

// Before an instance of the API has said what the issuer is, nothing is sealed, and
// nothing is removed. Then everything is, in one tree, and an auditor agrees.
func TestEverythingIsSealed(t *testing.T) {
	t.Parallel()
	r := newRecord(t)
	r.write(3)
	if n := r.seal(); n != 0 {
		t.Errorf("%d entries are sealed, and nobody knows the issuer", n)
	}
	if n, err := r.own.Trim(t.Context(), r.space().Partition, r.Now().Add(1000*24*time.Hour)); n != 0 || err != nil {
		t.Errorf("%d entries are removed, %v", n, err)
	}
	r.serve()
	first := r.seal()
	if first < 3 || r.seal() != 0 {
		t.Errorf("%d entries are sealed at first, and then more", first)
	}
	one := r.last().Last
	r.write(600)
	if report := r.green(); report.Trees[0].Checked != int64(first) || report.Trees[0].Unsealed != 600 {
		t.Errorf("before the next step: %+v", report.Trees)
	}
	if n := r.seal(); n != 600 {
		t.Errorf("%d entries are sealed", n)
	}
	report := r.green(one.Note)
	if report.Trees[0].Checked != int64(first+600) || report.Trees[0].Unsealed != 0 || len(report.Trees) != 1 {
		t.Errorf("%+v", report.Trees)
	}
}

// More than a step has, in a record that was there before: several steps, one tree.
func TestManyAreSealed(t *testing.T) {
	t.Parallel()
	r := newRecord(t)
	r.write(2100)
	r.serve()
	n := r.seal()
	if r.last().Last.Number != 2 {
		t.Errorf("%d checkpoints", r.last().Last.Number)
	}
	if report := r.green(); report.Trees[0].Checked != int64(n) {
		t.Errorf("%+v of %d", report.Trees, n)
	}
}

// Each entry has a proof, which an auditor accepts: with its own text, place, key and
// checkpoint alone.
func TestEachEntryHasAProof(t *testing.T) {
	t.Parallel()
	r := newRecord(t)
	r.serve()
	r.write(300)
	r.seal()
	rows, _, err := r.AuditLeaves(t.Context(), r.Caller, "", "", 1000)
	must(t, err)
	for _, row := range rows[:40] {
		p, err := audit.Prove(t.Context(), r.Store, r.Caller, idIn(*row.Entry))
		must(t, err)
		if p.Entry != *row.Entry || *p.Index != row.Index {
			t.Fatalf("leaf %d: %+v", row.Index, p)
		}
		if _, err := auditor.Inclusion(p.Entry, *p.Index, p.Hashes, *p.Note, r.key()); err != nil {
			t.Errorf("leaf %d: %v", row.Index, err)
		}
		for what, err := range map[string]error{
			"another text":  inclusion(auditor.Inclusion(p.Entry+" ", *p.Index, p.Hashes, *p.Note, r.key())),
			"another place": inclusion(auditor.Inclusion(p.Entry, *p.Index+1, p.Hashes, *p.Note, r.key())),
			"no known key":  inclusion(auditor.Inclusion(p.Entry, *p.Index, p.Hashes, *p.Note)),
			"no hashes":     inclusion(auditor.Inclusion(p.Entry, *p.Index, nil, *p.Note, r.key())),
		} {
			if err == nil {
				t.Errorf("leaf %d: %s is accepted", row.Index, what)
			}
		}
	}
	r.write(1)
	rows, _, err = r.AuditLeaves(t.Context(), r.Caller, "", "", 1000)
	must(t, err)
	p, err := audit.Prove(t.Context(), r.Store, r.Caller, idIn(*rows[len(rows)-1].Entry))
	if err != nil || p.Index != nil || p.Note != nil {
		t.Errorf("of one that is not sealed: %+v, %v", p, err)
	}
}

func inclusion(_ any, err error) error { return err }

// Two sealers at once make one tree, each entry in it once.
func TestTwoSealers(t *testing.T) {
	t.Parallel()
	r := newRecord(t)
	r.serve()
	other := r.sealer()
	for range 15 {
		r.write(20)
		var both sync.WaitGroup
		for _, s := range []*sealing.Sealer{r.own, other} {
			both.Go(func() {
				if _, err := s.Partition(t.Context(), r.space().Partition); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
	}
	report := r.green()
	if tree := r.last(); report.Trees[0].Checked != tree.Size || tree.Size < 300 {
		t.Errorf("%+v of %d", report.Trees, tree.Size)
	}
}

// What the retention removes keeps its hashes: the tree stays, a checkpoint says from
// where on entries are kept, and earlier ones still agree.
func TestRetentionLeavesTheTree(t *testing.T) {
	t.Parallel()
	r := newRecord(t)
	r.serve()
	r.write(20)
	for r.newest() == r.oldest() { // within one millisecond
		r.write(1)
	}
	keep := r.newest()
	r.write(20)
	r.seal()
	early := r.last().Last
	rows, _, err := r.AuditLeaves(t.Context(), r.Caller, "", "", 1000)
	must(t, err)
	p := r.space().Partition
	removed, err := r.own.Trim(t.Context(), p, keep)
	must(t, err)
	tree := r.last()
	if removed == 0 || tree.KeptFrom != removed || tree.Size != early.Size || tree.Last.Number != early.Number+1 {
		t.Errorf("%d are removed: %+v", removed, tree)
	}
	if report := r.green(early.Note); report.Trees[0].Checked != tree.Size-removed {
		t.Errorf("%+v", report.Trees)
	}
	r.write(10)
	r.seal()
	r.green(early.Note)
	if n, err := r.own.Trim(t.Context(), p, keep); n != 0 || err != nil {
		t.Errorf("again: %d, %v", n, err)
	}
	if _, err := audit.Prove(t.Context(), r.Store, r.Caller, idIn(*rows[0].Entry)); testkit.Code(err) != string(tollgate.CodeNotFound) {
		t.Errorf("of an entry that is gone: %v", err)
	}
}

func idIn(text string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(text, `{"id":"`), `"`)
	return id
}
