package archive

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/packs"
	"tollgate/rediskv/packs/lists"
	"tollgate/rediskv/packs/shelves"
	"tollgate/rediskv/payments"
)

// indexed collects which lists have what of the payments that a pack is made of.
type indexed struct {
	number map[string]int32 // of a list, by its organization and name
	names  []listName
	all    []placed
	spans  map[string]*ledger.Span // by organization
}

type listName struct{ organization, list string }

// placed is a transaction, and the lists that it is in.
type placed struct {
	lists.Entry
	in [4]int32 // numbers of lists, -1: none
}

func newIndexed() *indexed {
	return &indexed{number: map[string]int32{}, spans: map[string]*ledger.Span{}}
}

// add adds a payment, and returns where its transactions are among all.
func (x *indexed) add(k rediskv.Space, a *payments.Archived) (from, to int) {
	from = len(x.all)
	span := x.spans[k.Org]
	for i := range a.Transactions {
		t := &a.Transactions[i]
		p := placed{Entry: lists.Entry{Position: t.Position, Member: memberOf(&t.Transaction)}, in: [4]int32{-1, -1, -1, -1}}
		keys, _ := ledger.ListsOf(k, &t.Transaction)
		for n, key := range append(keys, k.Transactions()) {
			p.in[n] = x.list(k, ledger.ListOf(k, key))
		}
		x.all = append(x.all, p)
		if span == nil {
			span = &ledger.Span{First: t.Position, Last: t.Position}
			x.spans[k.Org] = span
		}
		span.First, span.Last = min(span.First, t.Position), max(span.Last, t.Position)
	}
	return from, len(x.all)
}

// memberOf is how lists name a transaction of a payment that has numbered it.
func memberOf(t *tollgate.Transaction) string {
	return ledger.Indexed{ID: t.ID, Shared: true}.Member()
}

func (x *indexed) list(k rediskv.Space, name string) int32 {
	prefix := lists.Prefix(k.Org, name)
	n, known := x.number[prefix]
	if !known {
		n = int32(len(x.names))
		x.number[prefix], x.names = n, append(x.names, listName{k.Org, name})
	}
	return n
}

// write makes a pack of all lists.
func (x *indexed) write(to io.Writer, partition int) (packs.Summary, error) {
	of := make([][]int32, len(x.names))
	for i := range x.all {
		for _, n := range x.all[i].in {
			if n >= 0 {
				of[n] = append(of[n], int32(i))
			}
		}
	}
	order := make([]int32, len(x.names))
	for i := range order {
		order[i] = int32(i)
	}
	prefix := func(n int32) string { return lists.Prefix(x.names[n].organization, x.names[n].list) }
	slices.SortFunc(order, func(a, b int32) int { return strings.Compare(prefix(a), prefix(b)) })
	w := packs.NewWriter(to, lists.Kind, partition)
	var entries []lists.Entry
	for _, n := range order {
		entries = entries[:0]
		for _, i := range of[n] {
			entries = append(entries, x.all[i].Entry)
		}
		if err := lists.Add(w, x.names[n].organization, x.names[n].list, entries); err != nil {
			return packs.Summary{}, err
		}
	}
	return w.Close()
}

// keysOf are the lists that have some transactions, and for each which members of it.
func (x *indexed) keysOf(db *rediskv.DB, some []placed) (keys []string, members [][]string) {
	at := map[int32]int{}
	for i := range some {
		for _, n := range some[i].in {
			if n < 0 {
				continue
			}
			of, known := at[n]
			if !known {
				of = len(keys)
				at[n], keys, members = of, append(keys, db.Space(x.names[n].organization).Object(x.names[n].list)), append(members, nil)
			}
			members[of] = append(members[of], some[i].Member)
		}
	}
	return keys, members
}

// Lists are the entries of lists in some spans, as ledger.Archive says.
func (s *Store) Lists(ctx context.Context, k rediskv.Space, spans []ledger.Span, l ledger.Listing) (found []ledger.Indexed, err error) {
	m, err := s.manifest(ctx, k.Partition, false)
	if err == nil && len(spans) > 0 && spans[len(spans)-1].Line > m.last() {
		m, err = s.manifest(ctx, k.Partition, true)
	}
	if err != nil {
		return nil, err
	}
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b ledger.Span) int { // the one that the page begins with is first
		if l.Descending {
			return int(min(max(b.Last-a.Last, -1), 1))
		}
		return int(min(max(a.First-b.First, -1), 1))
	})
	l.Between = slices.Clone(l.Between)
	for n := 1; len(spans) > 0; n = atOnce { // as a rule the first one fills a page
		n = min(n, len(spans))
		more, err := s.inSpans(ctx, k, m, spans[:n], l)
		if err != nil {
			return nil, err
		}
		if found, spans = append(found, more...), spans[n:]; len(l.Between) == 1 {
			found = l.Cut(found)
		}
	}
	return found, nil
}

// inSpans is Lists of a few spans, at once.
func (s *Store) inSpans(ctx context.Context, k rediskv.Space, m *manifest, spans []ledger.Span, l ledger.Listing) (found []ledger.Indexed, err error) {
	for _, span := range spans {
		if span.Line > m.last() || m.lines[span.Line-1].Lists == nil {
			return nil, unavailable(fmt.Errorf("lists of %s are in line %d of the manifest, which has none", k.Org, span.Line))
		}
	}
	var lock sync.Mutex
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(atOnce)
	for _, span := range spans {
		for _, index := range l.Lists {
			list := listName{k.Org, ledger.ListOf(k, index)}
			for _, b := range l.Between {
				low, high := max(b[0], span.First), min(b[1], span.Last)
				if low > high {
					continue
				}
				reads.Go(func() error {
					more, err := s.entries(ctx, m.lines[span.Line-1], list, low, high, l.Descending, l.Most)
					lock.Lock()
					defer lock.Unlock()
					found = append(found, more...)
					return err
				})
			}
		}
	}
	if err := reads.Wait(); err != nil {
		return nil, unavailable(err)
	}
	return found, nil
}

// Spans are those that lines have of an organization, as ledger.Archive says.
func (s *Store) Spans(ctx context.Context, k rediskv.Space) (spans []ledger.Span, err error) {
	m, err := s.manifest(ctx, k.Partition, true)
	if err != nil {
		return nil, err
	}
	all := listName{k.Org, ledger.ListOf(k, k.Transactions())}
	for _, l := range m.lines[:m.done] {
		if l.Lists == nil || l.Replaces != 0 { // the line that it stands in for has the same lists
			continue
		}
		first, err := s.entries(ctx, l, all, 0, math.MaxInt64, false, 1)
		if err != nil {
			return nil, unavailable(err)
		}
		if len(first) == 0 {
			continue
		}
		last, err := s.entries(ctx, l, all, 0, math.MaxInt64, true, 1)
		if err != nil {
			return nil, unavailable(err)
		}
		spans = append(spans, ledger.Span{Line: l.Number, First: first[0].Position, Last: last[0].Position})
	}
	return spans, nil
}

// entries are the first ones of a list between two places, with both, that a line has.
func (s *Store) entries(ctx context.Context, l *Line, of listName, low, high int64, descending bool, most int) (found []ledger.Indexed, err error) {
	err = s.cache.Read(ctx, packName(l.Partition, l.Lists.SHA256), func(ctx context.Context, r *shelves.Reading) error {
		found = nil
		walk := seeker{r: r, prefix: lists.Prefix(of.organization, of.list)}
		next, err := walk.up, walk.seek(ctx, lists.ID(of.organization, of.list, low))
		if descending {
			next, err = walk.down, walk.seek(ctx, lists.ID(of.organization, of.list, high))
			if err == nil && !walk.here() { // all pieces are before
				err = walk.down(ctx)
			}
		}
		for ; err == nil && walk.here() && (most == 0 || len(found) < most); err = next(ctx) {
			some, err := lists.Read(walk.row())
			if err != nil {
				return err
			}
			if descending {
				slices.Reverse(some)
			}
			for _, e := range some {
				if e.Position >= low && e.Position <= high {
					found = append(found, ledger.MemberAt(e.Member, e.Position))
				}
			}
			if last := some[len(some)-1].Position; descending && last < low || !descending && last > high {
				break
			}
		}
		return err
	})
	return found, err
}

// seeker goes through the pieces of one list in a pack.
type seeker struct {
	r      *shelves.Reading
	prefix string
	frame  *packs.Frame // nil: before all, or behind
	n, i   int
}

// seek goes to the first row that is not before an identifier, of any list.
func (w *seeker) seek(ctx context.Context, id string) (err error) {
	w.n, _ = w.r.FrameOf(id)
	if w.frame = nil; w.n == len(w.r.Index().Frames) {
		return nil
	}
	if w.frame, err = w.r.Unpacked(ctx, w.n); err == nil {
		w.i = w.frame.From(id)
	}
	return err
}

// here reports whether the seeker is at a piece of its list.
func (w *seeker) here() bool {
	return w.frame != nil && w.i >= 0 && w.i < w.frame.Len() && strings.HasPrefix(string(w.row()[len(beforeID):]), w.prefix)
}

// beforeID is what a row has before its identifier.
const beforeID = `{"id":"`

func (w *seeker) row() []byte { return w.frame.At(w.i) }

// up goes to the next row, which may be of another list.
func (w *seeker) up(ctx context.Context) (err error) {
	if w.i++; w.i < w.frame.Len() {
		return nil
	}
	if w.n++; w.n >= len(w.r.Index().Frames) {
		w.frame = nil
		return nil
	}
	w.i = 0
	w.frame, err = w.r.Unpacked(ctx, w.n)
	return err
}

// down goes to the row before.
func (w *seeker) down(ctx context.Context) (err error) {
	if w.i--; w.frame != nil && w.i >= 0 {
		return nil
	}
	if w.n--; w.n < 0 {
		w.frame = nil
		return nil
	}
	if w.frame, err = w.r.Unpacked(ctx, w.n); err == nil {
		w.i = w.frame.Len() - 1
	}
	return err
}
