package handlers

import (
	"context"
	"runtime"
	"time"

	"tollgate/handlers/share"
)

// use is what a route uses of what all tenants share.
type use int

const (
	usesLittle use = iota
	quotes         // which ask Redis nothing, as a rule
	compares       // prices before and after a change of rules
	publishes      // its turn is that at examining
	waits          // listEvents says what for
	pages          // a short list: one turn
	searches       // a list that may have to look at much: a turn for each batch
	previews       // of cutoffs; their turns are those of searches
	downloads      // of export files; their turns are those of searches, too
)

// turn waits for a turn, and done ends it.
type turn func(context.Context) (done func(), err error)

// shares are the resources of an instance that its tenants divide. Whoever has
// its whole share in use is refused at once; turns go round the organizations.
type shares struct {
	network    *share.Network
	holds      share.Holds
	enter      map[use]*share.Queue
	carried    map[use]*share.Queue // requests that are being carried out; the others of their organization wait
	reads      []*share.Queue       // by lane of the Store: one batch after the other
	refusals   *share.Queue
	processors *share.Queue // requests that are read, and quotes until they are answered
	sending    *share.Queue // pieces of files
	polls      *share.Queue // listings of events that wait
	examining  *share.Queue // modules that are to be published
	compiling  *share.Queue // modules that somebody asks for and that are not loaded
}

// Two at a time: Redis answers one while the other's answer is read. With more,
// one organization's batches stand between another's and its turn.
const readsAtOnce = 2

// The other cores are for those who ask for something else (cmd/tollgate says the
// same of the processes that examine).
const examinedAtOnce = 1

// What one organization has carried out at once beside others, for each core:
// computing, or writing to Redis and waiting for it half of the time. More stand
// in front of the others' in the scheduler, among the connections and in Redis.
// No organization waits here for another, so whoever Redis does not answer holds
// up nobody else, and one that is alone has all of the instance.
const (
	computedEach = 1
	writtenEach  = 2
)

// What a request computes for one round trip to Redis, and what Redis does for
// one batch of a list. While a distant Redis is on its way, others can.
const (
	computingATrip = 500 * time.Microsecond
	readingATrip   = time.Millisecond
)

func newShares(lanes int) *shares {
	cores := runtime.GOMAXPROCS(0)
	each := func(turns int) *share.Queue { return share.New(share.Limits{Beside: turns}) }
	network := share.NewNetwork()
	notice := network.Noticed
	// One core is the others': a request that comes while all compute is noticed late.
	leaving := share.Limits{Beside: max(1, cores-1), Notice: notice}
	lists := share.New(share.Limits{Organization: 64, Client: 32})
	examining := share.New(share.Limits{Turns: examinedAtOnce, Organization: 8, Client: 4})
	s := &shares{
		network: network,
		enter: map[use]*share.Queue{
			pages: lists, searches: lists,
			previews:  share.New(share.Limits{Organization: 16, Client: 8}),
			downloads: share.New(share.Limits{Organization: 32, Client: 16}),
			publishes: examining,
		},
		carried: map[use]*share.Queue{
			usesLittle: each(0), quotes: each(0), waits: each(0), searches: each(0),
			compares:  each(max(1, cores/2)), // which may have to compile, too
			publishes: each(computedEach * cores), previews: each(computedEach * cores),
		},
		refusals:   each(0),
		processors: share.New(leaving),
		sending:    share.New(leaving),
		polls:      share.New(share.Limits{Organization: 512, Client: 128}),
		examining:  examining,
		compiling:  share.New(share.Limits{Turns: cores, Organization: 256}),
	}
	for range lanes {
		s.reads = append(s.reads, share.New(share.Limits{Notice: notice}))
	}
	s.stretch(0)
	return s
}

// stretch has as much more under way at once as a round trip to Redis takes
// longer than computing: what waits for a distant Redis stands in front of nobody.
func (s *shares) stretch(trip time.Duration) {
	cores := runtime.GOMAXPROCS(0)
	more := 2 * int(trip/computingATrip)
	s.carried[quotes].SetTurns(0, (computedEach+more)*cores)
	for _, queue := range []*share.Queue{s.carried[usesLittle], s.carried[waits], s.carried[searches], s.refusals} {
		queue.SetTurns(0, (writtenEach+more)*cores)
	}
	for _, lane := range s.reads {
		lane.SetTurns(readsAtOnce+int(trip/readingATrip), 0)
	}
}

// shared carries a request out within its share.
func (s *Server) shared(c *call) (*answer, error) {
	if err := s.hasRoom(c); err != nil {
		return nil, err
	}
	if c.org == "" {
		return c.row.do(s, c)
	}
	if queue := s.shares.enter[c.row.use]; queue != nil {
		leave, err := queue.Enter(c.org, c.client)
		if err != nil {
			return nil, share.Refusal(err)
		}
		if c.row.use == downloads { // to its last byte
			c.leave = leave
		} else {
			defer leave()
		}
	}
	if c.row.use != waits {
		turn, err := s.carried(c.ctx, c)
		if err != nil {
			return nil, err
		}
		defer turn.End()
	}
	switch c.row.use {
	case pages:
		done, err := s.reading(c)(c.ctx)
		if err != nil {
			return nil, err
		}
		defer done()
	case searches, previews, downloads:
		c.turn = s.reading(c)
	}
	return s.carryOut(c)
}

// carried waits until a request can be carried out among its organization's.
func (s *Server) carried(ctx context.Context, c *call) (*share.Held, error) {
	queue := s.shares.carried[c.row.use]
	switch {
	case c.connection == nil:
	case c.row.use != quotes:
		c.connection.Computed()
	case c.connection.HasTurn():
		queue = nil // a quote has had its turn since it arrived
	}
	if queue == nil {
		return nil, nil
	}
	done, err := queue.Turn(ctx, c.org, c.client)
	if err != nil {
		return nil, share.Refusal(err)
	}
	switch c.row.use {
	case usesLittle, quotes, waits:
		return s.shares.holds.Soon(done), nil
	default:
		return share.Hold(done), nil
	}
}

// reading gives a call its turns at having Redis look at much.
func (s *Server) reading(c *call) turn {
	reads := s.shares.reads[s.store.Lane(c.org)]
	return func(ctx context.Context) (func(), error) {
		done, err := reads.Turn(ctx, c.org, c.client)
		return done, share.Refusal(err)
	}
}
