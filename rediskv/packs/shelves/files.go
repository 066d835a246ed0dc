// Package shelves works with files that are on several shelves, each of which has all of
// them: packs are read from the first one that has them as they were written, and what is
// damaged on one is written again from another.
package shelves

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"tollgate/rediskv/packs"
	"tollgate/rediskv/packs/shelf"
)

// ErrOther says that a file is not what it should be.
var ErrOther = errors.New("it is another one")

// Trimmed is an error's text without that of ErrOther in front.
func Trimmed(err error) string { return strings.TrimPrefix(err.Error(), ErrOther.Error()+": ") }

// IsOf compares a pack's index with what is known of the pack.
func IsOf(is packs.Index, sum packs.Summary) error {
	if is.Rows != sum.Rows || is.First != sum.First || is.Last != sum.Last {
		return fmt.Errorf("%w: it has %d rows from %s to %s, and its line says %d from %s to %s", ErrOther, is.Rows, is.First, is.Last, sum.Rows, sum.First, sum.Last)
	}
	return nil
}

// IsPack reads all of a pack on a shelf, and compares it with what is known of it.
func IsPack(ctx context.Context, on shelf.Shelf, name string, sum packs.Summary) error {
	object, err := on.Read(ctx, name)
	if err != nil {
		return err
	}
	defer object.Close()
	pack, err := packs.Verify(ctx, ReadAhead(object), object.Size(), sum.SHA256)
	if _, damaged := errors.AsType[*packs.DamagedError](err); damaged {
		return fmt.Errorf("%w: %w", ErrOther, err)
	}
	if err != nil {
		return err
	}
	return IsOf(pack.Index(), sum)
}

// IsText compares a small file on a shelf with what it should be.
func IsText(ctx context.Context, on shelf.Shelf, name, text string) error {
	is, err := on.Text(ctx, name)
	if err == nil && string(is) != text {
		err = fmt.Errorf("%w: Redis has another text of this line", ErrOther)
	}
	return err
}

// SameFile compares the size and the SHA-256 of a file.
func SameFile(ctx context.Context, object shelf.Object, sum packs.Summary) error {
	h, part := sha256.New(), make([]byte, 1<<18)
	if object.Size() != sum.Size {
		return fmt.Errorf("it has %d bytes, and %d were written", object.Size(), sum.Size)
	}
	for at := int64(0); at < sum.Size; at += int64(len(part)) {
		part = part[:min(int64(len(part)), sum.Size-at)]
		if err := object.ReadAt(ctx, part, at); err != nil {
			return err
		}
		h.Write(part)
	}
	if is := hex.EncodeToString(h.Sum(nil)); is != sum.SHA256 {
		return fmt.Errorf("its SHA-256 is %s", is)
	}
	return nil
}

// ReadBack compares a pack on a shelf with what was written: the file, and each row by its
// SHA-256.
func ReadBack(ctx context.Context, on shelf.Shelf, name string, sum packs.Summary, rows [][sha256.Size]byte) error {
	there, err := on.Read(ctx, name)
	if err != nil {
		return err
	}
	defer there.Close()
	object := ReadAhead(there)
	if err := SameFile(ctx, object, sum); err != nil {
		return err
	}
	pack, err := packs.Open(ctx, object, object.Size())
	if err != nil {
		return err
	}
	i := 0
	for n := range pack.Index().Frames {
		f, err := pack.Frame(ctx, n)
		if err != nil {
			return err
		}
		for id, row := range f.Rows() {
			if i >= len(rows) || sha256.Sum256(row) != rows[i] {
				return fmt.Errorf("row %s is another one", id)
			}
			i++
		}
	}
	if i != len(rows) {
		return fmt.Errorf("it has %d rows, and %d were written", i, len(rows))
	}
	return nil
}

// Wrong is what is not right with a file.
type Wrong struct {
	Shelf   int
	Message string
	Healed  bool // it was written again
}

// Look looks at a file on each shelf. If it is to heal, it writes the file again where it is
// missing or damaged, from a shelf that has it. The error says that a shelf cannot be read.
func Look(ctx context.Context, shelves []shelf.Shelf, name string, size int64, heal bool, is func(shelf.Shelf) error) (wrong []Wrong, err error) {
	right := -1
	for i, on := range shelves {
		switch err := is(on); {
		case err == nil:
			right = i
		case errors.Is(err, fs.ErrNotExist):
			wrong = append(wrong, Wrong{Shelf: i, Message: "the manifest names it, and it is not here"})
		case errors.Is(err, ErrOther):
			wrong = append(wrong, Wrong{Shelf: i, Message: Trimmed(err)})
		default:
			return nil, err
		}
	}
	for i := range wrong {
		if heal && right >= 0 {
			if err := again(ctx, shelves[right], shelves[wrong[i].Shelf], name, size); err != nil {
				return nil, err
			}
			wrong[i].Healed = true
		}
	}
	return wrong, nil
}

// again writes a file of one shelf to another, in place of what is there.
func again(ctx context.Context, from, to shelf.Shelf, name string, size int64) error {
	object, err := from.Read(ctx, name)
	if err != nil {
		return err
	}
	defer object.Close()
	if err := to.Remove(ctx, name); err != nil {
		return err
	}
	return to.Put(ctx, name, size, io.NewSectionReader(readerAt{ctx, ReadAhead(object)}, 0, size))
}

// readerAt is an object as package io reads it.
type readerAt struct {
	ctx    context.Context
	object shelf.Object
}

func (r readerAt) ReadAt(p []byte, off int64) (int, error) {
	if err := r.object.ReadAt(r.ctx, p, off); err != nil {
		return 0, err
	}
	return len(p), nil
}
