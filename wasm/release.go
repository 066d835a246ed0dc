package wasm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/go-json-experiment/json"
)

// GoldenDigest is the one JSON text of golden cases and its SHA-256 in hex:
// however they were written, the same cases have the same.
func GoldenDigest(cases []GoldenCase) (text []byte, digest string, err error) {
	if text, err = json.Marshal(cases, json.Deterministic(true)); err != nil {
		return nil, "", fmt.Errorf("golden cases: %w", err)
	}
	sum := sha256.Sum256(text)
	return text, hex.EncodeToString(sum[:]), nil
}
