package server

import (
	"context"
	"fmt"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/archive/logs"
	"tollgate/rediskv/store"
)

// logPackJSON is a line of status --json.
type logPackJSON struct {
	Object        string           `json:"object"` // log_pack
	Partition     int              `json:"partition"`
	Line          int64            `json:"line"`
	Log           string           `json:"log"`
	Pack          string           `json:"pack"`
	Organizations int              `json:"organizations"`
	Entries       int64            `json:"entries"`
	Bytes         int64            `json:"bytes"`
	From          tollgate.Instant `json:"from"`
	Until         tollgate.Instant `json:"until"`
	SealedAt      tollgate.Instant `json:"sealed_at"`
}

// logStatus says what is in packs of logs, in a line for people; empty for nothing.
func logStatus(ctx context.Context, a *cli.App, s *store.Store, from archived, asJSON bool) (text string, err error) {
	var packs, entries, bytes int64
	var first, until tollgate.Instant
	for p := range s.Partitions() {
		lines, err := from.logs.Manifest(ctx, p)
		if err != nil {
			return "", awayError(err)
		}
		for _, l := range lines {
			packs, entries, bytes = packs+1, entries+l.Pack.Rows, bytes+l.Pack.Size
			if until = max(until, l.Until()); first == 0 || l.From() < first {
				first = l.From()
			}
			if asJSON {
				if err := printLine(a, logPackJSON{"log_pack", p, l.Number, l.Log, l.Pack.SHA256, len(l.Ranges), l.Pack.Rows, l.Pack.Size, l.From(), l.Until(), l.SealedAt}); err != nil {
					return "", err
				}
			}
		}
	}
	if packs == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d events in %d packs, %d bytes (%d an event), from %s until %s\n", entries, packs, bytes, bytes/max(entries, 1), first, until), nil
}

// checkLogs checks the packs of the logs of a partition.
func (r *archiveChecking) checkLogs(ctx context.Context, p int) error {
	c, err := r.from.logs.Check(ctx, p, r.heal, func(f logs.Finding) {
		r.found(archive.Finding{Partition: p, Line: f.Line, Copy: f.Copy, File: f.File, Message: f.Message, Orphan: f.Orphan, Healed: f.Healed})
	})
	all := &r.logs
	all.Lines, all.Packs, all.Entries, all.Bytes = all.Lines+c.Lines, all.Packs+c.Packs, all.Entries+c.Entries, all.Bytes+c.Bytes
	return err
}
