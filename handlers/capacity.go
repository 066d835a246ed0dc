package handlers

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"tollgate"
	"tollgate/handlers/problem"
	"tollgate/rediskv/health"
)

// fillingFrom is how full Redis is when what only adds is refused (interface
// §11): what is left is for payments, and for somebody to make room.
const fillingFrom = health.Filling

// memoryInterval is how often an instance looks at Redis' memory.
const memoryInterval = time.Second

// capacity is how full Redis was when this instance looked last.
type capacity struct{ used atomic.Uint64 } // bits of a float64

func (c *capacity) filling() bool { return math.Float64frombits(c.used.Load()) >= fillingFrom }

// checked is what readiness says: payments go on until the end, so an instance
// is no less ready.
func (c *capacity) checked() string {
	if c.filling() {
		return "filling"
	}
	return "ok"
}

// lookAtMemory notes how full Redis is, and says when that becomes too much. How
// long the answer takes tells how far away Redis is.
func (s *Server) lookAtMemory(ctx context.Context) {
	begun := s.wall()
	used, err := s.store.Memory(ctx)
	if err != nil {
		return // Redis is away, which others say
	}
	s.shares.Trip(s.wall().Sub(begun))
	was := s.capacity.filling()
	s.capacity.used.Store(math.Float64bits(used))
	s.observer.RedisMemory(used)
	switch now := s.capacity.filling(); {
	case now && !was:
		s.log.Warn("Redis fills up: rules, webhook endpoints and exports are refused, payments go on until its memory is full",
			"used", used, "refused_from", fillingFrom)
	case was && !now:
		s.log.Info("Redis has room again", "used", used)
	}
}

// hasRoom refuses what only adds when Redis fills up.
func (s *Server) hasRoom(c *call) error {
	if c.row.adds && s.capacity.filling() {
		return problem.New(tollgate.CodeCapacityReached, "There is too little room left for anything but payments. Try again later.")
	}
	return nil
}
