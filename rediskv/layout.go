package rediskv

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Layout is how payments and logs are kept. All are read; MetaKey says which is written, so
// that builds which know only an earlier one can run beside this.
type Layout int32

const (
	// Apart has each transaction, capture and refund at a key of its own, and each log in
	// one stream. It is that of a Redis which says nothing.
	Apart Layout = 1
	// Together has all of a payment's in one hash (Space.Parts), and what is older in a
	// log in segments.
	Together Layout = 2
	// Compact is Together, packed, and without answers that show a payment beside it.
	Compact Layout = 3
	// Dense is Compact in fewer bytes (record.Dense). A new Redis has it.
	Dense Layout = 4
)

// layoutField of MetaKey is the number of the layout.
const layoutField = "layout"

// Layout is in which layout this process writes.
func (s *DB) Layout() Layout {
	if s.primary != nil {
		return s.primary.Layout()
	}
	return Layout(s.layout.Load())
}

// ReadLayout takes over what Redis says now.
func (s *DB) ReadLayout(ctx context.Context) error {
	return s.Timed(ctx, "layout", func(ctx context.Context) error {
		text, err := s.Redis.HGet(ctx, MetaKey, layoutField).Result()
		if err == nil || errors.Is(err, redis.Nil) {
			s.setLayout(text)
			return nil
		}
		return err
	})
}

func (s *DB) setLayout(text string) {
	n, err := strconv.Atoi(text)
	if err != nil {
		n = int(Apart)
	}
	s.layout.Store(int32(n))
}

// WriteLayout says in which layout everybody is to write. Other processes hear of it
// within a minute.
func (s *DB) WriteLayout(ctx context.Context, l Layout) error {
	return s.Timed(ctx, "layout", func(ctx context.Context) error {
		err := s.Redis.HSet(ctx, MetaKey, layoutField, int(l)).Err()
		if err == nil {
			s.layout.Store(int32(l))
		}
		return err
	})
}
