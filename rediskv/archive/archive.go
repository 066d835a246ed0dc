// Package archive moves payments that are at an end out of Redis into packs (package
// packs), and reads them there. Redis keeps a manifest for each partition: a hash with n, the
// number of its last line, each line by its number, and done, the last line whose payments
// are removed from Redis.
//
// A turn makes a pack in steps, each of which can be repeated after a worker has died:
// choose payments; write them to a pack and put it on the shelf; read it back from there;
// put the line on the shelf; add it to the manifest; remove each payment from Redis that is
// as the pack has it. What is in Redis wins over any pack, and a later pack over an earlier
// one.
package archive

import (
	"context"
	"embed"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/packs/shelf"
	"tollgate/rediskv/packs/shelves"
	"tollgate/rediskv/script"
)

//go:embed lua/*.lua
var lua embed.FS

// Options are what an archive works with.
type Options struct {
	// Shelves are where everything is put: each has all of it. The first one is read, and
	// the others where it has less, or something that is damaged.
	Shelves []shelf.Shelf
	// Scratch is a directory for files of up to a pack's size while they are made.
	Scratch string
	// CacheBytes bounds the frames that are kept unpacked; 0: 64 MiB.
	CacheBytes int
	// Step is told of each step that is done, in the words of this package; nil: nobody is.
	Step func(partition int, step string)
	// Rows is how many payments a pack has at most; 0: 120,000, some 64 MB.
	Rows int
	// Rest is for how many times as long as a script took that works on payments nobody is
	// asked for another, by rediskv.Options.Wall; 0: not at all.
	Rest int
}

const (
	defaultCache = 64 << 20
	defaultRows  = 120_000
)

// Store is the archive of a Redis. It is safe for concurrent use.
type Store struct {
	db *rediskv.DB
	Options

	cache *shelves.Cache
	kept  *lru.Cache[keptKey, *ledger.Records] // what was read last: nobody changes it
	lock  sync.Mutex
	known map[int]*manifest // by partition
	// caught says of which partitions the shelves were looked at for lines that Redis does not have.
	caught map[int]bool
}

// New returns the archive of a database that is on a shelf.
func New(db *rediskv.DB, o Options) *Store {
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCache
	}
	if o.Rows == 0 {
		o.Rows = defaultRows
	}
	kept, _ := lru.New[keptKey, *ledger.Records](mostKept)
	return &Store{db: db, Options: o, cache: shelves.NewCache(o.Shelves, o.CacheBytes), kept: kept, known: map[int]*manifest{}, caught: map[int]bool{}}
}

// mostKept is how many payments are kept as they were read: a few kilobytes each. A check
// reads each of them for each of its transactions, and for each list that has these.
const mostKept = 1024

// keptKey is a payment in a pack, by what its identifiers share.
type keptKey struct{ org, pack, of string }

// slack is how much longer than asked payments stay in Redis, so that packs are not small:
// a tenth, as long as there are few of them.
func slack(after time.Duration) time.Duration { return after / 10 }

func (s *Store) step(partition int, step string) {
	if s.Step != nil {
		s.Step(partition, step)
	}
}

// Rest is that of a worker: fewer than one in a hundred of other requests meet it. It moves
// some three million payments a day.
const Rest = 120

// longestRest bounds a rest where Redis is far: then most of the time is not its.
const longestRest = 100 * time.Millisecond

// politely runs a script that works on payments, and then rests, so that others have Redis
// and the processor for most of the time: the busier Redis is, the longer.
func (s *Store) politely(ctx context.Context, inv *script.Invocation) (rest []any, err error) {
	if s.Rest == 0 || s.db.Wall == nil {
		_, rest, err = s.db.Run(ctx, inv)
		return rest, err
	}
	start := s.db.Wall()
	if _, rest, err = s.db.Run(ctx, inv); err != nil {
		return nil, err
	}
	rested := time.NewTimer(min(time.Duration(s.Rest)*s.db.Wall().Sub(start), longestRest))
	defer rested.Stop()
	select {
	case <-rested.C:
		return rest, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// before is a moment some time ago.
func (s *Store) before(ago time.Duration) tollgate.Instant { return s.db.Now().Add(-ago) }
