package checkpoint_test

import (
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"tollgate/handlers/tlog"
	"tollgate/handlers/tlog/checkpoint"
)

func key(b byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(b)), ed25519.SeedSize)))
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

var one = checkpoint.Checkpoint{
	Origin: checkpoint.Origin("https://pay.example/", "org_1", "his_1"), Size: 7, Root: tlog.LeafHash("root"), KeptFrom: 2, SealedAt: 1_700_000_000_000,
}

// A checkpoint is a signed note: another reader of notes opens it with the verifier key.
func TestCheckpointIsASignedNote(t *testing.T) {
	t.Parallel()
	text, err := one.Sign(key('a'))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(text, "pay.example/audit/org_1/his_1\n7\n") {
		t.Errorf("it begins otherwise: %q", text)
	}
	vkey, err := checkpoint.VerifierKey(one.Origin, public(key('a')))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := note.Open([]byte(text), note.VerifierList(verifier)); err != nil {
		t.Error(err)
	}
	read, err := checkpoint.Open(text, public(key('b')), public(key('a')))
	if err != nil || read != one {
		t.Errorf("read back: %+v, %v", read, err)
	}
	if k, err := checkpoint.PublicKey(vkey); err != nil || !k.Equal(public(key('a'))) {
		t.Errorf("the verifier key holds %x, %v", k, err)
	}
	if _, err := checkpoint.PublicKey("nonsense"); err == nil {
		t.Error("nonsense is a verifier key")
	}
}

// Whatever is changed in one, and whoever else has signed it, is refused.
func TestOtherCheckpointsAreRefused(t *testing.T) {
	t.Parallel()
	text, err := one.Sign(key('a'))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := checkpoint.Open(text, public(key('b'))); !errors.Is(err, checkpoint.ErrSignature) {
		t.Errorf("of another key: %v", err)
	}
	if _, err := checkpoint.Open(text); !errors.Is(err, checkpoint.ErrSignature) {
		t.Errorf("of no known key: %v", err)
	}
	for at := range text {
		changed := text[:at] + string(text[at]^1) + text[at+1:]
		if _, err := checkpoint.Open(changed, public(key('a'))); err == nil {
			t.Errorf("byte %d is another one, and it is accepted: %q", at, changed)
		}
	}
	for _, lines := range []string{
		"", "o\n1\n\n", strings.Replace(text, "\n7\n", "\n07\n", 1), strings.Replace(text, "\n7\n", "\n-7\n", 1),
		strings.Replace(text, "kept-from 2", "kept-from 8", 1), strings.Replace(text, "kept-from", "from", 1),
	} {
		if c, err := checkpoint.Parse(lines); err == nil {
			t.Errorf("%q is read as %+v", lines, c)
		}
	}
}

// A cosignature of a witness stands behind, and changes nothing.
func TestCosignedCheckpoint(t *testing.T) {
	t.Parallel()
	text, err := one.Sign(key('a'))
	if err != nil {
		t.Fatal(err)
	}
	witness, err := one.Sign(key('w'))
	if err != nil {
		t.Fatal(err)
	}
	cosigned := text + strings.Replace(witness[strings.Index(witness, "— "):], one.Origin, "witness.example", 1)
	if read, err := checkpoint.Open(cosigned, public(key('a'))); err != nil || read != one {
		t.Errorf("%+v, %v", read, err)
	}
}
