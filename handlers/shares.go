package handlers

import (
	"context"
	"errors"
	"runtime"

	"tollgate"
	"tollgate/handlers/share"
)

// use is what a route uses of what all tenants share.
type use int

const (
	usesNothing use = iota
	pages           // a short list: one turn
	searches        // a list that may have to look at much: a turn for each batch
	previews        // of cutoffs; their turns are those of searches
	downloads       // of export files
)

// turn waits for a turn, and done ends it.
type turn func(context.Context) (done func(), err error)

// shares are the resources of an instance that its tenants divide. Whoever has
// its whole share in use is refused at once; turns go round the organizations.
type shares struct {
	enter     map[use]*share.Queue
	reads     []*share.Queue // by lane of the Store: one batch after the other
	polls     *share.Queue   // listings of events that wait
	examining *share.Queue   // modules that are to be published
	compiling *share.Queue   // modules that somebody asks for and that are not loaded
}

// Two at a time: Redis answers one while the other's answer is read. With more,
// one organization's batches stand between another's and its turn.
const readsAtOnce = 2

// The other cores are for those who ask for something else (cmd/tollgate says the
// same of the processes that examine).
const examinedAtOnce = 1

func newShares(lanes int) *shares {
	lists := share.New(share.Limits{Organization: 64, Client: 32})
	s := &shares{
		enter: map[use]*share.Queue{
			pages: lists, searches: lists,
			previews:  share.New(share.Limits{Organization: 16, Client: 8}),
			downloads: share.New(share.Limits{Organization: 32, Client: 16}),
		},
		polls:     share.New(share.Limits{Organization: 512, Client: 128}),
		examining: share.New(share.Limits{Turns: examinedAtOnce, Organization: 8, Client: 4}),
		compiling: share.New(share.Limits{Turns: runtime.GOMAXPROCS(0), Organization: 256}),
	}
	for range lanes {
		s.reads = append(s.reads, share.New(share.Limits{Turns: readsAtOnce}))
	}
	return s
}

// shared carries a request out within its share.
func (s *Server) shared(c *call) (*answer, error) {
	if err := s.hasRoom(c); err != nil {
		return nil, err
	}
	queue := s.shares.enter[c.row.use]
	if queue == nil {
		return c.row.do(s, c)
	}
	leave, err := queue.Enter(c.org, c.client)
	if err != nil {
		return nil, shareExhausted(err)
	}
	defer leave()
	switch c.row.use {
	case pages:
		done, err := s.reading(c)(c.ctx)
		if err != nil {
			return nil, err
		}
		defer done()
	case searches, previews:
		c.turn = s.reading(c)
	}
	return c.row.do(s, c)
}

// reading gives a call its turns at having Redis look at much.
func (s *Server) reading(c *call) turn {
	reads := s.shares.reads[s.store.Lane(c.org)]
	return func(ctx context.Context) (func(), error) { return reads.Turn(ctx, c.org, c.client) }
}

// acquire waits for a turn at one of the resources.
func (c *call) acquire(ctx context.Context, from *share.Queue) (release func(), err error) {
	release, err = from.Acquire(ctx, c.org, c.client)
	return release, shareExhausted(err)
}

// shareExhausted is what a client is told when its share is in use, or its turn
// did not come in time.
func shareExhausted(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, share.ErrExhausted):
		return &tollgate.Error{
			Code: tollgate.CodeShareExhausted, Cause: err,
			Message: "You have as many of these requests under way as your share allows. Wait for one to end, then try again.",
		}
	default:
		return &tollgate.Error{
			Code: tollgate.CodeShareExhausted, Cause: err,
			Message: "Your turn did not come in time. Try again.",
		}
	}
}
