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

// Directory is a shelf in a local directory, on a file system that has hard links.
type Directory struct {
	root string
	sync func(*os.File) error // a test's can fail
}

// Open returns the shelf at a URL: file:///abs/path. It touches nothing: a directory that
// is not there is an empty shelf, and Put makes it.
func Open(at string) (*Directory, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, fmt.Errorf("open shelf: %w; use file:///path/of/a/directory", errors.Unwrap(err)) // without the URL, which can have a secret
	}
	root := filepath.FromSlash(u.Path)
	switch {
	case u.Scheme != "file":
		return nil, fmt.Errorf("open shelf: the scheme is %q; use file:///path/of/a/directory or s3://bucket/prefix", u.Scheme)
	case u.Host != "" || u.User != nil:
		return nil, errors.New("open shelf: a directory has no host; use three slashes, as in file:///path/of/a/directory")
	case !filepath.IsAbs(root):
		return nil, fmt.Errorf("open shelf %s: the path is not absolute; use file:///path/of/a/directory", at)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("open shelf %s: a directory has no query and no fragment; write ? as %%3F and # as %%23", at)
	case strings.ContainsRune(root, 0):
		return nil, fmt.Errorf("open shelf %s: a path has no zero byte", at)
	}
	return &Directory{filepath.Clean(root), (*os.File).Sync}, nil
}

// place is the path of a file.
func (s *Directory) place(name string) (string, error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	return filepath.Join(s.root, filepath.FromSlash(name)), nil
}

// opened is a file that is open for reading. It stays as it is, even if it is removed.
type opened struct {
	file *os.File
	size int64
}

// Read opens a file, as Shelf says.
func (s *Directory) Read(ctx context.Context, name string) (Object, error) {
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
func open(place string) (*opened, error) {
	info, err := os.Lstat(place)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: place, Err: fs.ErrNotExist}
	}
	f, err := os.Open(place)
	if err != nil {
		return nil, err
	}
	return &opened{f, info.Size()}, nil
}

func (o *opened) Size() int64 { return o.size }

func (o *opened) ReadAt(ctx context.Context, p []byte, off int64) error {
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

func (o *opened) Close() error { return o.file.Close() }

// Text reads a small file, as Shelf says.
func (s *Directory) Text(ctx context.Context, name string) ([]byte, error) {
	o, err := s.Read(ctx, name)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	if o.Size() > MaxText {
		return nil, fmt.Errorf("read text %s: it has %d bytes; at most %d", name, o.Size(), MaxText)
	}
	text := make([]byte, o.Size())
	if err := o.ReadAt(ctx, text, 0); err != nil {
		return nil, err
	}
	return text, nil
}
