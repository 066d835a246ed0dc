package worker

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"tollgate"
	"tollgate/handlers/worker/loop"
	"tollgate/rediskv"
	"tollgate/rediskv/health"
)

const (
	trimInterval = time.Hour
	// cutInterval is for how long a log grows in one key that has been short: with a
	// hundred events a second, to some 5 MB. cutPause is for one that grows: to some 200 KB more.
	cutInterval = 30 * time.Second
	cutPause    = time.Second
	// DefaultKeepAudit is how long entries of the audit record are kept: more than
	// the year that auditors ask for.
	DefaultKeepAudit = 400 * 24 * time.Hour
	// DefaultArchiveAfter is how long payments have been at an end before they are moved to
	// the archive.
	DefaultArchiveAfter = 90 * 24 * time.Hour
	archiveInterval     = 10 * time.Minute

	consumerIdle = time.Hour // a worker that lives reads every second
	keysInterval = 20 * time.Second
	rotating     = 2 * time.Second
)

// runJobs carries the recoveries and the clearing away of deleted endpoints of
// one partition on, until nothing is left to do.
func (w *Worker) runJobs(ctx context.Context, p int) (touched int, err error) {
	var failed error
	for ctx.Err() == nil {
		n, err := w.Store.RunJobs(ctx, p)
		touched += n
		if n > 0 {
			w.dispatch.Wake(p)
		}
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("jobs of partition %d: %w", p, err))
		}
		if n == 0 || (err != nil && !rediskv.IsDamage(err)) {
			break
		}
		w.jobs.Yield()
	}
	return touched, cmp.Or(failed, ctx.Err())
}

// trimEvents removes the events of one partition that are old enough and
// delivered, the entries of audit records that are old enough and sealed, and what
// workers left behind that are no more.
func (w *Worker) trimEvents(ctx context.Context, p int) (int, error) {
	removed, err := w.Store.TrimEvents(ctx, p, tollgate.At(w.Wall().Add(-w.KeepEvents)))
	if err != nil {
		return int(removed), fmt.Errorf("trim events of partition %d: %w", p, err)
	}
	entries, err := w.sealer.Trim(ctx, p, tollgate.At(w.Wall().Add(-w.KeepAudit)))
	removed += entries
	if err != nil {
		return int(removed), fmt.Errorf("trim the audit record of partition %d: %w", p, err)
	}
	if err := w.Store.ForgetConsumers(ctx, p, consumerIdle); err != nil {
		return int(removed), fmt.Errorf("consumers of partition %d: %w", p, err)
	}
	return int(removed), nil
}

// keepKeys has the keys that sign access tokens made and removed in time. While the
// clock may be wrong nothing is done: a key would sign before everybody has it.
func (w *Worker) keepKeys(ctx context.Context) {
	defer func() {
		leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = w.Store.ForgetSecrets(leave, w.consumer) // else it is forgotten by itself
	}()
	said := ""
	for wait := time.Duration(0); ctx.Err() == nil; loop.Wait(ctx, wait, nil) {
		if wait = w.Interval; w.Store.CheckClock(health.ClockTolerance) != nil {
			continue // the loops say it
		}
		text := ""
		err := w.keyring.Attend(ctx, w.consumer)
		if err == nil {
			err = w.keyring.Maintain(ctx)
		}
		if err == nil {
			wait = keysInterval
			if len(w.Vault.IDs()) > 1 { // who rotates the secret key waits for this
				wait = max(w.Interval, rotating)
			}
		} else if !rediskv.Away(err) && ctx.Err() == nil {
			text = err.Error()
		}
		if text != "" && text != said {
			w.Log.Error("signing keys cannot be kept", "error", text)
		}
		said = text
	}
}

// cutLogs moves what is older in the logs of one partition into segments.
func (w *Worker) cutLogs(ctx context.Context, p int) (int, error) {
	n, err := w.Store.CutLogs(ctx, p)
	if err != nil {
		return n, fmt.Errorf("segments of logs of partition %d: %w", p, err)
	}
	return n, nil
}

// postTransactions has what is new in one partition found by searches without looking
// through it.
func (w *Worker) postTransactions(ctx context.Context, p int) (int, error) {
	n, err := w.Store.PostTransactions(ctx, p)
	if err != nil {
		return n, fmt.Errorf("partition %d: %w", p, err)
	}
	return n, nil
}

// sealAudit seals what is new in the audit records of one partition.
func (w *Worker) sealAudit(ctx context.Context, p int) (int, error) {
	n, err := w.sealer.Partition(ctx, p)
	if err != nil {
		return n, fmt.Errorf("sealing in partition %d: %w", p, err)
	}
	return n, nil
}

// archivePayments moves payments of one partition to the archive, and what searches find them by.
func (w *Worker) archivePayments(ctx context.Context, p int) (int, error) {
	n, err := w.Archive.Archive(ctx, p, w.ArchiveAfter)
	if err == nil {
		err = w.Store.CoolPostings(ctx, p, w.Store.Now().Add(-w.ArchiveAfter))
	}
	if err != nil {
		return n, fmt.Errorf("archiving in partition %d: %w", p, err)
	}
	return n, nil
}
