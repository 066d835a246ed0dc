package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"tollgate/rediskv/packs"
)

// Finding is what a check of an archive has found.
type Finding struct {
	Partition int    `json:"partition"`
	Line      int64  `json:"line,omitzero"` // of the manifest; 0: it is of none
	File      string `json:"file"`
	Message   string `json:"message"`
	// Orphan says that nothing refers to a file: a worker has died before its line was
	// added, or Redis was put back from a copy of before. Nothing is lost by that.
	Orphan bool `json:"orphan,omitzero"`
}

// Checked counts what was compared.
type Checked struct {
	Lines    int64 `json:"lines"`
	Packs    int64 `json:"packs"`
	Payments int64 `json:"payments"`
	Bytes    int64 `json:"bytes"`
}

// Check reads all packs of a partition and compares them with the manifest: that each line
// follows the one before and is on the shelf, that each file is what its name says, and that
// each frame and row can be read. It writes nothing.
func (s *Store) Check(ctx context.Context, partition int, found func(Finding)) (c Checked, err error) {
	m, err := s.manifest(ctx, partition, true)
	if err != nil {
		return c, err
	}
	named := map[string]bool{}
	previous := ""
	for _, l := range m.lines {
		wrong := func(file, format string, args ...any) {
			found(Finding{Partition: partition, Line: l.Number, File: file, Message: fmt.Sprintf(format, args...)})
		}
		if l.Previous != previous {
			wrong(l.Name(), "it does not follow the line before")
		}
		previous = l.digest()
		c.Lines++
		named[l.Name()] = true
		switch text, err := s.Shelf.Text(ctx, l.Name()); {
		case errors.Is(err, fs.ErrNotExist):
			wrong(l.Name(), "Redis has this line, and it is not here")
		case err != nil:
			return c, unavailable(err)
		case string(text) != l.text:
			wrong(l.Name(), "Redis has another text of this line")
		}
		for _, sum := range []packs.Summary{l.Payments, l.Parts} {
			name := packName(partition, sum.SHA256)
			named[name] = true
			if err := s.checkPack(ctx, name, sum, wrong); err != nil {
				return c, err
			}
			c.Packs++
			c.Bytes += sum.Size
		}
		c.Payments += l.Payments.Rows
	}
	return c, s.orphans(ctx, partition, named, found)
}

// checkPack compares a pack with what its line says of it.
func (s *Store) checkPack(ctx context.Context, name string, sum packs.Summary, wrong func(file, format string, args ...any)) error {
	object, err := s.Shelf.Read(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		wrong(name, "the manifest names it, and it is not here")
		return nil
	}
	if err != nil {
		return unavailable(err)
	}
	defer object.Close()
	pack, err := packs.Verify(ctx, object, object.Size(), sum.SHA256)
	if err != nil {
		wrong(name, "%v", err)
		return nil
	}
	if is := pack.Index(); is.Rows != sum.Rows || is.First != sum.First || is.Last != sum.Last {
		wrong(name, "it has %d rows from %s to %s, and its line says %d from %s to %s", is.Rows, is.First, is.Last, sum.Rows, sum.First, sum.Last)
	}
	return nil
}

// orphans names the files of a partition that no line does.
func (s *Store) orphans(ctx context.Context, partition int, named map[string]bool, found func(Finding)) error {
	for _, folder := range []string{"manifest", "packs"} {
		list, err := s.Shelf.List(ctx, fmt.Sprintf("%s/p%02d/", folder, partition))
		if err != nil {
			return unavailable(err)
		}
		for _, file := range list {
			if !named[file.Name] {
				found(Finding{Partition: partition, File: file.Name, Message: "no line of the manifest refers to it", Orphan: true})
			}
		}
	}
	return nil
}
