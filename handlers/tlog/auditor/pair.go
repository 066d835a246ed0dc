package auditor

import (
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/go-json-experiment/json"

	"tollgate/handlers/tlog"
)

// entry is what names one.
type entry struct {
	ID  string `json:"id"`
	Seq int64  `json:"seq"`
}

// isEntry tells an entry, which is JSON, from a checkpoint.
func isEntry(text string) bool { return strings.HasPrefix(text, "{") }

func read(text string) (e entry) {
	if json.Unmarshal([]byte(text), &e) != nil {
		return entry{}
	}
	return e
}

// pair looks for the leaves of entries that are not where they were sealed, and says what
// is left over on either side.
func (t *Tree) pair() {
	places := make(map[tlog.Hash]int64, len(t.open))
	for index, h := range t.open {
		places[h] = index
	}
	var moved []place
	var left []unpaired
	lastPaired := t.Checked // entries behind it may be unsealed
	for _, u := range t.unpaired {
		index, ok := places[u.hash]
		if !ok {
			left = append(left, u)
			continue
		}
		delete(places, u.hash)
		delete(t.open, index)
		moved = append(moved, place{u, index})
		if !t.known {
			t.offset, t.known = u.entry.Seq-index, true
		}
	}
	t.order(moved)
	lastRow := int64(-1)
	for _, m := range moved {
		lastRow = max(lastRow, m.row)
	}
	for _, u := range left {
		t.leftOver(u, u.after == lastPaired && u.row > lastRow)
	}
	t.missing()
}

// leftOver says what an entry is of which no leaf is known. Behind all that were sealed
// it is none of these.
func (t *Tree) leftOver(u unpaired, behind bool) {
	index := u.entry.Seq - t.offset
	if _, is := t.open[index]; !is || !t.known {
		index = u.row
	}
	_, is := t.open[index]
	switch {
	case is:
		delete(t.open, index)
		t.find(Changed, index, u.entry, "entry number %d, %s, is not what was sealed as leaf %d", t.number(index), u.entry.ID, index)
	case behind && u.entry.Seq-t.offset >= t.leaves:
		t.Unsealed++
	default:
		t.find(Inserted, u.row, u.entry, "entry number %d, %s, was never sealed, and stands among those that were", u.entry.Seq, u.entry.ID)
	}
}

// number is that of a leaf's entry: they are given without a gap.
func (t *Tree) number(index int64) int64 {
	if !t.known {
		return 0
	}
	return index + t.offset
}

// missing says which leaves have no entry, those that follow one another together.
func (t *Tree) missing() {
	indexes := slices.Sorted(maps.Keys(t.open))
	for len(indexes) > 0 {
		n := 1
		for n < len(indexes) && indexes[n] == indexes[0]+int64(n) {
			n++
		}
		first, last := indexes[0], indexes[n-1]
		e := entry{Seq: t.number(first)}
		if n == 1 {
			t.find(Missing, first, e, "entry number %d, leaf %d, is missing", e.Seq, first)
		} else {
			t.find(Missing, first, e, "entries number %d to %d, leaves %d to %d, are missing", e.Seq, t.number(last), first, last)
		}
		indexes = indexes[n:]
	}
}

// place is an entry that is in another row than its leaf.
type place struct {
	unpaired
	index int64
}

// order says which entries stand elsewhere: all but the most that are in order.
func (t *Tree) order(moved []place) {
	keeps := ascending(moved)
	for i, m := range moved {
		if keeps[i] {
			t.Checked++
			continue
		}
		t.find(Reordered, m.index, m.entry, "entry number %d, %s, stands elsewhere in the log than where it was sealed, leaf %d", m.entry.Seq, m.entry.ID, m.index)
	}
}

// ascending marks a longest run of places in which each is behind the one before.
func ascending(moved []place) []bool {
	var ends []int // by length less one: where the run with the lowest end ends
	before := make([]int, len(moved))
	for i, m := range moved {
		n := sort.Search(len(ends), func(n int) bool { return moved[ends[n]].index > m.index })
		if before[i] = -1; n > 0 {
			before[i] = ends[n-1]
		}
		ends = append(ends[:n], append([]int{i}, ends[min(n+1, len(ends)):]...)...)
	}
	keeps := make([]bool, len(moved))
	if len(ends) > 0 {
		for i := ends[len(ends)-1]; i >= 0; i = before[i] {
			keeps[i] = true
		}
	}
	return keeps
}
