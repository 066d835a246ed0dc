package webhooks

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/history"
	"tollgate/rediskv/record"
)

const (
	dispatchBatch = 128
	// deliveriesAtOnce bounds what one script makes: it holds up everybody else.
	deliveriesAtOnce = 2048
	// abandoned is how long an entry may be in a worker's hands before another
	// one takes it over.
	abandoned = 3 * time.Second
	// claimEvery is after how many batches a busy reader looks for such entries.
	claimEvery = 64
	idleClaims = 2 // empty ones, of a reader that waits for long
)

// FanOut waits up to wait for events that were handed over in a partition, and then is
// FanOutHanded. What a dead worker left comes first. A group that is gone is made again.
func (s *Store) FanOut(ctx context.Context, partition int, consumer string, wait time.Duration, l *Leasing) (Fanned, error) {
	within := s.db.Histories.Of(partition).ID
	entries, err := s.handedOver(ctx, partition, consumer, wait)
	if err != nil || len(entries) == 0 {
		return Fanned{}, err
	}
	return s.FanOutHanded(ctx, Handed{partition, within, entries}, l)
}

// Handed are events of a partition that are in this worker's hands.
type Handed struct {
	Partition int
	within    string // the history in which they were read: another one may not have them
	entries   []redis.XMessage
}

// Events is how many they are.
func (h Handed) Events() int { return len(h.entries) }

// ReadAny waits up to wait for events of any of these partitions, in one call: on a
// single server, where they need not be in one slot. It fails where a group is gone;
// FanOut makes that again.
func (s *Store) ReadAny(ctx context.Context, partitions []int, consumer string, wait time.Duration) (all []Handed, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait+s.db.Timeout)
	defer cancel()
	of := make(map[string]Handed, len(partitions))
	streams := make([]string, 2*len(partitions))
	for i, p := range partitions {
		streams[i], streams[len(partitions)+i] = rediskv.DispatchKey(p), ">"
		of[streams[i]] = Handed{p, s.db.Histories.Of(p).ID, nil}
	}
	found, err := s.db.Blocking.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: rediskv.DispatchGroup, Consumer: consumer, Streams: streams, Count: dispatchBatch, Block: max(wait, time.Millisecond),
	}).Result()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	for _, one := range found {
		h := of[one.Stream]
		h.entries = one.Messages
		all = append(all, h)
	}
	return all, rediskv.Unavailable("handed_over", err)
}

// Reclaim has the next FanOut of a partition look for what dead workers left.
func (s *Store) Reclaim(partition int) { s.claims[partition].Store(0) }

// FanOutHanded makes the deliveries of events and acknowledges them, in one script per
// organization. What an endpoint can get at once is leased in the same script, as TakeDue
// does it: with an error there may be work, too. Where data was lost since the events were
// read it does nothing: those that are left are read again.
func (s *Store) FanOutHanded(ctx context.Context, h Handed, l *Leasing) (all Fanned, err error) {
	ctx = history.Within(ctx, h.within)
	byOrg := map[string][]redis.XMessage{}
	for _, m := range h.entries {
		org := rediskv.Text(m, "o")
		byOrg[org] = append(byOrg[org], m)
	}
	for org, list := range byOrg {
		for len(list) > 0 {
			one, failed := s.fanOutSome(ctx, h.Partition, s.db.Space(org), list, l)
			all.Events += one.Events
			all.Queued += one.Queued
			all.Due = all.Due || one.Due
			all.Work = append(all.Work, one.Work...)
			if failed != nil {
				err = cmp.Or(err, failed) // the others are not held up by it
				break
			}
			list = list[one.Events:]
		}
	}
	return all, err
}

// fanOutSome makes the deliveries of the first of an organization's events, again where
// the endpoints are others than they were read.
func (s *Store) fanOutSome(ctx context.Context, partition int, k rediskv.Space, list []redis.XMessage, l *Leasing) (f Fanned, err error) {
	for tries := 0; ; tries++ {
		f, err = s.fanOut(ctx, partition, k, list, l)
		if !errors.Is(err, rediskv.ErrStale) || tries == 10 {
			return f, err
		}
	}
}

func (s *Store) handedOver(ctx context.Context, partition int, consumer string, wait time.Duration) ([]redis.XMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+s.db.Timeout)
	defer cancel()
	entries, err := s.readGroup(ctx, partition, consumer, wait)
	if err != nil && strings.HasPrefix(err.Error(), "NOGROUP") {
		// From the first entry that is left: what was acknowledged is removed.
		err = s.db.Redis.XGroupCreateMkStream(ctx, rediskv.DispatchKey(partition), rediskv.DispatchGroup, "0").Err()
		if err == nil || strings.HasPrefix(err.Error(), "BUSYGROUP") {
			entries, err = s.readGroup(ctx, partition, consumer, wait)
		}
	}
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return entries, rediskv.Unavailable("handed_over", err)
}

func (s *Store) readGroup(ctx context.Context, partition int, consumer string, wait time.Duration) ([]redis.XMessage, error) {
	key, claims := rediskv.DispatchKey(partition), &s.claims[partition]
	// Entries that a dead worker had taken; the group knows them still. Busy
	// readers look for them now and then, idle ones every time.
	if claims.Add(-1) < 0 {
		claimed, _, err := s.db.Redis.XAutoClaim(ctx, &redis.XAutoClaimArgs{
			Stream: key, Group: rediskv.DispatchGroup, Consumer: consumer, MinIdle: abandoned, Start: "0", Count: dispatchBatch,
		}).Result()
		if err != nil || len(claimed) > 0 {
			return claimed, err
		}
	}
	streams, err := s.db.Blocking.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: rediskv.DispatchGroup, Consumer: consumer, Streams: []string{key, ">"}, Count: dispatchBatch, Block: max(wait, time.Millisecond),
	}).Result()
	if err != nil || len(streams) != 1 {
		claims.Store(0)
		if wait > time.Second { // one that waits so long is told when something hangs
			claims.Store(idleClaims)
		}
		return nil, err
	}
	if claims.Load() < 0 {
		claims.Store(claimEvery)
	}
	return streams[0].Messages, nil
}

// directory is what an organization's endpoints want, at one revision.
type directory struct {
	revision  string // empty: there has been no endpoint yet
	endpoints []tollgate.WebhookEndpoint
}

// directory returns the endpoints of an organization as they were read last;
// the script finds out when they are not current any more.
func (s *Store) directory(ctx context.Context, k rediskv.Space) (*directory, error) {
	if known, ok := s.directories.Load(k.Org); ok {
		return known.(*directory), nil
	}
	var entries rediskv.Fields
	if err := s.db.Timed(ctx, "read_directory", func(ctx context.Context) (err error) {
		entries, err = s.db.Redis.HGetAll(ctx, k.Webhooks()).Result()
		return err
	}); err != nil {
		return nil, err
	}
	d := &directory{revision: entries["v"]}
	for id, doc := range entries {
		if id == "v" {
			continue
		}
		var w wanted
		if err := record.Decode(doc, &w); err != nil {
			// Its own document says the same. Without that, too, nobody knows what
			// it wants, and it gets nothing; what was missed is in the log.
			_ = s.db.Damaged(ctx, k, "webhook_endpoint", id, err)
			e, err := s.endpoint(ctx, k, id)
			if rediskv.IsDamage(err) || rediskv.Gone(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			w = wanted{e.Status, e.EventTypes, e.MerchantAccountIDs}
		}
		d.endpoints = append(d.endpoints, tollgate.WebhookEndpoint{ID: id, Status: w.Status, EventTypes: w.EventTypes, MerchantAccountIDs: w.MerchantAccountIDs})
	}
	s.directories.Store(k.Org, d)
	return d, nil
}
