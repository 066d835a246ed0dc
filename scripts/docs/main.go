// Command docs renders the documentation into the static files that the program
// serves: handlers/docs/*.md and handlers/openapi.json become handlers/docs/site, and
// handlers/openapi.json.gz is the contract as the program carries it. The files are kept
// in the repository, so that building the program needs none of this, and tests hold
// them to their sources.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	root := flag.String("root", "../..", "folder of the repository")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

// run renders, and leaves only what it has rendered. A file that already says the same
// stays as it is: another Go may pack otherwise.
func run(root string) error {
	files, err := render(root)
	if err != nil {
		return err
	}
	kept, err := readSite(root)
	if err != nil {
		return err
	}
	dir := siteOf(root)
	for name := range kept {
		if files[name] == nil {
			if err := os.Remove(filepath.Join(dir, name+".gz")); err != nil {
				return err
			}
		}
	}
	for name, content := range files {
		if bytes.Equal(kept[name], content) {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name+".gz"), pack(content), 0o644); err != nil {
			return err
		}
	}
	return packContract(root)
}

// packContract packs the contract where it has changed.
func packContract(root string) error {
	name := filepath.Join(root, "handlers", "openapi.json")
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	kept, err := readPacked(name + ".gz")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if bytes.Equal(kept, content) {
		return nil
	}
	return os.WriteFile(name+".gz", pack(content), 0o644)
}

// siteOf is where the rendered files are kept.
func siteOf(root string) string { return filepath.Join(root, "handlers", "docs", "site") }

// pack has no time and no name in it: the same content is the same file.
func pack(content []byte) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(content)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil { // a buffer takes everything
		panic(err)
	}
	return b.Bytes()
}

// readSite is what was rendered before.
func readSite(root string) (map[string][]byte, error) {
	names, err := filepath.Glob(filepath.Join(siteOf(root), "*.gz"))
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte, len(names))
	for _, name := range names {
		if files[strings.TrimSuffix(filepath.Base(name), ".gz")], err = readPacked(name); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// readPacked is what pack packed into a file.
func readPacked(name string) ([]byte, error) {
	packed, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	content, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return content, nil
}
