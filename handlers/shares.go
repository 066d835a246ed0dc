package handlers

import (
	"context"

	"tollgate/handlers/share"
)

// turn waits for a turn, and done ends it.
type turn func(context.Context) (done func(), err error)

// shared carries a request out within its share.
func (s *Server) shared(c *call) (*answer, error) {
	if err := s.hasRoom(c); err != nil {
		return nil, err
	}
	if c.org == "" {
		return c.row.do(s, c)
	}
	if queue := s.shares.Entered[c.row.use]; queue != nil {
		leave, err := queue.Enter(c.org, c.client)
		if err != nil {
			return nil, share.Refusal(err)
		}
		if c.row.use == share.Downloads { // to its last byte
			c.leave = leave
		} else {
			defer leave()
		}
	}
	if c.row.use != share.Waits {
		turn, err := s.carried(c.ctx, c)
		if err != nil {
			return nil, err
		}
		defer turn.End()
	}
	switch c.row.use {
	case share.Pages:
		done, err := s.reading(c)(c.ctx)
		if err != nil {
			return nil, err
		}
		defer done()
	case share.Searches, share.Previews, share.Downloads:
		c.turn = s.reading(c)
	}
	return s.carryOut(c)
}

// carried share.Waits until a request can be carried out among its organization's.
func (s *Server) carried(ctx context.Context, c *call) (*share.Held, error) {
	queue := s.shares.Carried[c.row.use]
	switch {
	case c.connection == nil:
	case c.row.use != share.Quotes:
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
	case share.UsesLittle, share.Quotes, share.Waits:
		return s.shares.Holds.Soon(done), nil
	default:
		return share.Hold(done), nil
	}
}

// reading gives a call its turns at having Redis look at much.
func (s *Server) reading(c *call) turn {
	reads := s.shares.Reads[s.store.Lane(c.org)]
	return func(ctx context.Context) (func(), error) {
		done, err := reads.Turn(ctx, c.org, c.client)
		return done, share.Refusal(err)
	}
}
