package cli

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReadJWKs(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.jwk")
	if err := os.WriteFile(file, []byte("{\"kty\":\"F\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]string{
		"":                          nil,
		`{"kty":"A","x":1}`:         {`{"kty":"A","x":1}`},
		`{"k":"A"},{"k":"B"}`:       {`{"k":"A"}`, `{"k":"B"}`},
		"{\"k\":\"A\"}\n" + file:    {`{"k":"A"}`, `{"kty":"F"}`},
		file + ", " + file:          {`{"kty":"F"}`, `{"kty":"F"}`},
		" " + file + " \n{\"k\":1}": {`{"kty":"F"}`, `{"k":1}`},
	} {
		keys, err := ReadJWKs(text)
		var got []string
		for _, k := range keys {
			got = append(got, string(k))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{`{"secret":`, filepath.Join(dir, "none")} {
		if _, err := ReadJWKs(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestReadSecretKey(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 32)
	text := base64.StdEncoding.EncodeToString(key)
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{text, file} {
		if got, err := ReadSecretKey(from); err != nil || !bytes.Equal(got, key) {
			t.Errorf("%v", err)
		}
	}
	short := base64.StdEncoding.EncodeToString(key[:31])
	if _, err := ReadSecretKey(short); err == nil || strings.Contains(err.Error(), short) {
		t.Errorf("31 bytes: %v", err) // the message must not hold what may be a secret
	}
}
