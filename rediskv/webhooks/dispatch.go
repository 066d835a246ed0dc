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
	"tollgate/rediskv/script"
)

const (
	dispatchBatch = 64
	// abandoned is how long an entry may be in a worker's hands before another
	// one takes it over.
	abandoned = 3 * time.Second
	// claimEvery is after how many batches a busy reader looks for such entries.
	claimEvery = 64
	idleClaims = 2 // empty ones, of a reader that waits for long
)

// FanOut waits up to wait for events that were handed over in a partition,
// makes their deliveries and acknowledges them, in one script per organization.
// What a dead worker left comes first. A group that is gone is made again.
func (s *Store) FanOut(ctx context.Context, partition int, consumer string, wait time.Duration) (events int, err error) {
	within := s.db.Histories.Of(partition).ID
	entries, err := s.handedOver(ctx, partition, consumer, wait)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	return s.FanOutHanded(ctx, Handed{partition, within, entries})
}

// Handed are events of a partition that are in this worker's hands.
type Handed struct {
	Partition int
	within    string // the history in which they were read: another one may not have them
	entries   []redis.XMessage
}

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

// FanOutHanded makes the deliveries of events and acknowledges them. Where data was lost
// since they were read it does nothing: those that are left are read again.
func (s *Store) FanOutHanded(ctx context.Context, h Handed) (events int, err error) {
	ctx = history.Within(ctx, h.within)
	byOrg := map[string][]redis.XMessage{}
	for _, m := range h.entries {
		org := rediskv.Text(m, "o")
		byOrg[org] = append(byOrg[org], m)
	}
	for org, list := range byOrg {
		for tries := 0; ; tries++ {
			failed := s.fanOut(ctx, s.db.Space(org), list)
			if failed == nil {
				events += len(list)
				break
			}
			if !errors.Is(failed, rediskv.ErrStale) || tries == 10 {
				err = cmp.Or(err, failed) // the others are not held up by it
				break
			}
		}
	}
	return events, err
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

type fanOutKeys struct{ Dispatch, Webhooks, Ready string }

type fanOutArgs struct {
	Group, WebhooksRevision, NowMs string
	FirstCap, EntryCount           int
}

var scriptFanOut = script.New[fanOutKeys, fanOutArgs](lua, "fan_out")

func (s *Store) fanOut(ctx context.Context, k rediskv.Space, entries []redis.XMessage) error {
	d, err := s.directory(ctx, k)
	if err != nil {
		return err
	}
	now := rediskv.Milli(s.db.Now())
	inv := scriptFanOut.With(fanOutKeys{k.Dispatch, k.Webhooks(), k.Ready},
		fanOutArgs{Group: rediskv.DispatchGroup, WebhooksRevision: d.revision, NowMs: now, FirstCap: firstCap, EntryCount: len(entries)})
	for _, m := range entries {
		inv.Args = append(inv.Args, m.ID)
	}
	for i := range d.endpoints {
		inv.Keys, inv.Args = fanOutTo(k, &d.endpoints[i], entries, now, inv.Keys, inv.Args)
	}
	_, _, err = s.db.Run(ctx, inv)
	if errors.Is(err, rediskv.ErrStale) {
		s.directories.Delete(k.Org)
	}
	return err
}

// fanOutTo adds the deliveries to one endpoint to the script's arguments.
func fanOutTo(k rediskv.Space, w *tollgate.WebhookEndpoint, entries []redis.XMessage, now string, keys []string, args []any) ([]string, []any) {
	state := tollgate.DeliveryPending
	if w.Status != tollgate.WebhookActive {
		state = tollgate.DeliveryHeld
	}
	count := len(args) + 3
	first := len(keys)
	keys = append(keys, k.Object(w.ID), k.Queue(w.ID), k.Leases(w.ID), k.Open(w.ID), k.Deliveries(w.ID))
	args = append(args, w.ID, string(state), k.Org+"/"+w.ID, 0)
	wants := 0
	for _, m := range entries {
		event, kind, place := rediskv.Text(m, "i"), rediskv.Text(m, "t"), rediskv.Text(m, "s")
		if !w.Wants(tollgate.EventType(kind), rediskv.Text(m, "a")) {
			continue
		}
		wants++
		id := tollgate.DeliveryOf(event, w.ID)
		milli, _, _ := strings.Cut(place, "-")
		key := k.Object(id)
		keys = append(keys, key)
		args = append(args, id, rediskv.Text(m, "n"), milli, event, kind, place,
			record.Seal(key, []any{"we", w.ID, "evt", event, "et", kind, "sid", place, "crt", now}, nil))
	}
	if wants == 0 {
		return keys[:first], args[:count-3]
	}
	args[count] = wants
	return keys, args
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
