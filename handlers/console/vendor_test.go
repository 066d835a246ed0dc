package console_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The libraries of others are those that were looked at.
func TestVendoredFilesAreThoseOfTheSums(t *testing.T) {
	sums, err := os.ReadFile("page/vendor/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	var held []string
	for line := range strings.Lines(string(sums)) {
		want, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("no line of a sum: %q", line)
		}
		content, err := os.ReadFile(filepath.Join("page/vendor", name))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s has the SHA-256 %x, not %s", name, sum, want)
		}
		held = append(held, name)
	}
	files, err := os.ReadDir("page/vendor")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if served := filepath.Ext(f.Name()); (served == ".mjs" || served == ".js" || served == ".css") && !slices.Contains(held, f.Name()) {
			t.Errorf("%s has no sum", f.Name())
		}
	}
}
