package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"tollgate/rediskv/packs"
	"tollgate/rediskv/packs/shelf"
	"tollgate/rediskv/packs/shelves"
)

// Finding is what a check of an archive has found.
type Finding struct {
	Partition int    `json:"partition"`
	Line      int64  `json:"line,omitzero"` // of the manifest; 0: it is of none
	Copy      bool   `json:"copy,omitzero"` // it is not the first shelf
	File      string `json:"file"`
	Message   string `json:"message"`
	// Orphan says that nothing refers to a file: a worker has died before its line was
	// added, or Redis was put back from a copy of before. Nothing is lost by that.
	Orphan bool `json:"orphan,omitzero"`
	// Healed says that the file was written again, from one that is as it should be.
	Healed bool `json:"healed,omitzero"`
	// Payment is one of which Redis has another state than a line that is taken back.
	Payment string `json:"payment,omitzero"`
	// Note says that nothing is wrong.
	Note bool `json:"note,omitzero"`
}

// Checked counts what was compared.
type Checked struct {
	Lines    int64 `json:"lines"`
	Packs    int64 `json:"packs"` // files
	Payments int64 `json:"payments"`
	Bytes    int64 `json:"bytes"`
}

// checking is a check of a partition.
type checking struct {
	*Store
	partition int
	heal      bool
	found     func(Finding)
	named     map[string]bool
	replaced  func(context.Context, *Line) (bool, error)
}

// Check reads all packs of a partition and compares them with the manifest: that each line
// follows the one before and is on each shelf, that each file is what its name says, and
// that each frame and row can be read. It writes nothing, unless it is to heal: then a file
// that is missing or damaged on one shelf is written again from another.
func (s *Store) Check(ctx context.Context, partition int, heal bool, found func(Finding)) (c Checked, err error) {
	m, err := s.manifest(ctx, partition, true)
	if err != nil {
		return c, err
	}
	k := &checking{s, partition, heal, found, map[string]bool{}, func(_ context.Context, l *Line) (bool, error) { return m.replaced(l), nil }}
	previous := ""
	for _, l := range m.lines {
		if l.Previous != previous {
			found(Finding{Partition: partition, Line: l.Number, File: l.Name(), Message: "it does not follow the line before"})
		}
		previous = l.digest()
		c.Lines++
		if err := k.line(ctx, l); err != nil {
			return c, err
		}
		if m.replaced(l) { // the line in its place counts
			continue
		}
		c.Payments += l.Payments.Rows
		c.Packs += int64(len(l.packs()))
		c.Bytes += l.Size()
	}
	b, err := s.follow(ctx, partition, m)
	if err == nil {
		err = s.readable(ctx, b)
	}
	if err == nil {
		err = k.leftovers(ctx, m, b)
	}
	if err != nil {
		return c, err
	}
	return c, k.orphans(ctx, b)
}

// line looks at the files of a line.
func (k *checking) line(ctx context.Context, l *Line) error {
	_, err := k.file(ctx, l, l.Name(), int64(len(l.text)), func(on shelf.Shelf) error { return l.is(ctx, on) })
	replaced := false
	if err == nil {
		replaced, err = k.replaced(ctx, l)
	}
	if err == nil && !replaced {
		_, err = k.pack(ctx, l, l.Payments)
	}
	if err != nil || l.Replaces != 0 { // the line that it stands in for has the same of all others
		return err
	}
	_, err = k.pack(ctx, l, l.Parts)
	if err == nil && l.Lists != nil {
		err = k.lists(ctx, l)
	}
	return err
}

// pack looks at a pack of a line; lost says that none of the shelves has it.
func (k *checking) pack(ctx context.Context, l *Line, sum packs.Summary) (lost bool, err error) {
	name := packName(k.partition, sum.SHA256)
	return k.file(ctx, l, name, sum.Size, func(on shelf.Shelf) error { return shelves.IsPack(ctx, on, name, sum) })
}

// errGone says that a file is not there.
var errGone = errors.New("no file")

// is compares a line with its file on a shelf.
func (l *Line) is(ctx context.Context, on shelf.Shelf) error {
	return shelves.IsText(ctx, on, l.Name(), l.text)
}

// file looks at a file on each shelf, and heals it where it is to; lost says that none has it.
func (k *checking) file(ctx context.Context, l *Line, name string, size int64, is func(shelf.Shelf) error) (lost bool, err error) {
	k.named[name] = true
	wrong, err := shelves.Look(ctx, k.Shelves, name, size, k.heal, is)
	if err != nil {
		return false, unavailable(err)
	}
	for _, w := range wrong {
		k.found(Finding{Partition: k.partition, Line: l.Number, Copy: w.Shelf > 0, File: name, Message: w.Message, Healed: w.Healed})
	}
	return len(wrong) == len(k.Shelves), nil
}

// orphans names the files of a partition that no line does, and what is to be said of them.
func (k *checking) orphans(ctx context.Context, b *branch) error {
	for i, on := range k.Shelves {
		for _, folder := range []string{"manifest", "packs"} {
			list, err := on.List(ctx, fmt.Sprintf("%s/p%02d/", folder, k.partition))
			if err != nil {
				return unavailable(err)
			}
			for _, file := range list {
				if !k.named[file.Name] {
					message := cmp.Or(b.told[file.Name], "no line of the manifest refers to it")
					k.found(Finding{Partition: k.partition, Copy: i > 0, File: file.Name, Message: message, Orphan: !b.wrong[file.Name]})
				}
			}
		}
	}
	return nil
}
