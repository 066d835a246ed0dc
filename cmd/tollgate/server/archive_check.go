package server

import (
	"context"
	"fmt"

	"tollgate/cmd/tollgate/cli"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/archive/logs"
)

// archiveChecking is a run of 'tollgate archive check'.
type archiveChecking struct {
	a                   *cli.App
	from                archived
	heal, adopt, asJSON bool

	wrong   int
	failed  error // of printing
	checked archive.Checked
	logs    logs.Checked
	adopted archive.Adopted
}

// checkedJSON is the last line of --json.
type checkedJSON struct {
	archive.Checked
	Logs    *logs.Checked    `json:"logs,omitzero"`    // where logs have packs
	Adopted *archive.Adopted `json:"adopted,omitzero"` // with --adopt
}

func (r *archiveChecking) run(ctx context.Context, partitions int) error {
	for p := range partitions {
		if err := r.partition(ctx, p); err != nil {
			return awayError(err)
		}
		if r.failed != nil {
			return r.failed
		}
	}
	if err := r.end(); err != nil {
		return err
	}
	if r.wrong > 0 {
		return fmt.Errorf("%d files are missing or damaged, or cannot be taken back", r.wrong)
	}
	return nil
}

func (r *archiveChecking) partition(ctx context.Context, p int) error {
	if r.adopt {
		n, err := r.from.Adopt(ctx, p, r.found)
		r.adopted.Lines, r.adopted.Payments = r.adopted.Lines+n.Lines, r.adopted.Payments+n.Payments
		r.adopted.Removed, r.adopted.Kept, r.adopted.Unlisted = r.adopted.Removed+n.Removed, r.adopted.Kept+n.Kept, r.adopted.Unlisted+n.Unlisted
		if err != nil {
			return err
		}
	}
	c, err := r.from.Check(ctx, p, r.heal, r.found)
	all := &r.checked
	all.Lines, all.Packs, all.Payments, all.Bytes = all.Lines+c.Lines, all.Packs+c.Packs, all.Payments+c.Payments, all.Bytes+c.Bytes
	if err != nil {
		return err
	}
	return r.checkLogs(ctx, p)
}

func (r *archiveChecking) found(f archive.Finding) {
	if !f.Orphan && !f.Healed && !f.Note {
		r.wrong++
	}
	var err error
	if r.asJSON {
		err = printLine(r.a, f)
	} else {
		_, err = fmt.Fprintln(r.a.Stdout, findingText(f))
	}
	if r.failed == nil {
		r.failed = err
	}
}

// findingText is a finding for people.
func findingText(f archive.Finding) string {
	text := f.File
	if f.Payment != "" {
		text += ": " + cli.Printable(f.Payment)
	}
	text += ": " + cli.Printable(f.Message)
	if f.Copy {
		text = "copy: " + text
	}
	if f.Healed {
		text += "; it was written again"
	}
	return text
}

// end prints the counts.
func (r *archiveChecking) end() error {
	if r.asJSON {
		last := checkedJSON{Checked: r.checked}
		if r.logs.Lines > 0 {
			last.Logs = &r.logs
		}
		if r.adopt {
			last.Adopted = &r.adopted
		}
		return printLine(r.a, last)
	}
	if n := r.adopted; r.adopt {
		if _, err := fmt.Fprintf(r.a.Stdout, "took back %d lines with %d payments: removed %d from Redis, kept %d in Redis that are in another state, %d are not in the lists of Redis\n",
			n.Lines, n.Payments, n.Removed, n.Kept, n.Unlisted); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(r.a.Stdout, "checked %d lines, %d packs, %d payments, %d bytes\n", r.checked.Lines, r.checked.Packs, r.checked.Payments, r.checked.Bytes)
	if n := r.logs; err == nil && n.Lines > 0 {
		_, err = fmt.Fprintf(r.a.Stdout, "checked %d lines, %d packs, %d entries of logs, %d bytes\n", n.Lines, n.Packs, n.Entries, n.Bytes)
	}
	return err
}
