package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"strconv"
	"strings"

	"tollgate/rediskv/history"
	"tollgate/rediskv/packs/shelves"
)

// branch is what the shelves have behind the last line of a manifest: after Redis was put
// back from a copy, the lines that were added since.
type branch struct {
	lines []*Line           // each follows the one before
	told  map[string]string // by file: what is to be said of it
	wrong map[string]bool   // by file: a person is to decide, or to put a file back
	torn  []string          // files of lines that are not what their names say
}

// candidates are lines on the shelves, by the line that they follow: its digest.
type candidates map[string][]*Line

// behind are those that follow a line.
func (c candidates) behind(previous string, number int64) (next []*Line) {
	for _, l := range c[previous] {
		if l.Number == number {
			next = append(next, l)
		}
	}
	return next
}

// follow reads which lines follow a manifest. Where two follow the same one, that one counts
// that others follow: a slower worker's has none, as a line is added behind the last one of
// Redis alone. Where that does not tell them apart, neither counts.
func (s *Store) follow(ctx context.Context, partition int, m *manifest) (*branch, error) {
	b := &branch{told: map[string]string{}, wrong: map[string]bool{}}
	all, err := s.candidates(ctx, partition, m, b)
	if err != nil {
		return nil, err
	}
	previous := m.digest()
	for number := m.last() + 1; ; number++ {
		next := all.behind(previous, number)
		if number == 1 {
			if next, err = s.ours(ctx, partition, next, b); err != nil {
				return nil, err
			}
		}
		if next = b.choose(next, all); len(next) == 0 {
			return b, nil
		}
		b.lines = append(b.lines, next[0])
		b.told[next[0].Name()] = "it follows the lines that Redis has: 'tollgate archive check --adopt' takes it back"
		previous = next[0].digest()
	}
}

// candidates reads the lines on the shelves whose numbers come behind a manifest.
func (s *Store) candidates(ctx context.Context, partition int, m *manifest, b *branch) (candidates, error) {
	var names []string
	for _, on := range s.Shelves {
		list, err := on.List(ctx, fmt.Sprintf("manifest/p%02d/", partition))
		if err != nil {
			return nil, unavailable(err)
		}
		for _, file := range list {
			names = append(names, file.Name)
		}
	}
	sort.Strings(names)
	_, erased, err := s.fence(ctx, partition)
	if err != nil {
		return nil, err
	}
	all := candidates{}
	for _, name := range slices.Compact(names) {
		number, is := numberOf(name)
		switch {
		case !is:
			continue
		case number <= m.last():
			b.told[name] = fmt.Sprintf("no line of the manifest refers to it: Redis has another line %d", number)
			continue
		}
		l, err := s.lineAt(ctx, partition, name)
		if errors.Is(err, shelves.ErrOther) {
			b.told[name], b.wrong[name] = fmt.Sprintf("%s; no line can be taken back that follows it", shelves.Trimmed(err)), true
			b.torn = append(b.torn, name)
			continue
		}
		if err != nil {
			return nil, unavailable(err)
		}
		if l.Erased < erased {
			b.told[name] = "no line of the manifest refers to it: what it names was read before something was erased, and Redis has refused it"
			continue
		}
		all[l.Previous] = append(all[l.Previous], l)
	}
	return all, nil
}

// numberOf is the number of a line, as the name of its file says.
func numberOf(name string) (number int64, is bool) {
	text, _, _ := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], "-")
	number, err := strconv.ParseInt(text, 10, 64)
	return number, err == nil && strings.HasSuffix(name, ".json")
}

// lineAt reads a line's file, from the first shelf that has what its name says.
func (s *Store) lineAt(ctx context.Context, partition int, name string) (*Line, error) {
	var failed error
	for _, on := range s.Shelves {
		text, err := on.Text(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		l, err := ParseLine(string(text))
		if err == nil && l.Partition == partition && l.Name() == name {
			return l, nil
		}
		if err == nil {
			err = errors.New("its text is not the one that its name says")
		}
		failed = cmp.Or(failed, fmt.Errorf("%w: %w", shelves.ErrOther, err))
	}
	return nil, cmp.Or(failed, fmt.Errorf("%w: it is not here any more", shelves.ErrOther))
}

// ours leaves out first lines of a history that Redis has never had: nothing else says that
// the archive is not that of another Redis.
func (s *Store) ours(ctx context.Context, partition int, lines []*Line, b *branch) (ours []*Line, err error) {
	if len(lines) == 0 {
		return nil, nil
	}
	had, err := s.histories(ctx, partition)
	if err != nil {
		return nil, err
	}
	for _, l := range lines {
		if had(l.HistoryID) {
			ours = append(ours, l)
			continue
		}
		b.told[l.Name()] = fmt.Sprintf("no line of the manifest refers to it: it was made in history %s, which this Redis has not had", l.HistoryID)
	}
	return ours, nil
}

// histories says which ones a partition of Redis has had.
func (s *Store) histories(ctx context.Context, partition int) (had func(id string) bool, err error) {
	now, err := s.db.Histories.Reread(ctx, partition)
	return func(id string) bool {
		return id == now.ID || id == now.First || slices.ContainsFunc(now.Past, func(p history.Past) bool { return p.ID == id })
	}, err
}

// choose is the one of several lines that counts, if any does.
func (b *branch) choose(next []*Line, all candidates) []*Line {
	if len(next) < 2 {
		return next
	}
	followed := slices.DeleteFunc(slices.Clone(next), func(l *Line) bool { return len(all.behind(l.digest(), l.Number+1)) == 0 })
	for _, l := range next {
		switch {
		case len(followed) != 1:
			b.told[l.Name()], b.wrong[l.Name()] = fmt.Sprintf("%d files say that they are line %d, and nothing tells which one Redis had: none is taken back", len(next), l.Number), true
		case l != followed[0]:
			b.told[l.Name()] = fmt.Sprintf("no line of the manifest refers to it: another file is line %d, and others follow that", l.Number)
		}
	}
	if len(followed) != 1 {
		return nil
	}
	return followed
}

// whole says of a line's packs what keeps them from being read: none of the shelves has one
// as it was written.
func (s *Store) whole(ctx context.Context, l *Line) error {
	for i, sum := range l.packs() {
		name := packName(l.Partition, sum.SHA256)
		var failed error
		for _, on := range s.Shelves {
			err := shelves.IsPack(ctx, on, name, sum)
			switch {
			case err == nil:
			case errors.Is(err, fs.ErrNotExist):
				err = fmt.Errorf("%w: %w: %s is not here", shelves.ErrOther, errGone, name)
			case !errors.Is(err, shelves.ErrOther):
				return unavailable(err)
			}
			if failed = err; err == nil {
				break
			}
		}
		if errors.Is(failed, errGone) && i == 0 { // it is not needed where another line stands in for this one
			_, failed = s.standIn(ctx, l, failed)
		}
		if failed != nil {
			return failed
		}
	}
	return nil
}

// readable cuts a branch where a pack cannot be read.
func (s *Store) readable(ctx context.Context, b *branch) error {
	for i, l := range b.lines {
		err := s.whole(ctx, l)
		if err == nil {
			for _, sum := range l.packs() {
				b.told[packName(l.Partition, sum.SHA256)] = fmt.Sprintf("line %d names it, which 'tollgate archive check --adopt' takes back", l.Number)
			}
			continue
		}
		if !errors.Is(err, shelves.ErrOther) {
			return err
		}
		for _, later := range b.lines[i:] {
			b.told[later.Name()], b.wrong[later.Name()] = fmt.Sprintf("it cannot be taken back: a pack of line %d cannot be read: %s", l.Number, shelves.Trimmed(err)), true
		}
		b.lines = b.lines[:i]
		return nil
	}
	return nil
}
