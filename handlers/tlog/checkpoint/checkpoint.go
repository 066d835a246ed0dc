// Package checkpoint signs what an audit record's tree is at a moment, as C2SP
// tlog-checkpoint and signed-note have it: any witness of transparency logs can read it,
// and cosign it.
//
//	pay.example/audit/org_…/his_…          the origin: which tree
//	1284                                   its size
//	qT9K…=                                 its root
//	kept-from 120                          leaves before have no entry any more
//	sealed-at 2026-11-27T10:00:00.000Z
//
//	— pay.example/audit/org_…/his_… 5Qy8…  the signature
package checkpoint

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"tollgate"
	"tollgate/handlers/tlog"
)

// Checkpoint is what is signed.
type Checkpoint struct {
	Origin   string
	Size     int64
	Root     tlog.Hash
	KeptFrom int64 // leaves before may have no entry any more: the retention has removed them
	SealedAt tollgate.Instant
}

// Origin names the tree of an organization's audit record within a history, and the key
// that signs it: the issuer without its scheme, and both ids. Another history is another
// tree; under the same name a witness would take it for a rollback.
func Origin(issuer, organization, history string) string {
	_, name, _ := strings.Cut(issuer, "://")
	return strings.Join([]string{strings.TrimSuffix(name, "/"), "audit", organization, history}, "/")
}

const (
	keptFrom = "kept-from "
	sealedAt = "sealed-at "
)

func (c *Checkpoint) body() string {
	return fmt.Sprintf("%s\n%d\n%s\n%s%d\n%s%s\n", c.Origin, c.Size, base64.StdEncoding.EncodeToString(c.Root[:]), keptFrom, c.KeptFrom, sealedAt, c.SealedAt)
}

// Sign is the signed note.
func (c *Checkpoint) Sign(key ed25519.PrivateKey) (string, error) {
	vkey, err := VerifierKey(c.Origin, key.Public().(ed25519.PublicKey))
	if err != nil {
		return "", err
	}
	hash := strings.TrimPrefix(vkey, c.Origin+"+")
	hash, _, _ = strings.Cut(hash, "+")
	const ed25519Key = 1 // the algorithm, in front of the seed
	signer, err := note.NewSigner("PRIVATE+KEY+" + c.Origin + "+" + hash + "+" + base64.StdEncoding.EncodeToString(append([]byte{ed25519Key}, key.Seed()...)))
	if err != nil {
		return "", err
	}
	text, err := note.Sign(&note.Note{Text: c.body()}, signer)
	return string(text), err
}

// VerifierKey is the public key as signed-note writes it: name+id+key. Its id depends on
// the name, so that each tree has one of its own.
func VerifierKey(origin string, key ed25519.PublicKey) (string, error) {
	return note.NewEd25519VerifierKey(origin, key)
}

// PublicKey is the key in a verifier key, whatever its name, or in base64 by itself.
func PublicKey(vkey string) (ed25519.PublicKey, error) {
	if key, err := base64.StdEncoding.DecodeString(vkey); err == nil && len(key) == ed25519.PublicKeySize {
		return key, nil
	}
	if _, err := note.NewVerifier(vkey); err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(strings.SplitN(vkey, "+", 3)[2])
	if err != nil {
		return nil, err
	}
	return key[1:], nil
}

// ErrSignature: none of the known keys has signed it.
var ErrSignature = errors.New("it is signed by none of the known keys")

// Open reads a note that one of the keys has signed. Its error is ErrSignature, or says
// what is no checkpoint.
func Open(text string, keys ...ed25519.PublicKey) (Checkpoint, error) {
	c, err := Parse(text)
	if err != nil {
		return c, err
	}
	var verifiers []note.Verifier
	for _, key := range keys {
		vkey, err := VerifierKey(c.Origin, key)
		if err != nil {
			return c, err
		}
		v, err := note.NewVerifier(vkey)
		if err != nil {
			return c, err
		}
		verifiers = append(verifiers, v)
	}
	if _, err := note.Open([]byte(text), note.VerifierList(verifiers...)); err != nil {
		return c, ErrSignature
	}
	return c, nil
}

// Parse reads a note and does not look at who signed it. Other extension lines may
// stand behind ours, and cosignatures behind the signature.
func Parse(text string) (c Checkpoint, err error) {
	body, _, ok := strings.Cut(text, "\n\n")
	lines := strings.Split(body, "\n")
	if !ok || len(lines) < 5 {
		return c, errors.New("it is no checkpoint: origin, size, root and two more lines are expected")
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(root) != len(c.Root) {
		return c, errors.New("its root is no SHA-256 in base64")
	}
	c.Origin, c.Root = lines[0], tlog.Hash(root)
	var faults [3]error
	c.Size, faults[0] = count(lines[1])
	c.KeptFrom, faults[1] = count(strings.TrimPrefix(lines[3], keptFrom))
	c.SealedAt, faults[2] = tollgate.ParseInstant(strings.TrimPrefix(lines[4], sealedAt))
	if errors.Join(faults[:]...) != nil || c.body() != strings.Join(lines[:5], "\n")+"\n" || c.KeptFrom > c.Size {
		return c, errors.New("its lines are not those of a checkpoint of this service")
	}
	return c, nil
}

func count(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && n < 0 {
		err = errors.New("negative")
	}
	return n, err
}
