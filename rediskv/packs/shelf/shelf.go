// Package shelf is where the files of an archive lie: packs and small texts, each whole or
// not there at all, never replaced, and safe from a power cut once Put has returned. Names
// are paths with slashes. A shelf is a local directory, which is here, or a bucket (package
// shelf/s3).
package shelf

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// Shelf is where packs and small texts lie. Several processes may use one at once, and it is
// safe for concurrent use.
type Shelf interface {
	// Put writes a file of a size in bytes, unless it is there. After it has returned without
	// an error, the file is whole, and stays so. One that is there with the same content is
	// fine; with another, it is fs.ErrExist and is left alone. After an error there is no file,
	// or all of it: put it again.
	Put(ctx context.Context, name string, size int64, r io.Reader) error
	// Read opens a file. One that is not there is fs.ErrNotExist. Close the object after use.
	Read(ctx context.Context, name string) (Object, error)
	// Text reads a small file: at most MaxText. One that is not there is fs.ErrNotExist.
	Text(ctx context.Context, name string) ([]byte, error)
	// List returns the files whose names begin with a prefix, in the order of their names.
	// What is being put is not there yet, and what has no valid name is not ours.
	List(ctx context.Context, prefix string) ([]Item, error)
	// Remove removes a file. One that is not there is fine.
	Remove(ctx context.Context, name string) error
	// Sweep removes what was being put when a process died, if nothing has been written to it
	// since a time. A Put that is slower than that fails. removed is how many files there were.
	Sweep(ctx context.Context, olderThan time.Time) (removed int, err error)
}

// Object is a file that is open for reading.
type Object interface {
	// Size is the file's in bytes.
	Size() int64
	// ReadAt fills p from an offset on, or it fails: with io.ErrUnexpectedEOF where the file
	// has fewer bytes. What it reads is always of the file that was opened, even if that has
	// been removed or replaced since; where it cannot be, it fails. Several may call it at once.
	ReadAt(ctx context.Context, p []byte, off int64) error
	// Close ends the reading.
	Close() error
}

// Item is a file on the shelf.
type Item struct {
	Name string
	Size int64 // bytes
}

// MaxText bounds what Text reads: 1 MiB.
const MaxText = 1 << 20

// longestName is what S3 allows.
const longestName = 1024

// CheckName refuses what no file may be named.
func CheckName(name string) error {
	if !ValidName(name) {
		return fmt.Errorf("%.200q is no name: use a-z, 0-9, dots, dashes and underscores, with slashes between, and no two dots", name)
	}
	return nil
}

// CheckPrefix refuses what no name begins with.
func CheckPrefix(prefix string) error {
	if !validLetters(prefix) || strings.HasPrefix(prefix, "/") {
		return fmt.Errorf("no name begins with %.200q", prefix)
	}
	return nil
}

// ValidName says whether a file may have a name.
func ValidName(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || len(part) > 255 {
			return false
		}
	}
	return len(name) <= longestName && validLetters(name)
}

func validLetters(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789._/-") == "" && !strings.Contains(name, "..")
}

// CheckSize refuses a content whose size is not the one that was announced.
func CheckSize(is, announced int64) error {
	switch {
	case is > announced:
		return fmt.Errorf("there are more than the %d bytes that were announced", announced)
	case is < announced:
		return fmt.Errorf("there are %d bytes of the %d that were announced: %w", is, announced, io.ErrUnexpectedEOF)
	}
	return nil
}

// Reader is one that ends with a context.
func Reader(ctx context.Context, r io.Reader) io.Reader { return &reader{ctx, r} }

type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
