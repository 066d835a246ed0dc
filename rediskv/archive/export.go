package archive

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/packs"
)

// ExportQuery says which payments are exported.
type ExportQuery struct {
	Organization string           // empty: all
	From, Until  tollgate.Instant // when they were made: from one moment on, and before another; 0: whenever
}

// Exported counts what was exported.
type Exported struct {
	Payments   int64
	InRedis    int64 // they were left out
	Unreadable int64 // parts of packs that cannot be read, or whole ones
	Unsure     int64 // rows that were left out, as a newer one may be among what cannot be read
}

// Export gives the newest row of each payment in the archive that Redis does not have, in
// the order of partitions and identifiers. It has a window of each pack in memory whose
// identifiers overlap. found is told of what cannot be read; the rest goes on.
func (s *Store) Export(ctx context.Context, q ExportQuery, row func([]byte) error, found func(Finding)) (n Exported, err error) {
	for p := range s.db.Partitions() {
		if q.Organization != "" && p != s.db.Partition(q.Organization) {
			continue
		}
		m, err := s.manifest(ctx, p, true)
		if err != nil {
			return n, err
		}
		e := &exporting{Store: s, m: m, q: q, row: row, found: found, n: &n, waiting: slices.Clone(m.force)}
		slices.SortFunc(e.waiting, func(a, b *Line) int { return strings.Compare(a.Payments.First, b.Payments.First) })
		if err := e.run(ctx); err != nil {
			return n, err
		}
	}
	return n, nil
}

// exporting is the export of a partition: its packs are merged by the identifiers of rows.
type exporting struct {
	*Store
	m     *manifest
	q     ExportQuery
	row   func([]byte) error
	found func(Finding)
	n     *Exported

	waiting []*Line // that are not open yet, by their first identifier
	open    cursors
	gaps    []gap
	page    []rowOf // that Redis is asked for next
}

// gap is what of a line cannot be read.
type gap struct {
	*Line
	first, last string
}

func (e *exporting) run(ctx context.Context) error {
	defer func() {
		for _, c := range e.open {
			c.close()
		}
	}()
	for {
		for len(e.waiting) > 0 && (len(e.open) == 0 || e.waiting[0].Payments.First <= e.open[0].id()) {
			l := e.waiting[0]
			e.waiting = e.waiting[1:]
			if err := e.begin(ctx, l); err != nil {
				return err
			}
		}
		if len(e.open) == 0 {
			return e.flush(ctx)
		}
		l, newest := e.open[0].l, e.open[0].rows[0]
		for len(e.open) > 0 && e.open[0].id() == newest.id {
			if err := e.step(ctx); err != nil {
				return err
			}
		}
		if err := e.take(ctx, l, newest); err != nil {
			return err
		}
	}
}

// begin opens a line's pack, unless it has nothing that is asked for.
func (e *exporting) begin(ctx context.Context, l *Line) error {
	if e.early(l.Payments.Last) || e.late(l.Payments.First) {
		return nil
	}
	c := &cursor{walked: e.walk(l)}
	var err error
	if c.frames, err = c.walked.frames(ctx); err != nil {
		c.close()
		return e.unreadable(ctx, l, l.Payments.First, l.Payments.Last, err)
	}
	there, err := e.fill(ctx, c)
	if err != nil || !there {
		c.close()
		return err
	}
	heap.Push(&e.open, c)
	return nil
}

// early and late say that a payment was made before the time that is asked for, or after.
func (e *exporting) early(id string) bool {
	made, _ := tollgate.IDTime(id)
	return e.q.From != 0 && tollgate.At(made) < e.q.From
}

func (e *exporting) late(id string) bool {
	made, _ := tollgate.IDTime(id)
	return e.q.Until != 0 && tollgate.At(made) >= e.q.Until
}

// step goes on behind the first row.
func (e *exporting) step(ctx context.Context) error {
	c := e.open[0]
	if c.rows = c.rows[1:]; len(c.rows) == 0 {
		if there, err := e.fill(ctx, c); err != nil || !there {
			heap.Pop(&e.open)
			c.close()
			return err
		}
	}
	heap.Fix(&e.open, 0)
	return nil
}

// fill reads the next frame that has something which is asked for; false: there is none.
func (e *exporting) fill(ctx context.Context, c *cursor) (there bool, err error) {
	for c.next < len(c.frames) {
		n, entry := c.next, &c.frames[c.next]
		if c.next++; e.early(entry.Last) {
			continue
		}
		if e.late(entry.First) {
			return false, nil
		}
		f, err := c.frame(ctx, n)
		if err != nil {
			if err := e.unreadable(ctx, c.l, entry.First, entry.Last, err); err != nil {
				return false, err
			}
			continue
		}
		c.rows = nil
		for id, text := range f.Rows() {
			c.rows = append(c.rows, rowOf{chosen{id: id}, text})
		}
		return true, nil
	}
	return false, nil
}

// unreadable tells of what cannot be read, and notes it.
func (e *exporting) unreadable(ctx context.Context, l *Line, first, last string, err error) error {
	if ctx.Err() != nil {
		return err
	}
	e.n.Unreadable++
	e.gaps = append(e.gaps, gap{l, first, last})
	message := err.Error()
	if damaged, is := errors.AsType[*packs.DamagedError](err); !is || damaged.Frame < 0 {
		message = "its payments from " + first + " to " + last + " cannot be read: " + message
	}
	e.found(Finding{Partition: l.Partition, Line: l.Number, File: packName(l.Partition, l.Payments.SHA256), Message: message})
	return nil
}

// take has Redis asked for the newest row of a payment, unless there is a newer one in
// what cannot be read.
func (e *exporting) take(ctx context.Context, l *Line, one rowOf) (err error) {
	if e.early(one.id) || e.late(one.id) {
		return nil
	}
	if one.org, err = organizationOf(one.text); err != nil {
		return err
	}
	if e.q.Organization != "" && one.org != e.q.Organization {
		return nil
	}
	e.gaps = slices.DeleteFunc(e.gaps, func(g gap) bool { return g.last < one.id })
	for _, g := range e.gaps {
		if g.rank <= l.rank || one.id < g.first {
			continue
		}
		of, _, _ := tollgate.NumberIn(one.id)
		if _, there, err := e.cache.Row(ctx, packName(g.Partition, g.Parts.SHA256), of); there || err != nil {
			e.n.Unsure++
			return nil
		}
	}
	e.page = append(e.page, rowOf{one.chosen, bytes.Clone(one.text)}) // its frame goes
	const page = 200
	if len(e.page) == page {
		return e.flush(ctx)
	}
	return nil
}

// flush gives those rows whose payments Redis does not have.
func (e *exporting) flush(ctx context.Context) error {
	if len(e.page) == 0 {
		return nil
	}
	there := make([]*redis.IntCmd, len(e.page))
	if err := e.db.Timed(ctx, "archive_in_redis", func(ctx context.Context) error {
		pipe := e.db.Redis.Pipeline()
		for i, one := range e.page {
			there[i] = pipe.Exists(ctx, e.db.Space(one.org).Object(one.id))
		}
		return rediskv.Answered(pipe.Exec(ctx))
	}); err != nil {
		return err
	}
	// What Redis does not have is in the lines that there are now: another one may have been
	// added since the first row was read.
	now, err := e.manifest(ctx, e.m.lines[0].Partition, true)
	if err != nil {
		return err
	}
	// A line that stands in for another one has nothing newer.
	since := &manifest{force: slices.DeleteFunc(slices.Clone(now.lines[min(e.m.last(), now.last()):]), func(l *Line) bool { return l.Replaces != 0 })}
	for i, one := range e.page {
		if there[i].Val() > 0 {
			e.n.InRedis++
			continue
		}
		row, err := e.newest(ctx, since, one.id)
		if row == nil {
			row = one.text
		}
		if err == nil {
			err = e.row(row)
		}
		if err != nil {
			return err
		}
		e.n.Payments++
	}
	e.page = e.page[:0]
	return nil
}

// cursor is a place in a pack.
type cursor struct {
	*walked
	frames []packs.Entry
	next   int     // of these
	rows   []rowOf // of the frame before, those that are left
}

func (c *cursor) id() string { return c.rows[0].id }

// cursors are in the order of identifiers, and of one identifier the newest line's is first.
type cursors []*cursor

func (c cursors) Len() int { return len(c) }

func (c cursors) Less(i, j int) bool {
	return cmp.Or(strings.Compare(c[i].id(), c[j].id()), cmp.Compare(c[j].l.rank, c[i].l.rank)) < 0
}

func (c cursors) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *cursors) Push(one any) { *c = append(*c, one.(*cursor)) }

func (c *cursors) Pop() any {
	last := len(*c) - 1
	one := (*c)[last]
	*c = (*c)[:last]
	return one
}
