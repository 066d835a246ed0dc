package backup

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"

	"tollgate/rediskv"
	"tollgate/rediskv/checks"
	"tollgate/rediskv/rdb"
	"tollgate/rediskv/store"
)

// together is how many bytes of partitions are in memory at one time.
const together = 256 << 20

// Check reads a copy and compares all that is in it with what it belongs to, as
// 'tollgate check' does with a Redis. It loads some partitions at a time into one in this
// process. clock is what was the time for the service when the copy was made.
func (c *Copy) Check(ctx context.Context, o Options, clock func() time.Time, w *checks.Walk) error {
	o = o.patient()
	have, err := c.take()
	if err != nil {
		return err
	}
	for _, group := range have.groups() {
		o.say("checking partitions %d", group)
		if err := c.checkSome(ctx, o, clock, group, w); err != nil {
			return err
		}
	}
	return nil
}

// groups are the partitions, as many at a time as there is room for.
func (have *inventory) groups() (groups [][]int) {
	room := int64(0)
	for _, p := range have.contents() {
		if room -= p.Bytes; room < 0 {
			groups, room = append(groups, nil), together-p.Bytes
		}
		last := &groups[len(groups)-1]
		*last = append(*last, p.Partition)
	}
	return groups
}

func (c *Copy) checkSome(ctx context.Context, o Options, clock func() time.Time, group []int, w *checks.Walk) error {
	var word [16]byte
	if _, err := io.ReadFull(o.Redis.Entropy, word[:]); err != nil {
		return err
	}
	password := hex.EncodeToString(word[:]) // others on this machine could connect
	mini := miniredis.NewMiniRedis()
	mini.RequireAuth(password)
	mini.SetTime(time.UnixMilli(int64(c.TakenAt))) // what expires then is there
	if err := mini.StartAddr("127.0.0.1:0"); err != nil {
		return err
	}
	defer mini.Close()
	options := rediskv.Options{
		URL: "redis://:" + password + "@" + mini.Addr(), Partitions: c.Partitions, Clock: clock, Entropy: o.Redis.Entropy, Timeout: o.Redis.Timeout, Log: o.Redis.Log,
	}
	if err := c.load(ctx, options, group); err != nil {
		return err
	}
	(&ranges{mini: mini, password: password}).hook()
	s, err := store.Open(ctx, options)
	if err != nil {
		return err
	}
	defer s.Close()
	if o.Archive != nil {
		o.Archive(s)
	}
	if err := s.CheckKeys(ctx, w); err != nil {
		return err
	}
	for _, p := range group {
		if err := s.CheckPartition(ctx, p, checks.Place{}, w); err != nil {
			return err
		}
	}
	return nil
}

// load writes some partitions, and what is outside all of them.
func (c *Copy) load(ctx context.Context, o rediskv.Options, group []int) error {
	db, err := rediskv.Bare(ctx, o)
	if err != nil {
		return err
	}
	defer db.Close()
	to := &writer{client: db.Redis, embedded: true}
	err = c.Each(func(_, partition int, v *rdb.Value) error {
		if partition >= 0 && !slices.Contains(group, partition) {
			return nil
		}
		if err := to.put(ctx, v); err != nil {
			return fmt.Errorf("key %.100q or one before it: %w", v.Key, err)
		}
		return nil
	})
	if err == nil {
		err = to.flush(ctx)
	}
	return err
}
