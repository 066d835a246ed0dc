package abi

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

const (
	ManifestSection = "tollgate.manifest"
	maxManifest     = 4096
	MaxLabel        = 64

	// ABI is what a manifest must name.
	ABI = "tollgate:rule/1"
)

// Manifest is what a module says of itself: a JSON object in the custom
// section "tollgate.manifest". It has no name and no version; those are the
// citation's, which the host gives.
type Manifest struct {
	ABI   string `json:"abi"`   // "tollgate:rule/1"
	Label string `json:"label"` // of lines that bring none: 1–64 bytes of printable UTF-8
}

func parseManifest(b []byte) (Manifest, error) {
	var m Manifest
	if len(b) > maxManifest {
		return m, fmt.Errorf("manifest of %d bytes, at most %d are allowed", len(b), maxManifest)
	}
	if err := json.Unmarshal(b, &m, json.RejectUnknownMembers(true)); err != nil {
		return m, fmt.Errorf("manifest: %w", err)
	}
	return m, m.Check()
}

// Check reports what is wrong with a manifest.
func (m Manifest) Check() error {
	if m.ABI != ABI {
		return fmt.Errorf("manifest: abi is %q, not %q", m.ABI, ABI)
	}
	if !Printable([]byte(m.Label), MaxLabel) {
		return fmt.Errorf("manifest: a label is 1 to %d bytes of printable UTF-8", MaxLabel)
	}
	return nil
}

// Printable reports whether text is 1 to limit bytes of UTF-8 that show: no
// control characters, no line breaks, no invisible or direction-changing ones.
func Printable(text []byte, limit int) bool {
	if len(text) == 0 || len(text) > limit || !utf8.Valid(text) {
		return false
	}
	return bytes.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}
