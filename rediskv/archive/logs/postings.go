package logs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"golang.org/x/sync/errgroup"

	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/history"
	"tollgate/rediskv/packs"
	"tollgate/rediskv/postings"
)

// rowPostings is how many postings a row has, unless an event has more of them.
const rowPostings = 512

// postingRow is a part of a list as a pack has it: by the tag of each value, in hexadecimal, for
// each posting how far its event is behind the one before (the first: behind that of the
// identifier), and its types.
type postingRow struct {
	ID     string             `json:"id"` // listKey
	Values map[string][]int64 `json:"values"`
}

// listKey is how the row of a part of a list begins: it ends with the first event.
func listKey(org string, l postings.List, first int64) string {
	return fmt.Sprintf("%s/%02d/%012d/%013d", org, l.Class, l.Number, first)
}

// firstIn is the event that the key of a row ends with.
func firstIn(key string) int64 {
	n, _ := strconv.ParseInt(key[strings.LastIndexByte(key, '/')+1:], 10, 64) // as listKey wrote it
	return n
}

// addPostings adds the rows of a part of a list.
func (p *sealing) addPostings(org string, l postings.List, all []postings.Listed) (rows int64, err error) {
	for len(all) > 0 {
		n := min(len(all), rowPostings)
		for n < len(all) && all[n].Number == all[n-1].Number {
			n++ // an event is in one row
		}
		key := listKey(org, l, all[0].Number)
		text := postingText(key, all[:n])
		if err := p.pack.Add(key, text); err != nil {
			return rows, err
		}
		p.sums, p.bytes = append(p.sums, sha256.Sum256(text)), p.bytes+len(text)
		all, rows = all[n:], rows+1
	}
	return rows, nil
}

func postingText(key string, all []postings.Listed) []byte {
	text := fmt.Appendf(nil, `{"id":%q,"values":`, key)
	by := map[uint16][]postings.Listed{}
	var tags []uint16
	for _, one := range all {
		if by[one.Tag] == nil {
			tags = append(tags, one.Tag)
		}
		by[one.Tag] = append(by[one.Tag], one)
	}
	slices.Sort(tags)
	before := byte('{')
	for _, tag := range tags {
		text = append(text, before)
		before = ','
		text = fmt.Appendf(text, `"%04x":`, tag)
		within, at := byte('['), all[0].Number
		for _, one := range by[tag] {
			text = strconv.AppendInt(append(text, within), one.Number-at, 10)
			text = strconv.AppendInt(append(text, ','), int64(one.Types), 10)
			within, at = ',', one.Number
		}
		text = append(text, ']')
	}
	return append(text, "}}"...)
}

// tagged are the postings of a value in a row, in their order.
func tagged(text []byte, tag uint16) (all []postings.Event, err error) {
	var r postingRow
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	at := firstIn(r.ID)
	for pair := range slices.Chunk(r.Values[fmt.Sprintf("%04x", tag)], 2) {
		if len(pair) < 2 {
			return nil, fmt.Errorf("row %s has half a posting", r.ID)
		}
		at += pair[0]
		all = append(all, postings.Event{Number: at, Types: postings.Types(pair[1])})
	}
	return all, nil
}

// PackPostings puts postings of organizations of a partition into packs: one after the other,
// until all that is due is there. It implements postings.Archive.
func (s *Store) PackPostings(ctx context.Context, partition int, due []postings.Due) error {
	s.packing.Lock()
	defer s.packing.Unlock()
	now, err := s.db.HistoryFor(ctx, due[0].Space.Org)
	if err != nil || !now.Open {
		return err
	}
	ctx = history.Within(ctx, now.ID)
	due = slices.SortedFunc(slices.Values(due), func(a, b postings.Due) int { return strings.Compare(a.Space.Org, b.Space.Org) })
	for len(due) > 0 {
		n, err := s.packPostings(ctx, partition, due, now.ID)
		if err != nil || n == 0 {
			return conflict(err)
		}
		due = due[n:]
	}
	return nil
}

// packPostings makes one pack, and returns of how many organizations; 0: it is to be tried
// again later.
func (s *Store) packPostings(ctx context.Context, partition int, due []postings.Due, in string) (n int, err error) {
	m, err := s.manifest(ctx, partition)
	if err == nil {
		err = s.ready(ctx, m)
	}
	if err != nil {
		return 0, err
	}
	p := &sealing{partition: partition, log: postings.LogPostings}
	if p.file, err = os.CreateTemp(s.Scratch, "tollgate-logs-*"); err != nil {
		return 0, fmt.Errorf("archive of postings: %w", err)
	}
	defer p.discard()
	_ = os.Remove(p.file.Name()) // where that can be done: it goes with this process, however that ends
	p.pack = packs.NewWriter(p.file, p.log, partition)
	for ; n < len(due) && len(p.ranges) < mostRanges && !p.full(s.Rows); n++ {
		still, err := s.sealPostings(ctx, p, &due[n])
		if err != nil || !still {
			return 0, err
		}
	}
	if len(p.ranges) == 0 {
		return n, nil
	}
	s.step(partition, "written")
	if p.summary, err = p.pack.Close(); err != nil {
		return 0, err
	}
	l, err := s.shelve(ctx, p, m, in)
	if err != nil {
		return 0, fmt.Errorf("archive of postings: %w", err)
	}
	for i := range due[:n] {
		if still, err := due[i].Still(ctx); err != nil || !still {
			return 0, err
		}
	}
	if err := s.add(ctx, l, p); err != nil {
		return 0, err
	}
	s.step(partition, "added to the manifest")
	return n, nil
}

// sealPostings adds what is due of an organization. false: it has changed meanwhile.
func (s *Store) sealPostings(ctx context.Context, p *sealing, d *postings.Due) (still bool, err error) {
	one := stretch{k: d.Space}
	if one.before, one.has, err = s.packed(ctx, d.Space); err != nil {
		return false, err
	}
	after := int64(0)
	if one.has != nil {
		after = one.has.Sequence
	}
	if d.Upto <= after {
		return true, nil
	}
	r := Range{
		Organization: d.Space.Org, First: strconv.FormatInt(after+1, 10), Last: strconv.FormatInt(d.Upto, 10),
		FirstSequence: after + 1, LastSequence: d.Upto, From: d.First, Until: d.Last,
	}
	first, last := d.Classes(after)
	for class := first; class <= last; class++ {
		for list := int64(0); ; {
			parts, err := d.Lists(ctx, class, list, after)
			if err != nil {
				return false, err
			}
			if len(parts) == 0 {
				break
			}
			for i, part := range parts {
				rows, err := p.addPostings(d.Space.Org, postings.List{Class: class, Number: list + int64(i)}, postings.ListedIn(part))
				if err != nil {
					return false, err
				}
				r.Entries += rows
			}
			list += int64(len(parts))
		}
	}
	if r.Entries > 0 {
		p.ranges, p.of = append(p.ranges, r), append(p.of, one)
	}
	return d.Still(ctx)
}

// packed is what Redis says that packs have of an organization's postings, and its text.
func (s *Store) packed(ctx context.Context, k rediskv.Space) (text string, has *eventlog.Packed, err error) {
	if text, err = eventlog.PackedText(ctx, s.db, k, postings.LogPostings); err != nil {
		return "", nil, err
	}
	if has, err = eventlog.PackedOf(postings.PackedKey(k), text); err != nil {
		return "", nil, unavailable(err)
	}
	return text, has, nil
}

// PackedUntil implements postings.Archive.
func (s *Store) PackedUntil(ctx context.Context, k rediskv.Space) (int64, error) {
	_, has, err := s.packed(ctx, k)
	if err != nil || has == nil {
		return 0, err
	}
	return has.Sequence, nil
}

// newest are the parts of an organization's postings that packs have: those since they were made
// again, if they ever were.
func (m *manifest) newest(org string) []part {
	parts := m.of[nameOf(postings.LogPostings, org)]
	for i := len(parts) - 1; i > 0; i-- {
		if parts[i].FirstSequence == 1 {
			return parts[i:]
		}
	}
	return parts
}

// atOnce is how many packs are read at the same time.
const atOnce = 8

// Postings implements postings.Archive. It ends where it has found something, and has read
// eight packs at least.
func (s *Store) Postings(ctx context.Context, k rediskv.Space, values []postings.Value, descending bool, bound, upto, most int64) ([]postings.Found, error) {
	m, err := s.manifest(ctx, k.Partition)
	if err != nil {
		return nil, err
	}
	first, last := bound+1, upto
	if descending {
		first, last = 1, min(upto, bound-1)
	}
	parts := slices.DeleteFunc(slices.Clone(m.newest(k.Org)), func(p part) bool { return p.LastSequence < first || p.FirstSequence > last })
	if descending {
		slices.Reverse(parts)
	}
	found := make([]postings.Found, len(values))
	for some := range slices.Chunk(parts, atOnce) {
		of := make([][]postings.Found, len(some)) // by pack and value
		group, within := errgroup.WithContext(ctx)
		for i, p := range some {
			of[i] = make([]postings.Found, len(values))
			group.Go(func() (err error) {
				for n, v := range values {
					r := reach{p, v, max(first, p.FirstSequence), min(last, p.LastSequence), most, descending}
					if of[i][n], err = s.postingsIn(within, k.Org, r); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		any := false
		for n := range values {
			f := &found[n]
			for i := range some {
				if one := &of[i][n]; f.All || i == 0 {
					f.Events, f.Reach, f.All = append(f.Events, one.Events...), one.Reach, one.All
				}
			}
			any = any || len(f.Events) > 0
		}
		if any {
			end := some[len(some)-1]
			for n := range found {
				if f := &found[n]; f.All && descending {
					f.Reach, f.All = max(first, end.FirstSequence), end.FirstSequence <= first
				} else if f.All {
					f.Reach, f.All = min(last, end.LastSequence), end.LastSequence >= last
				}
			}
			return found, nil
		}
	}
	for n := range found {
		if found[n] = (postings.Found{Reach: last, All: true}); descending {
			found[n].Reach = 0
		}
	}
	return found, nil
}

// reach is what is looked for in a pack: postings of a value, of the events from one to another,
// most at the most.
type reach struct {
	part
	value       postings.Value
	first, last int64
	most        int64
	descending  bool
}

// postingsIn reads them. All says that the pack has no more of them.
func (s *Store) postingsIn(ctx context.Context, org string, r reach) (f postings.Found, err error) {
	lists, tag := r.value.Lists(r.first, r.last)
	if r.descending {
		slices.Reverse(lists)
	}
	f.All, f.Reach = true, r.last
	if r.descending {
		f.Reach = r.first
	}
	for _, l := range lists {
		if err := s.rows(ctx, r.line.packName(), listKey(org, l, r.first), listKey(org, l, r.last), r.descending, func(text []byte) (bool, error) {
			some, err := tagged(text, tag)
			if err != nil {
				return false, unavailable(err) // it has the digest that it was written with
			}
			if r.descending {
				slices.Reverse(some)
			}
			for _, e := range some {
				if e.Number < r.first || e.Number > r.last {
					continue
				}
				if int64(len(f.Events)) >= r.most && e.Number != f.Events[len(f.Events)-1].Number {
					f.All, f.Reach = false, f.Events[len(f.Events)-1].Number
					return false, nil
				}
				f.Events = append(f.Events, e)
			}
			return true, nil
		}); err != nil || !f.All {
			return f, err
		}
	}
	return f, nil
}

// rows hands over the rows of a list that may have the events between those that two keys end
// with: also the one before, which may reach there.
func (s *Store) rows(ctx context.Context, pack, low, high string, descending bool, take func(text []byte) (bool, error)) error {
	list := low[:strings.LastIndexByte(low, '/')+1]
	all, err := s.cache.Frames(ctx, pack)
	if err != nil {
		return unavailable(err)
	}
	// The last frame, and the last row in one, that does not begin behind a key.
	frameOf := func(key string) int { return sort.Search(len(all), func(i int) bool { return all[i].First > key }) - 1 }
	rowOf := func(f *packs.Frame, key string) int {
		return sort.Search(f.Len(), func(i int) bool { return f.ID(i) > key }) - 1
	}
	step, n, until := 1, max(0, frameOf(low)), frameOf(high)
	if descending {
		step, n, until = -1, until, max(0, frameOf(low))
	}
	for ; n >= 0 && n < len(all) && (until-n)*step >= 0; n += step {
		f, err := s.cache.Frame(ctx, pack, n)
		if err != nil {
			return unavailable(err)
		}
		i, end := max(0, rowOf(f, low)), rowOf(f, high)
		if descending {
			i, end = end, i
		}
		for ; (end-i)*step >= 0; i += step {
			if i < 0 || !strings.HasPrefix(f.ID(i), list) {
				continue
			}
			if more, err := take(f.At(i)); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// HasPostings implements postings.Archive.
func (s *Store) HasPostings(ctx context.Context, k rediskv.Space, wanted []postings.Posting) ([]bool, error) {
	m, err := s.manifest(ctx, k.Partition)
	if err != nil {
		return nil, err
	}
	parts := m.newest(k.Org)
	has := make([]bool, len(wanted))
	keys, order := make([]string, len(wanted)), make([]int, len(wanted))
	for i, p := range wanted {
		lists, _ := p.Lists(p.Number, p.Number)
		keys[i], order[i] = listKey(k.Org, lists[0], p.Number), i
	}
	sort.Slice(order, func(a, b int) bool { return keys[order[a]] < keys[order[b]] }) // what is in one frame is read together
	for _, i := range order {
		p := wanted[i]
		at := sort.Search(len(parts), func(n int) bool { return parts[n].LastSequence >= p.Number })
		if at == len(parts) || parts[at].FirstSequence > p.Number {
			continue
		}
		found, err := s.postingsIn(ctx, k.Org, reach{parts[at], p.Value, p.Number, p.Number, rowPostings, false})
		if err != nil {
			return nil, err
		}
		for _, e := range found.Events {
			has[i] = has[i] || e.Types&p.Type != 0
		}
	}
	return has, nil
}
