package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"tollgate/handlers/tlog/auditor"
)

// sealed is a checkpoint of the audit record that a worker has logged. Whoever keeps the
// log can hold the service to it.
type sealed struct {
	note string
	at   time.Time
}

// witness keeps the checkpoint in a line of a log.
func (x *world) witness(r slog.Record) {
	if r.Message != "audit checkpoint" {
		return
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "checkpoint" {
			x.judge.mu.Lock()
			defer x.judge.mu.Unlock()
			x.judge.sealed = append(x.judge.sealed, sealed{a.Value.String(), x.wire.now()})
		}
		return true
	})
}

// late is how long ago it may have been that Redis took a checkpoint which is logged now:
// its worker may have been frozen.
const late = 2 * time.Minute

// kept are the checkpoints that must be in the record: those that Redis cannot have lost.
func (x *world) kept() (notes []string) {
	x.judge.mu.Lock()
	all := x.judge.sealed
	x.judge.mu.Unlock()
	for _, s := range all {
		o := &outcome{known: true, sent: s.at.Add(-late), acked: s.at}
		if x.excuse(o); !o.excused {
			notes = append(notes, s.note)
		}
	}
	return notes
}

// judgeAudit has an auditor verify the record: each entry is sealed once, where it stands, by
// a minute later, and every checkpoint is the beginning of what is there.
func (x *world) judgeAudit() {
	before, err := x.verify()
	if err == nil && before.Trees[0].Unsealed > 0 {
		pause(x.ctx, time.Minute)
		now := before.Trees[0]
		if before, err = x.verify(); err == nil && before.Trees[0].HistoryID == now.HistoryID && before.Trees[0].Checked < now.Checked+now.Unsealed {
			x.judge.wrong("%d entries were sealed and %d were not, and a minute later %d are", now.Checked, now.Unsealed, before.Trees[0].Checked)
		}
	}
	if err != nil {
		x.judge.wrong("the audit record: %v", err)
	}
}

func (x *world) verify() (r auditor.Report, err error) {
	for range 5 {
		r, err = auditor.Verify(x.ctx, x.record(), auditor.Options{Earlier: x.kept()})
		if !errors.Is(err, errChanged) { // else it begins anew
			break
		}
	}
	for _, f := range r.Findings {
		x.judge.wrong("the audit record: %s", f)
	}
	if err == nil && len(r.Trees) == 0 {
		err = errors.New("nothing is sealed")
	}
	return r, err
}

// record reads the audit record for an auditor.
func (x *world) record() auditor.Source {
	c := &client{world: x, name: "auditor"}
	checkpoints := func(history string, most int) (all []auditor.Signed, err error) {
		err = c.rows("/v1/audit/checkpoints", history, func(row json.RawMessage) (bool, error) {
			var one auditor.Signed
			err := json.Unmarshal(row, &one)
			all = append(all, one)
			return len(all) != most, err
		})
		return all, err
	}
	return auditor.Source{
		Latest: func(_ context.Context, history string) (*auditor.Signed, error) {
			all, err := checkpoints(history, 1)
			if err != nil || len(all) == 0 {
				return nil, err
			}
			return &all[0], nil
		},
		Checkpoints: func(context.Context) ([]auditor.Signed, error) { return checkpoints("", -1) },
		Rows: func(_ context.Context, history string, each func(int64, *string, *string) error) error {
			return c.rows("/v1/audit/leaves", history, func(row json.RawMessage) (bool, error) {
				var leaf struct {
					Index int64   `json:"index"`
					Hash  *string `json:"hash"`
					Entry *string `json:"entry"`
				}
				if err := json.Unmarshal(row, &leaf); err != nil {
					return false, err
				}
				return true, each(leaf.Index, leaf.Hash, leaf.Entry)
			})
		},
	}
}

// rows hands over the rows of a list of the audit record, for as long as more are wanted.
func (c *client) rows(path, history string, each func(json.RawMessage) (more bool, err error)) error {
	query := url.Values{"limit": {"100"}}
	if history != "" {
		query.Set("history_id", history)
	}
	for {
		said, known := c.send("GET", path+"?"+query.Encode(), "", "")
		if historyCode(said) != "" {
			return errChanged
		}
		var page struct {
			Data []json.RawMessage `json:"data"`
			Next string            `json:"next_cursor"`
		}
		if !known || said.status != http.StatusOK || json.Unmarshal(said.body, &page) != nil {
			return fmt.Errorf("%s: %d %s", path, said.status, said.body)
		}
		for _, row := range page.Data {
			if more, err := each(row); err != nil || !more {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		query.Set("cursor", page.Next)
	}
}
