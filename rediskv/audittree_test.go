package rediskv_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/archive/logs"
	"tollgate/rediskv/audittree"
	"tollgate/rediskv/eventlog"
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
	{"forget_tile", "the record grows", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		at := directory(t)
		f.sealTile(t, at)
		ctx := f.withinHistory(t)
		return func(through *fixture) error {
			through.packing(t, logs.Options{}, at)
			_, err := through.ForgetLeaves(ctx, f.Caller.Organization)
			if whole := f.leavesOf(t, 0); errors.Is(err, rediskv.ErrConflict) || err == nil && whole {
				err = errors.Join(err, errors.New("the hashes are still there"))
			}
			return err
		}, func() { f.refuse(t, 1) }
	}},
}

// refuse adds entries to the audit record.
func (f *fixture) refuse(t *testing.T, count int) {
	t.Helper()
	for range count {
		must(t, f.Audit(t.Context(), f.Caller, tollgate.AuditEntry{Type: "payment.create", Outcome: "refused", Reason: "any", Target: tollgate.AuditTarget{Type: "payment", ID: "pay_1"}}))
	}
}

// sealTile seals as many entries as a tile has, and more, and puts them into packs.
func (f *fixture) sealTile(t *testing.T, at string) {
	t.Helper()
	f.refuse(t, 270)
	before, after := f.nextTree(t)
	found, err := f.Unsealed(t.Context(), f.Caller.Organization, audittree.Beginning, 270)
	must(t, err)
	var hashes [][]byte
	for _, m := range found {
		h := sha256.Sum256(append([]byte{0}, audittree.Text(m)...))
		hashes = append(hashes, h[:])
	}
	fold := hashes[:256]
	for len(fold) > 1 {
		var next [][]byte
		for pair := range slices.Chunk(fold, 2) {
			h := sha256.Sum256(slices.Concat([]byte{1}, pair[0], pair[1]))
			next = append(next, h[:])
		}
		fold = next
	}
	last := after.Last()
	last.Size, last.Last.Size, last.Until = 270, 270, found[269].ID
	must(t, f.SealAudit(f.withinHistory(t), f.Caller.Organization, before, after, []audittree.Tile{
		{Hashes: slices.Concat(hashes[:256]...)}, {Index: 1, Hashes: slices.Concat(hashes[256:]...)}, {Level: 1, Hashes: fold[0]},
	}))
	f.packing(t, logs.Options{}, at)
	f.NextMilli(t)
	k := f.Space(f.Caller.Organization)
	_, err = f.TrimAudits(t.Context(), k.Partition, tollgate.At(time.Now().Add(time.Hour)), []eventlog.Due{{Space: k, Until: audittree.PlaceTime(found[269].ID) + 1}})
	must(t, err)
}

// leavesOf reports whether Redis has the hashes of a tile of level 0.
func (f *fixture) leavesOf(t *testing.T, index int64) bool {
	t.Helper()
	trees, err := f.AuditTrees(t.Context(), f.Caller.Organization)
	must(t, err)
	raw, _ := f.raw(t)
	n, err := raw.StrLen(t.Context(), f.Space(f.Caller.Organization).AuditTile(trees.Last().HistoryID, 0, index)).Result()
	must(t, err)
	return n > 8192
}

func (f *fixture) withinHistory(t *testing.T) context.Context {
	t.Helper()
	r, err := f.HistoryFor(t.Context(), f.Caller.Organization)
	must(t, err)
	return history.Within(t.Context(), r.ID)
}

// An export of the audit record has what is in packs, in front of what is in Redis.
func TestExportOfPackedAudit(t *testing.T) {
	f := newFixture(t)
	f.refuse(t, 30)
	export := func() string {
		t.Helper()
		return f.file(t, f.export(t, tollgate.DatasetAudit, tollgate.FormatNDJSON, tollgate.ExportFilter{}))
	}
	before := export()
	f.NextMilli(t)
	until := f.redisNow(t)
	f.refuse(t, 3)
	f.packing(t, logs.Options{}, directory(t))
	k := f.Space(f.Caller.Organization)
	n, err := f.TrimAudits(t.Context(), k.Partition, tollgate.At(time.Now().Add(time.Hour)), []eventlog.Due{{Space: k, Until: until}})
	must(t, err)
	if file := export(); n < 30 || !strings.HasPrefix(file, before) || strings.Count(file, "\n") < 33 {
		t.Errorf("%d entries are in packs; of\n%s\nthe export has\n%s", n, before, file)
	}
}

// redisNow is the time by Redis' own clock.
func (f *fixture) redisNow(t testing.TB) tollgate.Instant {
	t.Helper()
	raw, _ := f.raw(t)
	now, err := raw.Time(t.Context()).Result()
	must(t, err)
	return tollgate.At(now)
}
