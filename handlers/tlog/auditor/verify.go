package auditor

import (
	"context"
	"crypto/ed25519"
	"errors"
	"slices"
	"strconv"
	"strings"

	"tollgate"
	"tollgate/handlers/tlog/checkpoint"
)

// Signed is a checkpoint as the service lists it.
type Signed struct {
	HistoryID string `json:"history_id"`
	Number    int64  `json:"number"`
	Key       string `json:"key"`
	Note      string `json:"note"`
}

// Source reads an audit record, from the API as a rule.
type Source struct {
	// Latest is the last checkpoint of a history's tree, of "" the current one; nil
	// where there is none.
	Latest func(ctx context.Context, history string) (*Signed, error)
	// Checkpoints are those that are kept, the newest first.
	Checkpoints func(ctx context.Context) ([]Signed, error)
	// Rows hands over the rows of a tree, from leaf 0 on.
	Rows func(ctx context.Context, history string, each func(index int64, hash, entry *string) error) error
}

// Options are what the auditor knows already.
type Options struct {
	Keys    []ed25519.PublicKey // that may sign; none: those that the service names
	Earlier []string            // checkpoints of before, as signed notes
}

// TreeReport is what was found of one tree.
type TreeReport struct {
	HistoryID string           `json:"history_id"`
	Origin    string           `json:"origin"`
	Size      int64            `json:"size"`
	KeptFrom  int64            `json:"kept_from"`
	Checked   int64            `json:"checked"`  // entries that are what was sealed
	Unsealed  int64            `json:"unsealed"` // not yet
	SealedAt  tollgate.Instant `json:"sealed_at"`
	Key       string           `json:"key"`
	Note      string           `json:"note"`
	Before    string           `json:"before"` // history of the tree before, which this one goes on from
	Lost      int64            `json:"lost"`   // leaves of that one which were lost with its history
}

// Report is what was found, the current tree first.
type Report struct {
	Trees    []TreeReport `json:"trees"`
	Findings []Finding    `json:"findings"`
}

// verifier is one run.
type verifier struct {
	Source
	keys    []ed25519.PublicKey
	pinned  bool // the auditor has named the keys
	earlier []checkpoint.Checkpoint
	listed  []Signed
	report  Report
}

// Verify reads all of an audit record and says what is not as it was sealed. Its error is
// one of reading.
func Verify(ctx context.Context, from Source, o Options) (Report, error) {
	v := verifier{Source: from, keys: o.Keys, pinned: len(o.Keys) > 0, report: Report{Trees: []TreeReport{}, Findings: []Finding{}}}
	latest, err := v.Latest(ctx, "")
	if err == nil {
		v.listed, err = v.Checkpoints(ctx) // behind the latest, so that it is among them
	}
	if err != nil {
		return v.report, err
	}
	for i := range v.listed {
		v.trust(&v.listed[i])
	}
	v.trust(latest)
	v.read(o.Earlier)
	v.numbers(latest)
	for history := ""; latest != nil; {
		var seam string
		if seam, err = v.tree(ctx, history, latest); err != nil || seam == "" {
			break
		}
		if history, latest, err = v.seam(ctx, seam); err != nil {
			break
		}
	}
	v.absent()
	return v.report, err
}

// trust takes the key that the service names with a checkpoint, unless the auditor has
// named those that may sign.
func (v *verifier) trust(one *Signed) {
	if v.pinned || one == nil {
		return
	}
	if k, err := checkpoint.PublicKey(one.Key); err == nil && !slices.ContainsFunc(v.keys, func(known ed25519.PublicKey) bool { return known.Equal(k) }) {
		v.keys = append(v.keys, k)
	}
}

func (v *verifier) find(kind Kind, message string) {
	v.report.Findings = append(v.report.Findings, Finding{Kind: kind, Index: -1, Message: message})
}

// open reads a note; what is wrong with it is a finding.
func (v *verifier) open(name, note string) (checkpoint.Checkpoint, bool) {
	c, err := checkpoint.Open(note, v.keys...)
	switch {
	case errors.Is(err, checkpoint.ErrSignature):
		v.find(Signature, name+" is signed by none of the known keys")
	case err != nil:
		v.find(Unreadable, name+" cannot be read: "+err.Error())
	}
	return c, err == nil
}

// read opens the checkpoints of before.
func (v *verifier) read(notes []string) {
	for _, note := range notes {
		if c, ok := v.open("the earlier checkpoint", note); ok {
			v.earlier = append(v.earlier, c)
		}
	}
}

// numbers looks whether checkpoints are missing among those that are listed.
func (v *verifier) numbers(latest *Signed) {
	if latest == nil {
		return
	}
	if !slices.ContainsFunc(v.listed, func(s Signed) bool { return s.HistoryID == latest.HistoryID && s.Number == latest.Number }) {
		v.find(Checkpoint, "the last checkpoint is not in the list of checkpoints")
	}
	for i, s := range v.listed[:max(0, len(v.listed)-1)] {
		if next := v.listed[i+1]; next.HistoryID == s.HistoryID && next.Number != s.Number-1 {
			v.find(Checkpoint, "behind checkpoint number "+text(next.Number)+" of "+s.HistoryID+" comes number "+text(s.Number)+": others are missing")
		}
	}
}

// tree judges one tree. What is sealed or removed meanwhile is no fault: where a newer
// checkpoint is there at the end, it is judged again.
func (v *verifier) tree(ctx context.Context, history string, latest *Signed) (seam string, err error) {
	before := len(v.report.Findings)
	for {
		v.report.Findings = v.report.Findings[:before]
		var r TreeReport
		if r, seam, err = v.judge(ctx, history, latest); err != nil {
			return "", err
		}
		again := latest
		if len(v.report.Findings) > before {
			if again, err = v.Latest(ctx, latest.HistoryID); err != nil {
				return "", err
			}
		}
		if again == nil || again.Note == latest.Note {
			v.report.Trees = append(v.report.Trees, r)
			return seam, nil
		}
		latest = again
	}
}

func (v *verifier) judge(ctx context.Context, history string, latest *Signed) (r TreeReport, seam string, err error) {
	c, ok := v.open("the last checkpoint of "+latest.HistoryID, latest.Note)
	if !ok && c.Origin == "" {
		return r, "", nil
	}
	compared := v.compared(latest.HistoryID)
	sizes := make([]int64, len(compared))
	for i, one := range compared {
		sizes[i] = one.Size
	}
	t := New(c, sizes...)
	if err := v.Rows(ctx, latest.HistoryID, t.Row); err != nil {
		return r, "", err
	}
	for _, one := range compared {
		t.Earlier(one.name, one.Checkpoint)
	}
	v.report.Findings = append(v.report.Findings, t.End()...)
	return TreeReport{
		HistoryID: latest.HistoryID, Origin: c.Origin, Size: c.Size, KeptFrom: c.KeptFrom, Checked: t.Checked, Unsealed: t.Unsealed,
		SealedAt: c.SealedAt, Key: latest.Key, Note: latest.Note,
	}, t.Seam(), nil
}

// named is a checkpoint to compare a tree with.
type named struct {
	name string
	checkpoint.Checkpoint
}

// compared are the checkpoints of a tree that are listed, and those of before.
func (v *verifier) compared(history string) (list []named) {
	for _, s := range v.listed {
		if s.HistoryID != history {
			continue
		}
		name := "checkpoint number " + text(s.Number)
		if c, ok := v.open(name, s.Note); ok {
			if historyOf(c.Origin) != history {
				v.find(Checkpoint, name+" is one of another tree, "+c.Origin)
				continue
			}
			list = append(list, named{name, c})
		}
	}
	for _, c := range v.earlier {
		if historyOf(c.Origin) == history {
			list = append(list, named{"the earlier checkpoint", c})
		}
	}
	return list
}

// seam goes over to the tree before. That history was lost, and what of it is gone was
// accepted then: it is shown, and no finding.
func (v *verifier) seam(ctx context.Context, note string) (history string, latest *Signed, err error) {
	c, err := checkpoint.Parse(note) // the tree whose leaf it is was signed
	if err != nil {
		v.find(Unreadable, "the first leaf, the last checkpoint of the history before, cannot be read: "+err.Error())
		return "", nil, nil
	}
	history = historyOf(c.Origin)
	current := &v.report.Trees[len(v.report.Trees)-1]
	current.Before = history
	if slices.ContainsFunc(v.report.Trees, func(r TreeReport) bool { return r.HistoryID == history }) {
		v.find(Fork, "the trees go on from one another in a circle")
		return "", nil, nil
	}
	if latest, err = v.Latest(ctx, history); err != nil || latest == nil {
		if err == nil {
			v.find(Missing, "the tree of "+history+", which the current one goes on from, is not there")
		}
		return "", nil, err
	}
	v.trust(latest)
	if has, err := checkpoint.Parse(latest.Note); err == nil && has.Size < c.Size {
		current.Lost = c.Size - has.Size
	} else {
		v.earlier = append(v.earlier, c)
	}
	return history, latest, nil
}

// absent names checkpoints whose tree is not there.
func (v *verifier) absent() {
	for _, s := range v.listed {
		if !slices.ContainsFunc(v.report.Trees, func(r TreeReport) bool { return r.HistoryID == s.HistoryID }) {
			v.find(Checkpoint, "checkpoint number "+text(s.Number)+" of "+s.HistoryID+" is one of a tree that is not there")
		}
	}
	for _, c := range v.earlier {
		if !slices.ContainsFunc(v.report.Trees, func(r TreeReport) bool { return r.Origin == c.Origin }) {
			v.find(Rollback, "the earlier checkpoint is one of "+c.Origin+", which is not there")
		}
	}
}

// Before is the history that a tree goes on from, by the text of its leaf 0; "" where that
// is an entry.
func Before(text string) string {
	c, err := checkpoint.Parse(text)
	if isEntry(text) || err != nil {
		return ""
	}
	return historyOf(c.Origin)
}

// historyOf is the history that an origin ends in.
func historyOf(origin string) string { return origin[strings.LastIndexByte(origin, '/')+1:] }

func text(n int64) string { return strconv.FormatInt(n, 10) }
