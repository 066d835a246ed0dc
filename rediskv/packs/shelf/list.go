package shelf

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// List returns files, as Shelf says.
func (s *Directory) List(ctx context.Context, prefix string) ([]Item, error) {
	if err := CheckPrefix(prefix); err != nil {
		return nil, fmt.Errorf("list shelf: %w", err)
	}
	var all []Item
	err := s.walk(ctx, path.Dir(prefix), func(name string, info fs.FileInfo) error {
		if ValidName(name) && strings.HasPrefix(name, prefix) {
			all = append(all, Item{name, info.Size()})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list shelf: %w", err)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all, nil
}

// walk visits the regular files in a directory and those below. What goes meanwhile is left
// out, and directories that are not ours too.
func (s *Directory) walk(ctx context.Context, dir string, visit func(name string, info fs.FileInfo) error) error {
	return fs.WalkDir(os.DirFS(s.root), dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case entry.IsDir() && name != "." && !ValidName(name):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return visit(name, info)
	})
}

// Remove removes a file, as Shelf says.
func (s *Directory) Remove(ctx context.Context, name string) error {
	place, err := s.place(name)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = s.remove(place)
	}
	if err != nil {
		return fmt.Errorf("remove from shelf: %w", err)
	}
	return nil
}

func (s *Directory) remove(place string) error {
	info, err := os.Lstat(place)
	if err == nil && info.Mode().IsRegular() {
		err = os.Remove(place)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Who removed it before may have died before this.
	if err := s.syncDir(filepath.Dir(place)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Sweep removes what a process that died was putting, as Shelf says.
func (s *Directory) Sweep(ctx context.Context, olderThan time.Time) (removed int, err error) {
	err = s.walk(ctx, ".", func(name string, info fs.FileInfo) error {
		if left, _ := path.Match(unfinished, path.Base(name)); !left || !info.ModTime().Before(olderThan) {
			return nil
		}
		err := os.Remove(filepath.Join(s.root, filepath.FromSlash(name)))
		if err == nil {
			removed++
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return removed, fmt.Errorf("sweep shelf: %w", err)
	}
	return removed, nil
}
