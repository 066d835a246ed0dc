package rediskv_test

import (
	"context"
	"errors"
	"testing"

	"tollgate/rediskv"
	"tollgate/rediskv/audittree"
	"tollgate/rediskv/history"
)

// sealAudit seals the next entry of the audit record, whatever its hash.
func (f *fixture) sealAudit(t *testing.T) (before audittree.Trees) {
	t.Helper()
	before, after := f.nextTree(t)
	must(t, f.SealAudit(f.withinHistory(t), f.Caller.Organization, before, after, []audittree.Tile{{Hashes: make([]byte, 32*after.Last().Size)}}))
	return before
}

func (f *fixture) nextTree(t *testing.T) (before, after audittree.Trees) {
	t.Helper()
	org := f.Caller.Organization
	before, err := f.AuditTrees(t.Context(), org)
	must(t, err)
	found, err := f.Unsealed(t.Context(), org, before.Until(), 1)
	must(t, err)
	r, err := f.HistoryFor(t.Context(), org)
	must(t, err)
	after = before.Clone()
	if after.Last() == nil {
		after.List = append(after.List, audittree.Tree{HistoryID: r.ID, Origin: "pay.example", After: audittree.Beginning, First: 1})
	}
	last := after.Last()
	last.Size++
	last.Until = found[0].ID
	last.Last = audittree.Checkpoint{Object: "audit_checkpoint", HistoryID: r.ID, Number: last.Size, Size: last.Size, Note: "note", CreatedAt: f.Now()}
	return before, after
}

// Of two who seal what they have both read, one is first; the other's work is not
// written, nor is that of one who knows another history.
func TestAuditIsSealedByOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	org := f.Caller.Organization
	stale := f.sealAudit(t)
	_, after := f.nextTree(t)
	if err := f.SealAudit(f.withinHistory(t), org, stale, after, nil); !errors.Is(err, rediskv.ErrConflict) {
		t.Errorf("over another's: %v", err)
	}
	before, after := f.nextTree(t)
	if err := f.SealAudit(history.Within(t.Context(), "his_other"), org, before, after, nil); code(err) != "history_changed" {
		t.Errorf("within another history: %v", err)
	}
	if is, err := f.AuditTrees(t.Context(), org); err != nil || is.Last().Size != 1 {
		t.Errorf("%+v, %v", is, err)
	}
}

var auditResends = []resend{
	{"seal_audit", "an entry, and another sealer goes on", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		before, after := f.nextTree(t)
		ctx := f.withinHistory(t)
		return func(through *fixture) error {
			err := through.SealAudit(ctx, f.Caller.Organization, before, after, nil)
			if errors.Is(err, rediskv.ErrConflict) { // the sealer looks again, and finds its own work below
				is, failed := f.AuditTrees(t.Context(), f.Caller.Organization)
				if failed == nil && is.Last().Size >= after.Last().Size {
					return nil
				}
			}
			return err
		}, func() { f.sealAudit(t) }
	}},
}

func (f *fixture) withinHistory(t *testing.T) context.Context {
	t.Helper()
	r, err := f.HistoryFor(t.Context(), f.Caller.Organization)
	must(t, err)
	return history.Within(t.Context(), r.ID)
}
