package sealing

import (
	"context"
	"errors"
	"fmt"

	"tollgate"
	"tollgate/handlers/audit"
	"tollgate/handlers/tlog"
	"tollgate/rediskv"
	"tollgate/rediskv/audittree"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/history"
)

// Trim removes entries of a partition's audit records that are older than keep, and
// sealed. A checkpoint says first from which leaf on entries are kept, so that those
// which the retention removes are told from others that are missing. Where there is an
// archive, it has them, and the checkpoint says nothing: none is missing.
func (s *Sealer) Trim(ctx context.Context, partition int, keep tollgate.Instant) (removed int64, err error) {
	orgs, err := s.Store.OrganizationsIn(ctx, partition)
	if err != nil {
		return 0, err
	}
	packed, err := s.Store.PacksLogs(ctx, partition)
	if err != nil {
		return 0, err
	}
	if packed {
		return s.archive(ctx, partition, keep, orgs)
	}
	for _, org := range orgs {
		n, failed := s.trim(ctx, org, keep)
		removed += n
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("the audit record of %s: %w", org, failed))
		}
	}
	return removed, err
}

// archive has what is due put into packs, and then removed, together with the hashes of its
// leaves, which can be made again.
func (s *Sealer) archive(ctx context.Context, partition int, keep tollgate.Instant, orgs []string) (removed int64, err error) {
	var due []eventlog.Due
	for _, org := range orgs {
		trees, failed := s.Store.AuditTrees(ctx, org)
		if failed == nil && trees.Last() != nil {
			due = append(due, eventlog.Due{Space: s.Store.Space(org), Until: sealedUntil(keep, trees)})
		}
		err = errors.Join(err, failed)
	}
	removed, failed := s.Store.TrimAudits(ctx, partition, keep, due)
	err = errors.Join(err, failed)
	for _, d := range due {
		now, failed := s.Store.HistoryFor(ctx, d.Space.Org)
		if failed == nil {
			_, failed = s.Store.ForgetLeaves(history.Within(ctx, now.ID), d.Space.Org)
		}
		if failed != nil && !errors.Is(failed, rediskv.ErrConflict) { // another worker was faster
			err = errors.Join(err, fmt.Errorf("the audit record of %s: %w", d.Space.Org, failed))
		}
	}
	return removed, err
}

// sealedUntil is before which moment entries may go that are older than keep: the last one that
// is sealed stays.
func sealedUntil(keep tollgate.Instant, trees audittree.Trees) tollgate.Instant {
	return min(keep, audittree.PlaceTime(trees.Until()))
}

func (s *Sealer) trim(ctx context.Context, org string, keep tollgate.Instant) (removed int64, err error) {
	before, err := s.Store.AuditTrees(ctx, org)
	if err != nil || before.Last() == nil {
		return 0, err
	}
	keep = sealedUntil(keep, before)
	stale, err := s.Store.OlderAudit(ctx, org, keep)
	if err != nil || !stale {
		return 0, err
	}
	by, ok, err := s.signer(ctx)
	if err != nil || !ok {
		return 0, err
	}
	if err := s.keepFrom(ctx, org, before, keep, by); err != nil {
		return 0, err
	}
	return s.Store.TrimAudit(ctx, org, keep)
}

// keepFrom says in a checkpoint of each tree from which leaf on its entries are kept.
func (s *Sealer) keepFrom(ctx context.Context, org string, before audittree.Trees, keep tollgate.Instant, by signer) error {
	now, err := s.Store.HistoryFor(ctx, org)
	if err == nil && now.ID != before.Last().HistoryID {
		err = errors.New("its history is another one; what it has is sealed first")
	}
	if err != nil {
		return err
	}
	kept, err := s.Store.FirstAudit(ctx, org, keep)
	if err != nil {
		return err
	}
	after := before.Clone()
	changed := false
	for i := range after.List {
		t := &after.List[i]
		tree := audit.Stored(ctx, s.Store, org, t)
		from := t.Size
		if t.Holds(kept) {
			if from, err = tree.IndexOf(tlog.LeafHash(audittree.Text(kept)), t.Likely(numberOf(kept))); err == nil && from < 0 {
				err = errors.New("its oldest entry that is to be kept was never sealed, so nothing is removed")
			}
			if err != nil {
				return err
			}
		} else if !t.Precedes(kept) {
			continue
		}
		if from <= t.KeptFrom {
			continue
		}
		t.KeptFrom, changed = from, true
		if i < len(after.List)-1 { // the current one is signed when it is sealed
			if err := s.sign(t, tree, by); err != nil {
				return err
			}
		}
	}
	if !changed {
		return nil
	}
	return s.seal(history.Within(ctx, now.ID), org, before, after, audit.Stored(ctx, s.Store, org, after.Last()), by)
}
