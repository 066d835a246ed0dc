package server

import (
	"context"
	"fmt"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/archive/logs"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/postings"
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

// logStatus says what is in packs of logs, in a line for each log; empty for nothing.
func logStatus(ctx context.Context, a *cli.App, s *store.Store, from archived, asJSON bool) (text string, err error) {
	type total struct {
		packs, entries, bytes int64
		from, until           tollgate.Instant
	}
	var events, audit, finds total
	for p := range s.Partitions() {
		lines, err := from.logs.Manifest(ctx, p)
		if err != nil {
			return "", awayError(err)
		}
		for _, l := range lines {
			t := &events
			switch l.Log {
			case eventlog.LogAudit:
				t = &audit
			case postings.LogPostings:
				t = &finds
			}
			t.packs, t.entries, t.bytes = t.packs+1, t.entries+l.Pack.Rows, t.bytes+l.Pack.Size
			if t.until = max(t.until, l.Until()); t.from == 0 || l.From() < t.from {
				t.from = l.From()
			}
			if asJSON {
				if err := printLine(a, logPackJSON{"log_pack", p, l.Number, l.Log, l.Pack.SHA256, len(l.Ranges), l.Pack.Rows, l.Pack.Size, l.From(), l.Until(), l.SealedAt}); err != nil {
					return "", err
				}
			}
		}
	}
	for _, one := range []struct {
		total
		all, each string
	}{{events, "events", "an event"}, {audit, "audit entries", "an entry"}, {finds, "rows of posting lists", "a row"}} {
		if one.packs > 0 {
			text += fmt.Sprintf("%d %s in %d packs, %d bytes (%d %s), from %s until %s\n", one.entries, one.all, one.packs, one.bytes, one.bytes/max(one.entries, 1), one.each, one.from, one.until)
		}
	}
	return text, nil
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
