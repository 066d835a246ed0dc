package handlers_test

import (
	"errors"
	"fmt"
	"time"

	"tollgate"
	"tollgate/handlers/worker/export"
	"tollgate/rediskv"
	"tollgate/rediskv/exports"
)

// directExports carries out what a worker does with exports, in the directives
// of a conversation:
//
//	! exports       makes the files of those that wait
//	! take-exports  begins them, and is not heard of again
//	! fail-exports  gives them up
func (p *player) directExports(words []string) error {
	switch words[0] {
	case "exports":
		return p.exports()
	case "take-exports":
		return p.eachExport(func(*exports.ExportJob) error { return nil })
	case "fail-exports":
		return p.eachExport(func(j *exports.ExportJob) error {
			ch, err := tollgate.FailExport(p.store.NewID, p.store.Origin(rediskv.Caller{Organization: j.Organization}), j.Export,
				tollgate.ExportError{Code: tollgate.CodeInternal, Message: "It broke off too often."})
			if err != nil {
				return err
			}
			return p.store.EndJob(p.t.Context(), j, ch)
		})
	}
	return fmt.Errorf("there is no such directive")
}

// exports makes the files of all exports that wait, those that a worker was
// not heard of again with, too.
func (w *world) exports() error {
	return w.eachExport(func(j *exports.ExportJob) error {
		ctx := w.t.Context()
		chunk := export.AppendHeader(nil, &j.Export)
		for {
			rows, err := w.store.ExportRows(ctx, j)
			if err != nil {
				return err
			}
			for _, r := range rows {
				if r.Selected {
					if chunk, err = export.AppendRow(chunk, &j.Export, r.Row); err != nil {
						return err
					}
				}
				if err := j.Pass(r); err != nil {
					return err
				}
			}
			if err := w.store.AppendExport(ctx, j, chunk); err != nil {
				return err
			}
			if len(rows) == 0 {
				ch, err := tollgate.FinishExport(w.store.NewID, w.store.Origin(rediskv.Caller{Organization: j.Organization}), j.Export, j.File())
				if err != nil {
					return err
				}
				return w.store.EndJob(ctx, j, ch)
			}
			chunk = nil
		}
	})
}

func (w *world) eachExport(do func(*exports.ExportJob) error) error {
	taken := map[string]bool{}
	for partition := range w.store.Partitions() {
		for {
			j, err := w.store.NextExport(w.t.Context(), partition, "test", time.Millisecond, nil)
			if err != nil || j == nil || taken[j.ID] {
				if err != nil {
					return err
				}
				break
			}
			taken[j.ID] = true
			if err := do(j); err != nil && !errors.Is(err, exports.ErrExportLost) {
				return err
			}
		}
	}
	return nil
}
