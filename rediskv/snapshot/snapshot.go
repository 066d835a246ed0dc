// Package snapshot keeps what an instance knows of the configuration in files, so that
// it can quote after a start while Redis is away.
package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/store"
)

const (
	// interval is how often what has changed is written.
	interval = 5 * time.Second
	// remembered is how long what an earlier process knew stays, where this one has
	// not read it yet.
	remembered = time.Hour
	// forgotten is the age of files that nobody has written since.
	forgotten = 7 * 24 * time.Hour

	recordFile        = "redis.json"
	organizationFiles = ".org.json"
	moduleFiles       = ".wasm"
)

// Snapshot is a folder with what instances have known. It is a rediskv.Keeper.
type Snapshot struct {
	folder string
	clock  func() time.Time
	log    *slog.Logger

	found  record                  // as the process before has left it
	left   map[string]organization // the same, by id
	hashes map[string]hash         // the same, of all organizations, by key

	written map[string][sha256.Size]byte // by file
	failing string                       // why the last attempt to write failed
}

// record is what is to be known of a Redis before anything can be read.
type record struct {
	Partitions int              `json:"partitions"`
	Seal       []byte           `json:"seal"`
	Keyring    []byte           `json:"keyring,omitempty"` // private halves in it are encrypted
	Confirmed  tollgate.Instant `json:"confirmed"`         // when all hashes without an AsOf were last known to be current
}

// organization is what is known of one.
type organization struct {
	Accounts []string        `json:"accounts"` // ids
	Hashes   map[string]hash `json:"hashes"`   // by key
}

type hash struct {
	Fields map[string][]byte `json:"fields"`         // Redis keeps bytes
	AsOf   tollgate.Instant  `json:"as_of,omitzero"` // when it was last known to be current
}

// Open makes the folder, or reads what is in it. What cannot be read is left out.
func Open(folder string, clock func() time.Time, log *slog.Logger) (*Snapshot, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	s := &Snapshot{
		folder: folder, clock: clock, log: log,
		left: make(map[string]organization), hashes: make(map[string]hash), written: make(map[string][sha256.Size]byte),
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if err := s.read(recordFile, &s.found); err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Warn("a file of the snapshot cannot be read", "file", recordFile, "error", err)
	}
	for _, e := range entries {
		name := e.Name()
		info, err := e.Info()
		if err == nil && s.isOurs(name) && clock().Sub(info.ModTime()) > forgotten {
			_ = os.Remove(filepath.Join(folder, name)) // it comes again if it is needed
			continue
		}
		id, ok := strings.CutSuffix(name, organizationFiles)
		if !ok {
			continue
		}
		var o organization
		if err := s.read(name, &o); err != nil {
			log.Warn("a file of the snapshot cannot be read", "file", name, "error", err)
			continue
		}
		for key, h := range o.Hashes {
			if h.AsOf == 0 {
				h.AsOf = s.found.Confirmed
			}
			o.Hashes[key], s.hashes[key] = h, h
		}
		s.left[id] = o
	}
	return s, nil
}

func (s *Snapshot) isOurs(name string) bool {
	return strings.HasSuffix(name, organizationFiles) || strings.HasSuffix(name, moduleFiles) || strings.HasSuffix(name, ".new")
}

// Store is what was known when the process before ended: rediskv.Offline. It is nil
// where nothing is known.
func (s *Snapshot) Store(o rediskv.Options) (*store.Store, error) {
	if len(s.found.Seal) == 0 || len(s.hashes) == 0 {
		return nil, nil
	}
	known, err := store.Offline(o, s, s.found.Partitions, string(s.found.Seal))
	if err == nil {
		known.KeepKeyring(string(s.found.Keyring))
	}
	return known, err
}

// Accounts are those that can be quoted for, by organization.
func (s *Snapshot) Accounts() map[string][]string {
	accounts := make(map[string][]string, len(s.left))
	for id, o := range s.left {
		accounts[id] = o.Accounts
	}
	return accounts
}

// Hash is a rediskv.Keeper's.
func (s *Snapshot) Hash(key string) (rediskv.Fields, time.Time, bool) {
	h, ok := s.hashes[key]
	f := make(rediskv.Fields, len(h.Fields))
	for name, value := range h.Fields {
		f[name] = string(value)
	}
	return f, h.AsOf.Time(), ok
}

// Module is a rediskv.Keeper's.
func (s *Snapshot) Module(sum string) ([]byte, bool) {
	module, err := os.ReadFile(filepath.Join(s.folder, sum+moduleFiles))
	return module, err == nil && sumOf(module) == sum
}

// Run writes what a store knows as it changes, until ctx ends. The store's Notes are
// on.
func (s *Snapshot) Run(ctx context.Context, store *store.Store) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.attempt(context.WithoutCancel(ctx), store)
			return
		case <-tick.C:
			s.attempt(ctx, store)
		}
	}
}

func (s *Snapshot) attempt(ctx context.Context, store *store.Store) {
	why := ""
	if err := s.Save(ctx, store); err != nil && !rediskv.Away(err) {
		why = err.Error()
	}
	if why != "" && why != s.failing {
		s.log.Warn("the snapshot cannot be written", "folder", s.folder, "error", why)
	}
	s.failing = why
}

// Save writes what a store knows, where that has changed, and that it is current.
func (s *Snapshot) Save(ctx context.Context, store *store.Store) error {
	partitions, seal := store.Recorded()
	now := record{Partitions: partitions, Seal: []byte(seal), Keyring: []byte(store.KeptKeyring()), Confirmed: tollgate.At(store.Confirmed())}
	if len(s.found.Seal) > 0 && string(s.found.Seal) != seal { // it was of another Redis
		clear(s.left)
		clear(s.hashes)
	}
	known := make(map[string]organization)
	for id, o := range s.left {
		s.remember(known, id, o)
	}
	if len(s.left) == 0 {
		clear(s.hashes)
	}
	sums := make(map[string]string) // of published rules: an organization that has it
	store.EachNoted(func(n rediskv.Noted) {
		o, ok := known[n.Organization]
		if !ok {
			o.Hashes = make(map[string]hash)
		}
		if n.Kind == "account" {
			o.Accounts = append(o.Accounts, n.ID)
		}
		for key, f := range n.Hashes {
			if h, there := o.Hashes[key]; !there || n.AsOf == 0 || h.AsOf != 0 && h.AsOf <= n.AsOf {
				o.Hashes[key] = hash{bytesOf(f), n.AsOf}
			}
			if sum := f["sha"]; sum != "" {
				sums[sum] = n.Organization
			}
		}
		known[n.Organization] = o
	})
	for sum, org := range sums {
		if err := s.keepModule(ctx, store, org, sum); err != nil {
			return err
		}
	}
	for id, o := range known {
		slices.Sort(o.Accounts)
		o.Accounts = slices.Compact(o.Accounts)
		if err := s.write(id+organizationFiles, o); err != nil {
			return err
		}
	}
	if err := s.forget(known); err != nil {
		return err
	}
	return s.write(recordFile, now) // last: what it says of the others holds
}

// forget removes the files of organizations of which nothing is known.
func (s *Snapshot) forget(known map[string]organization) error {
	entries, err := os.ReadDir(s.folder)
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), organizationFiles)
		if _, there := known[id]; ok && !there {
			delete(s.written, e.Name())
			err = errors.Join(err, os.Remove(filepath.Join(s.folder, e.Name())))
		}
	}
	return err
}

func bytesOf(f rediskv.Fields) map[string][]byte {
	b := make(map[string][]byte, len(f))
	for name, value := range f {
		b[name] = []byte(value)
	}
	return b
}

// remember adds what the process before has known of an organization.
func (s *Snapshot) remember(known map[string]organization, id string, o organization) {
	oldest := tollgate.At(s.clock().Add(-remembered))
	maps.DeleteFunc(o.Hashes, func(_ string, h hash) bool { return h.AsOf < oldest })
	if len(o.Hashes) == 0 {
		delete(s.left, id)
		return
	}
	known[id] = organization{slices.Clone(o.Accounts), maps.Clone(o.Hashes)}
}

// keepModule writes the module of a published rule, once.
func (s *Snapshot) keepModule(ctx context.Context, store *store.Store, org, sum string) error {
	path := filepath.Join(s.folder, sum+moduleFiles)
	if _, err := os.Stat(path); err == nil {
		return os.Chtimes(path, time.Time{}, s.clock()) // it is in use
	}
	module, err := store.Module(ctx, org, tollgate.RuleRef{SHA256: sum})
	if rediskv.Gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.replace(sum+moduleFiles, module)
}

// write replaces a file, if there is something new to say.
func (s *Snapshot) write(name string, value any) error {
	text, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	if s.written[name] == sum {
		return nil
	}
	if err := s.replace(name, []byte(hex.EncodeToString(sum[:])+"\n"+string(text)+"\n")); err != nil {
		return err
	}
	s.written[name] = sum
	return nil
}

// replace writes a file whole or not at all. A power cut may still damage it, which
// its sum tells.
func (s *Snapshot) replace(name string, text []byte) error {
	path := filepath.Join(s.folder, name)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (s *Snapshot) read(name string, into any) error {
	text, err := os.ReadFile(filepath.Join(s.folder, name))
	if err != nil {
		return err
	}
	sum, rest, _ := strings.Cut(string(text), "\n")
	if rest = strings.TrimSuffix(rest, "\n"); sumOf([]byte(rest)) != sum {
		return errors.New("its sum is another")
	}
	return json.Unmarshal([]byte(rest), into)
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
