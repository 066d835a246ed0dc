package secret_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"tollgate/handlers/secret"
)

func vault(t *testing.T, keys ...byte) *secret.Vault {
	t.Helper()
	var secrets [][]byte
	for _, k := range keys {
		secrets = append(secrets, bytes.Repeat([]byte{k}, secret.Size))
	}
	v, err := secret.NewVault(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// sealed is what a vault makes of a text for a place.
func sealed(t *testing.T, v *secret.Vault, place, text string) []byte {
	t.Helper()
	b, err := v.Seal(rand.Reader, place, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestVault(t *testing.T) {
	one, two, both := vault(t, 1), vault(t, 2), vault(t, 2, 1)
	text := sealed(t, one, "we_1/1", "whsec")
	if bytes.Contains(text, []byte("whsec")) {
		t.Error("it can be read")
	}
	for _, v := range []*secret.Vault{one, both} {
		if got, err := v.Open("we_1/1", text); err != nil || string(got) != "whsec" {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := v.Open("we_2/1", text); err == nil {
			t.Error("it opens at another place")
		}
	}
	for i := range text {
		changed := slices.Clone(text)
		changed[i] ^= 1
		if _, err := both.Open("we_1/1", changed); err == nil {
			t.Errorf("byte %d may be another one", i)
		}
	}
	for _, short := range [][]byte{nil, text[:5], text[:12]} {
		if _, err := both.Open("we_1/1", short); err == nil {
			t.Errorf("%d bytes open", len(short))
		}
	}
	if _, err := two.Open("we_1/1", text); err == nil {
		t.Error("another key opens it")
	}
	for _, keys := range [][][]byte{nil, {make([]byte, 31)}, {make([]byte, 32), nil}} {
		if _, err := secret.NewVault(keys...); err == nil {
			t.Errorf("%d keys are taken", len(keys))
		}
	}
}

// The seal says which key encrypts, for all.
func TestSealSaysWhichKeyEncrypts(t *testing.T) {
	one, two, both := vault(t, 1), vault(t, 2), vault(t, 2, 1)
	mark, err := one.Mark(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := two.Use(mark); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Error(err)
	}
	if err := both.Use(mark); err != nil || both.Sealing() != one.Sealing() {
		t.Errorf("%s, %v", both.Sealing(), err)
	}
	text, cursor := sealed(t, both, "p", "x"), both.SealCursor([]byte("c"), []byte("b"))
	if _, err := one.Open("p", text); err != nil {
		t.Error("who has the key before alone cannot read it")
	}
	if _, err := one.OpenCursor(cursor, []byte("b")); err != nil {
		t.Error("who has the key before alone cannot read a cursor")
	}
	if again, err := both.Again(rand.Reader, "p", text); again != nil || err != nil {
		t.Errorf("%x, %v", again, err)
	}

	if mark, err = both.Mark(rand.Reader); err != nil {
		t.Fatal(err)
	}
	if err := both.Use(mark); err != nil || both.Sealing() != two.Sealing() {
		t.Errorf("%s, %v", both.Sealing(), err)
	}
	again, err := both.Again(rand.Reader, "p", text)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := two.Open("p", again); err != nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := both.Again(rand.Reader, "other", text); !errors.Is(err, secret.ErrUnreadable) {
		t.Errorf("of another place: %v", err)
	}
	if _, err := both.Again(strings.NewReader(""), "p", text); err == nil || errors.Is(err, secret.ErrUnreadable) {
		t.Errorf("without entropy: %v", err)
	}
	for _, c := range [][]byte{cursor, both.SealCursor([]byte("c"), []byte("b"))} {
		if got, err := both.OpenCursor(c, []byte("b")); err != nil || string(got) != "c" {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := both.OpenCursor(c, []byte("a")); err == nil {
			t.Error("a cursor of something else")
		}
	}
	if !slices.Equal(both.IDs(), []string{two.Sealing(), one.Sealing()}) || len(one.Sealing()) != 16 {
		t.Errorf("%v", both.IDs())
	}
}

// What releases before have encrypted is read, and so is what this one does by them.
func TestVaultReadsWhatWasBefore(t *testing.T) {
	v := vault(t, 1)
	if text, err := v.Open("we_1/1/v1", before); err != nil || string(text) != "secret" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := v.OpenCursor(cursorBefore, []byte("cursor/1")); err != nil || string(text) != "cursor" {
		t.Errorf("%q, %v", text, err)
	}
}

// before and cursorBefore were made by the build before, under the key of vault(t, 1).
var (
	before, _       = hex.DecodeString("59485e6e50bd8c5fca8d927bd8813a24c591ecb5d9245d6583a85f6c17cce3542602")
	cursorBefore, _ = hex.DecodeString("9a953d346300f724abdac4721c10686cd12af142e7bc9d545e8649d2c8ba20b0a191")
)

// A MAC is known by whoever has the key that made it, for the same use and text.
func TestMAC(t *testing.T) {
	mac := vault(t, 1).MAC("use", "text")
	for what, c := range map[string]struct {
		vault     *secret.Vault
		use, text string
		known     bool
	}{
		"the same":        {vault(t, 1), "use", "text", true},
		"the key before":  {vault(t, 2, 1), "use", "text", true},
		"another key":     {vault(t, 2), "use", "text", false},
		"another use":     {vault(t, 1), "other", "text", false},
		"another text":    {vault(t, 1), "use", "texts", false},
		"between the two": {vault(t, 1), "use\ntext", "", false},
	} {
		if c.vault.Knows(c.use, c.text, mac) != c.known {
			t.Error(what)
		}
	}
	if vault(t, 1).Knows("use", "text", mac[:31]) || vault(t, 1).Knows("use", "text", nil) {
		t.Error("a part of it is known")
	}
}
