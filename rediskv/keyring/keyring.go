// Package keyring keeps two documents: the keys that sign access tokens, and those that
// sign checkpoints of audit records. Each is one for the whole deployment, outside every
// partition: a change replaces all of it, or nothing.
package keyring

import (
	"context"
	"embed"
	"errors"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

//go:embed lua/*.lua
var lua embed.FS

// Store is that part of the state. It is safe for concurrent use.
type Store struct {
	db   *rediskv.DB
	last atomic.Pointer[string] // as it was last read, or kept by an earlier process
}

// New returns it on a database.
func New(db *rediskv.DB) *Store { return &Store{db: db} }

// Keyring is the document as Redis has it.
type Keyring struct {
	JSON string // empty: there is none
	text string
}

// Keyring reads the document. One that is damaged is returned with its error, so that
// another can be put in its place.
func (s *Store) Keyring(ctx context.Context) (Keyring, error) {
	if s.db.IsOffline() {
		return s.KeyringOf(s.KeptKeyring())
	}
	text, err := s.read(ctx, rediskv.KeyringKey)
	if err != nil {
		return Keyring{}, err
	}
	return s.KeyringOf(text)
}

// AuditKeys is Keyring for the keys that sign checkpoints.
func (s *Store) AuditKeys(ctx context.Context) (Keyring, error) {
	text, err := s.read(ctx, rediskv.AuditKeysKey)
	if err != nil {
		return Keyring{}, err
	}
	return parse(rediskv.AuditKeysKey, text)
}

func (s *Store) read(ctx context.Context, key string) (text string, err error) {
	err = s.db.Timed(ctx, "read_keyring", func(ctx context.Context) (err error) {
		if text, err = s.db.Redis.Get(ctx, key).Result(); errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	return text, err
}

// FirstKeyring is Keyring for a process that has just opened the Store, which costs
// nothing where the server has been asked then.
func (s *Store) FirstKeyring(ctx context.Context) (Keyring, error) {
	if text := s.db.GreetedKeyring(); text != nil {
		return s.KeyringOf(*text)
	}
	return s.Keyring(ctx)
}

// KeyringOf is Keyring for a text that was read together with something else.
func (s *Store) KeyringOf(text string) (Keyring, error) {
	found, err := Parse(text)
	if err == nil && text != "" {
		s.last.Store(&text)
	}
	return found, err
}

// Parse opens the text of the document with the keys that sign access tokens. Its error
// is damage.
func Parse(text string) (Keyring, error) { return parse(rediskv.KeyringKey, text) }

func parse(key, text string) (Keyring, error) {
	if text == "" {
		return Keyring{}, nil
	}
	document, err := record.Opened(key, text)
	if err != nil {
		return Keyring{text: text}, tollgate.Damage("keyring", key, err)
	}
	return Keyring{JSON: document, text: text}, nil
}

// ReplaceKeyring puts another document in the place of one that was read; somewhere in
// it is the id of the change. rediskv.ErrConflict: somebody else has been faster, and
// nothing is changed.
func (s *Store) ReplaceKeyring(ctx context.Context, change string, before Keyring, document string) error {
	return s.replace(ctx, rediskv.KeyringKey, change, before, document)
}

// ReplaceAuditKeys is ReplaceKeyring for the keys that sign checkpoints.
func (s *Store) ReplaceAuditKeys(ctx context.Context, change string, before Keyring, document string) error {
	return s.replace(ctx, rediskv.AuditKeysKey, change, before, document)
}

func (s *Store) replace(ctx context.Context, key, change string, before Keyring, document string) error {
	after := record.EnvelopedJSON(key, document)
	_, _, err := s.db.Run(ctx, scriptReplaceKeyring.With(keyringKeys{key}, keyringArgs{change, before.text, after}))
	return err
}

type (
	keyringKeys struct{ Keyring string }
	keyringArgs struct{ Change, Before, After string }
)

var scriptReplaceKeyring = script.NewOpen[keyringKeys, keyringArgs](lua, "replace_keyring")

// KeptKeyring is the document as it was last read, for a snapshot; private halves in it
// are encrypted. KeepKeyring is for a process that starts while Redis is away.
func (s *Store) KeptKeyring() string {
	if text := s.last.Load(); text != nil {
		return *text
	}
	return ""
}

// KeepKeyring takes over what KeptKeyring of an earlier process was.
func (s *Store) KeepKeyring(text string) { s.last.Store(&text) }
