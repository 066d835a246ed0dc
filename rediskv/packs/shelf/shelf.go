// Package shelf is the only one that knows where the files of an archive lie, and how one
// gets there so that it stays: whole or not at all, never replaced, and safe from a power
// cut once Put has returned. Names are paths with slashes. A shelf is a local directory for
// now, on a file system that has hard links.
package shelf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Shelf is where packs and small texts lie. Several processes may use one at once.
type Shelf struct {
	root string
	sync func(*os.File) error // a test's can fail
}

// Open returns the shelf at a URL: file:///abs/path. It touches nothing: a directory that
// is not there is an empty shelf, and Put makes it.
func Open(at string) (*Shelf, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, fmt.Errorf("open shelf: %w; use file:///path/of/a/directory", errors.Unwrap(err)) // without the URL, which can have a secret
	}
	root := filepath.FromSlash(u.Path)
	switch {
	case u.Scheme != "file":
		return nil, fmt.Errorf("open shelf %s: the scheme is %q; use file:///path/of/a/directory", u.Redacted(), u.Scheme)
	case u.Host != "" || u.User != nil:
		return nil, fmt.Errorf("open shelf %s: a directory has no host; use three slashes, as in file:///path/of/a/directory", u.Redacted())
	case !filepath.IsAbs(root):
		return nil, fmt.Errorf("open shelf %s: the path is not absolute; use file:///path/of/a/directory", at)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("open shelf %s: a directory has no query and no fragment; write ? as %%3F and # as %%23", at)
	case strings.ContainsRune(root, 0):
		return nil, fmt.Errorf("open shelf %s: a path has no zero byte", at)
	}
	return &Shelf{filepath.Clean(root), (*os.File).Sync}, nil
}

// longestName is what S3 allows.
const longestName = 1024

// validName says whether a file may have a name.
func validName(name string) bool {
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

// place is the path of a file.
func (s *Shelf) place(name string) (string, error) {
	if !validName(name) {
		return "", fmt.Errorf("%.200q is no name: use a-z, 0-9, dots, dashes and underscores, with slashes between, and no two dots", name)
	}
	return filepath.Join(s.root, filepath.FromSlash(name)), nil
}

// Object is a file that is open for reading. It stays as it is, even if it is removed.
type Object struct {
	file *os.File
	size int64
}

// Read opens a file. One that is not there is fs.ErrNotExist. Close the object after use.
func (s *Shelf) Read(ctx context.Context, name string) (*Object, error) {
	place, err := s.place(name)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("read from shelf: %w", err)
	}
	o, err := open(place)
	if err != nil {
		return nil, fmt.Errorf("read from shelf: %w", err)
	}
	return o, nil
}

// open opens a regular file. Whatever else is there was not put: nobody waits for a pipe.
func open(place string) (*Object, error) {
	info, err := os.Lstat(place)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: place, Err: fs.ErrNotExist}
	}
	file, err := os.Open(place)
	if err != nil {
		return nil, err
	}
	return &Object{file, info.Size()}, nil
}

// Size is the file's in bytes.
func (o *Object) Size() int64 { return o.size }

// ReadAt fills p from an offset on, or it fails. Several may call it at once.
func (o *Object) ReadAt(ctx context.Context, p []byte, off int64) error {
	err := ctx.Err()
	if err == nil {
		_, err = o.file.ReadAt(p, off)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("read %d bytes at %d of %s: %w", len(p), off, o.file.Name(), err)
	}
	return nil
}

// Close ends the reading.
func (o *Object) Close() error { return o.file.Close() }

// longestText bounds what Text reads.
const longestText = 1 << 20

// Text reads a small file: at most 1 MiB. One that is not there is fs.ErrNotExist.
func (s *Shelf) Text(ctx context.Context, name string) ([]byte, error) {
	o, err := s.Read(ctx, name)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	if o.size > longestText {
		return nil, fmt.Errorf("read text %s: it has %d bytes; at most %d", name, o.size, longestText)
	}
	text := make([]byte, o.size)
	if err := o.ReadAt(ctx, text, 0); err != nil {
		return nil, err
	}
	return text, nil
}
