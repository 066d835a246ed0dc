package logs

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/packs/shelf"
	"tollgate/rediskv/packs/shelves"
	"tollgate/rediskv/postings"
	"tollgate/rediskv/streams"
)

// Finding is what a check has found.
type Finding struct {
	Line    int64 // of the manifest; 0: it is of none
	Copy    bool  // it is not the first shelf
	File    string
	Message string
	Orphan  bool // nothing refers to it, and nothing is lost by that
	Healed  bool // it was written again
}

// Checked counts what was compared.
type Checked struct {
	Lines   int64 `json:"lines"`
	Packs   int64 `json:"packs"` // files
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
}

// Check reads all packs of a partition's logs and compares them with the manifest: that each
// line follows the one before and is on each shelf, that its ranges follow those before, that
// each file is what its name says, and that each frame and row can be read. It writes nothing,
// unless it is to heal: then a file that is missing or damaged on one shelf is written again
// from another.
func (s *Store) Check(ctx context.Context, partition int, heal bool, found func(Finding)) (c Checked, err error) {
	m, err := s.manifest(ctx, partition)
	if err != nil {
		return c, err
	}
	named, previous := map[string]bool{}, ""
	k := &checking{s, heal, named, found}
	for _, l := range m.lines {
		if l.Previous != previous {
			k.say(l, shelves.Wrong{Message: "it does not follow the line before"}, l.Name())
		}
		previous = l.digest()
		c.Lines++
		if err := k.file(ctx, l, l.Name(), int64(len(l.text)), func(on shelf.Shelf) error { return shelves.IsText(ctx, on, l.Name(), l.text) }); err != nil {
			return c, err
		}
	}
	ends := map[string]Range{}
	for _, l := range m.force {
		k.ranges(l, ends)
		if err := k.pack(ctx, l); err != nil {
			return c, err
		}
		c.Packs, c.Entries, c.Bytes = c.Packs+1, c.Entries+l.Pack.Rows, c.Bytes+l.Pack.Size
	}
	if err := s.leftovers(ctx, m, heal, named, found); err != nil {
		return c, err
	}
	if err := s.bounds(ctx, partition, m, found); err != nil {
		return c, err
	}
	for i, on := range s.Shelves {
		for _, folder := range []string{manifestFolder(partition), packFolder(partition)} {
			list, err := on.List(ctx, folder)
			if err != nil {
				return c, unavailable(err)
			}
			for _, file := range list {
				if !named[file.Name] {
					found(Finding{Copy: i > 0, File: file.Name, Message: "no line of the manifest refers to it", Orphan: true})
				}
			}
		}
	}
	return c, nil
}

// checking is a check of a partition.
type checking struct {
	*Store
	heal  bool
	named map[string]bool
	found func(Finding)
}

func (k *checking) say(l *Line, w shelves.Wrong, file string) {
	k.found(Finding{Line: l.Number, Copy: w.Shelf > 0, File: file, Message: w.Message, Healed: w.Healed})
}

// file looks at a file of a line on each shelf.
func (k *checking) file(ctx context.Context, l *Line, name string, size int64, is func(shelf.Shelf) error) error {
	k.named[name] = true
	wrong, err := shelves.Look(ctx, k.Shelves, name, size, k.heal, is)
	if err != nil {
		return unavailable(err)
	}
	for _, w := range wrong {
		k.say(l, w, name)
	}
	return nil
}

// pack looks at the pack of a line, or at the one that is there instead, if Redis was put back
// from a copy of before.
func (k *checking) pack(ctx context.Context, l *Line) error {
	if w, _, err := k.open(ctx, within{part: part{line: l}}); err == nil {
		l = w.line
	}
	return k.file(ctx, l, l.packName(), l.Pack.Size, func(on shelf.Shelf) error { return shelves.IsPack(ctx, on, l.packName(), l.Pack) })
}

// ranges compares the ranges of a line with those of the lines before, and with its pack.
func (k *checking) ranges(l *Line, ends map[string]Range) {
	entries := int64(0)
	for _, r := range l.Ranges {
		name := nameOf(l.Log, r.Organization)
		anew := l.Log == postings.LogPostings && r.FirstSequence == 1 // they were made again
		if before := ends[name]; before.Last != "" && !anew && (!streams.Less(before.Last, r.First) || before.LastSequence > 0 && r.FirstSequence > 0 && r.FirstSequence != before.LastSequence+1) {
			k.say(l, shelves.Wrong{Message: fmt.Sprintf("its range of the %s of %s begins with number %d at %s, and the one before ends with number %d at %s", l.Log, r.Organization, r.FirstSequence, r.First, before.LastSequence, before.Last)}, l.Name())
		}
		ends[name] = r
		entries += r.Entries
	}
	if entries != l.Pack.Rows {
		k.say(l, shelves.Wrong{Message: fmt.Sprintf("its ranges have %d entries, and its pack %d rows", entries, l.Pack.Rows)}, l.Name())
	}
}

// bounds compares what Redis says that packs have of each log with the lines.
func (s *Store) bounds(ctx context.Context, partition int, m *manifest, found func(Finding)) error {
	for _, name := range slices.Sorted(maps.Keys(m.of)) {
		parts := m.of[name]
		last := parts[len(parts)-1]
		k := s.db.Space(last.Organization)
		if last.line.Log == postings.LogPostings {
			parts = m.newest(k.Org)
		}
		is, err := eventlog.ReadPacked(ctx, s.db, k, last.line.Log)
		if err != nil && rediskv.Away(err) {
			return err
		}
		want := &eventlog.Packed{First: parts[0].First, Last: last.Last, Sequence: last.LastSequence}
		for _, p := range parts {
			want.Until, want.Entries = max(want.Until, p.Until), want.Entries+p.Entries
		}
		if err == nil && (is != nil && *is == *want || is == nil && last.line.Log == postings.LogPostings) {
			continue
		}
		if now, err := s.manifest(ctx, partition); err != nil || now.last() != m.last() {
			return err // another worker has added a line
		}
		message := fmt.Sprintf("Redis has another record of what packs have of the %s of %s: %+v, and lines say %+v", last.line.Log, last.Organization, is, want)
		if err != nil {
			message = err.Error()
		}
		found(Finding{Line: last.line.Number, File: last.line.Name(), Message: message})
	}
	return nil
}

// On says what keeps a line's file from being read on a shelf, by its number.
func (s *Store) On(ctx context.Context, shelf int, l *Line) error {
	return shelves.IsText(ctx, s.Shelves[shelf], l.Name(), l.text)
}
