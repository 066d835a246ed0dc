package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

var at = time.Unix(1_800_000_000, 0).UTC()

// The order in which files were made, and where, makes no difference; the program can be
// run.
func TestArchivesAreReproducible(t *testing.T) {
	files := []file{{"tollgate", []byte("program"), true}, {"README.md", []byte("text"), false}}
	turned := []file{files[1], files[0]}
	for name, pack := range map[string]func(string, []file, time.Time) ([]byte, error){"tar": tarball, "zip": zipped} {
		a, err := pack("tollgate_1", files, at)
		if err != nil {
			t.Fatal(err)
		}
		b, err := pack("tollgate_1", turned, at)
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: two archives differ, %v", name, err)
		}
		if c, _ := pack("tollgate_1", files, at.Add(time.Hour)); bytes.Equal(a, c) {
			t.Errorf("%s: the time is not in it: the test does not see it", name)
		}
	}
	packed, err := tarball("tollgate_1", files, at)
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(unpacked); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(h.Name, "/tollgate") != (h.Mode == 0o755) || h.Uid != 0 || h.Uname != "" || !h.ModTime.Equal(at) {
			t.Errorf("%+v", h)
		}
		names = append(names, h.Name)
	}
	if strings.Join(names, " ") != "tollgate_1/README.md tollgate_1/tollgate" {
		t.Errorf("it holds %v", names)
	}
	if packed, err = zipped("tollgate_1", files, at); err != nil {
		t.Fatal(err)
	}
	if r, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed))); err != nil || len(r.File) != 2 {
		t.Errorf("zip: %v", err)
	}
}

// TARGETS of the Makefile has spaces between them, the default commas.
func TestTargets(t *testing.T) {
	for text, want := range map[string]int{everyTarget: 6, "linux/amd64": 1, "windows/amd64 windows/arm64": 2, "": 0} {
		if got := targetsOf(text); len(got) != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// The bill of a program names its modules with their checksums: of this test, say.
func TestBillNamesModules(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := billOf(program, "v1", at)
	if err != nil {
		t.Fatal(err)
	}
	var b struct {
		BomFormat, SpecVersion string
		Metadata               struct{ Timestamp string }
		Components             []struct {
			Name, Version, Purl string
			Properties          []struct{ Value string }
		}
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	if b.BomFormat != "CycloneDX" || b.SpecVersion != "1.6" || b.Metadata.Timestamp != "2027-01-15T08:00:00Z" || b.Components[0].Name != "stdlib" {
		t.Errorf("%s", text)
	}
	found := false
	for _, c := range b.Components {
		if c.Name == "github.com/go-json-experiment/json" {
			found = c.Purl == "pkg:golang/"+c.Name+"@"+c.Version && strings.HasPrefix(c.Properties[0].Value, "h1:")
		}
	}
	if !found {
		t.Errorf("it lacks a module:\n%s", text)
	}
}
