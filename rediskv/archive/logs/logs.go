// Package logs puts entries of logs into packs (package packs) before they are trimmed, and
// reads them there. Posting lists go the same way, as ranges of events. Redis keeps a manifest for each partition, apart from that of payments: a
// hash with n, the number of its last line, and each line by its number. Beside it stands, by
// organization, what packs have of its log (eventlog.Packed), which bounds what may be trimmed.
//
// A turn makes a pack in steps, each of which can be repeated after a worker has died: choose
// ranges of logs; write them to a pack and put it on the shelves; read it back from there; put
// the line on the shelves; add it to the manifest. Whoever trims looks at that alone.
//
// Lines that Redis has lost, because it was put back from a copy, are not taken back, as those
// of payments are: it has their entries again, and they go into packs again. Nothing refers to
// the earlier ones then, and a check names them.
package logs

import (
	"embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/packs/shelf"
	"tollgate/rediskv/packs/shelves"
)

//go:embed lua/*.lua
var lua embed.FS

// Options are what the packs of logs are made and read with.
type Options struct {
	// Shelves are where everything is put: each has all of it. The first one is read, and
	// the others where it has less, or something that is damaged.
	Shelves []shelf.Shelf
	// Scratch is a directory for files of up to a pack's size while they are made.
	Scratch string
	// CacheBytes bounds the frames that are kept unpacked; 0: 32 MiB.
	CacheBytes int
	// Rows is how many entries a pack has at most; 0: 100,000.
	Rows int
	// Wait is for how long entries that are due wait for others, so that packs are not
	// small, as long as they are fewer than a pack can have.
	Wait time.Duration
	// Step is told of each step that is done, in the words of this package; nil: nobody is.
	Step func(partition int, step string)
}

// Wait is that of the service.
const Wait = 3 * 24 * time.Hour

const (
	defaultCache = 32 << 20
	defaultRows  = 100_000
)

// Store is that part of the archive of a Redis. It is safe for concurrent use.
type Store struct {
	db *rediskv.DB
	Options

	cache   *shelves.Cache
	packing sync.Mutex // one pack is made at a time
	lock    sync.Mutex
	known   map[int]*manifest // by partition
}

// New returns what a database has on shelves of its logs.
func New(db *rediskv.DB, o Options) *Store {
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCache
	}
	if o.Rows == 0 {
		o.Rows = defaultRows
	}
	return &Store{db: db, Options: o, cache: shelves.NewCache(o.Shelves, o.CacheBytes), known: map[int]*manifest{}}
}

func (s *Store) step(partition int, step string) {
	if s.Step != nil {
		s.Step(partition, step)
	}
}

// unavailable is the answer while something of the archive cannot be read.
func unavailable(err error) error {
	return &tollgate.Error{Code: tollgate.CodeArchiveUnavailable, Message: "The archive cannot be read.", Cause: err}
}

// keyOf is how the row of an entry begins: its organization, and its place in the log with
// as many digits as places of all times have, so that rows are in the order of the log.
func keyOf(org, place string) string {
	milli, seq, _ := strings.Cut(place, "-")
	return fmt.Sprintf("%s/%013s-%010s", org, milli, seq)
}

var keyForm = regexp.MustCompile(`^([^/]+)/([0-9]{13})-([0-9]{10})$`)

// placeOf is the other way round. ok is false of what is no such key.
func placeOf(key string) (org, place string, ok bool) {
	m := keyForm.FindStringSubmatch(key)
	if m == nil {
		return "", "", false
	}
	milli, _ := strconv.ParseUint(m[2], 10, 64)
	seq, _ := strconv.ParseUint(m[3], 10, 64)
	return m[1], strconv.FormatUint(milli, 10) + "-" + strconv.FormatUint(seq, 10), true
}
