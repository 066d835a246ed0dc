package rediskv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
)

const (
	dispatchGroup = "workers"
	dispatchBatch = 64
	// abandoned is how long an entry may be in a worker's hands before another
	// one takes it over.
	abandoned = 10 * time.Second
)

// FanOut waits up to wait for events that were handed over in a partition,
// makes their deliveries and acknowledges them, in one script per organization.
// What a dead worker left comes first. A group that is gone is made again.
func (s *Store) FanOut(ctx context.Context, partition int, consumer string, wait time.Duration) (events int, err error) {
	entries, err := s.handedOver(ctx, partition, consumer, wait)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	byOrg := map[string][]redis.XMessage{}
	for _, m := range entries {
		org := text(m, "o")
		byOrg[org] = append(byOrg[org], m)
	}
	for org, list := range byOrg {
		for tries := 0; ; tries++ {
			err := s.fanOut(ctx, s.space(org), list)
			if err == nil {
				break
			}
			if !errors.Is(err, ErrStale) || tries == 10 {
				return events, err
			}
		}
		events += len(list)
	}
	return events, nil
}

func (s *Store) handedOver(ctx context.Context, partition int, consumer string, wait time.Duration) ([]redis.XMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+OperationTimeout)
	defer cancel()
	entries, err := s.readGroup(ctx, dispatchKey(partition), consumer, wait)
	if err != nil && strings.HasPrefix(err.Error(), "NOGROUP") {
		// From the first entry that is left: what was acknowledged is removed.
		err = s.client.XGroupCreateMkStream(ctx, dispatchKey(partition), dispatchGroup, "0").Err()
		if err == nil || strings.HasPrefix(err.Error(), "BUSYGROUP") {
			entries, err = s.readGroup(ctx, dispatchKey(partition), consumer, wait)
		}
	}
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return entries, unavailable("handed_over", err)
}

func (s *Store) readGroup(ctx context.Context, key, consumer string, wait time.Duration) ([]redis.XMessage, error) {
	// Entries that a dead worker had taken. The group knows them still.
	claimed, _, err := s.client.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: key, Group: dispatchGroup, Consumer: consumer, MinIdle: abandoned, Start: "0", Count: dispatchBatch,
	}).Result()
	if err != nil || len(claimed) > 0 {
		return claimed, err
	}
	streams, err := s.blocking.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: dispatchGroup, Consumer: consumer, Streams: []string{key, ">"}, Count: dispatchBatch, Block: max(wait, time.Millisecond),
	}).Result()
	if err != nil || len(streams) != 1 {
		return nil, err
	}
	return streams[0].Messages, nil
}

func (s *Store) fanOut(ctx context.Context, k space, entries []redis.XMessage) error {
	var directory fields
	if err := s.timed(ctx, "read_directory", func(ctx context.Context) (err error) {
		directory, err = s.client.HGetAll(ctx, k.webhooks()).Result()
		return err
	}); err != nil {
		return err
	}
	endpoints := map[string]tollgate.WebhookEndpoint{}
	for id, doc := range directory {
		if id == "v" {
			continue
		}
		var w wanted
		if err := decode(doc, &w); err != nil {
			return fmt.Errorf("webhook %s: %w", id, err)
		}
		endpoints[id] = tollgate.WebhookEndpoint{ID: id, Status: w.Status, EventTypes: w.EventTypes, MerchantAccountIDs: w.MerchantAccountIDs}
	}
	keys := []string{k.dispatch, k.webhooks(), k.ready}
	now := s.Now()
	args := []any{dispatchGroup, directory["v"], int64(now), firstCap, len(entries)}
	for _, m := range entries {
		args = append(args, m.ID)
	}
	for _, m := range entries {
		for id, w := range endpoints {
			if !w.Wants(tollgate.EventType(text(m, "t")), text(m, "a")) {
				continue
			}
			state := tollgate.DeliveryPending
			if w.Status != tollgate.WebhookActive {
				state = tollgate.DeliveryHeld
			}
			delivery := tollgate.DeliveryOf(text(m, "i"), id)
			milli, _, _ := strings.Cut(text(m, "s"), "-")
			var f pairs
			f.set("we", id)
			f.set("evt", text(m, "i"))
			f.set("et", text(m, "t"))
			f.set("sid", text(m, "s"))
			f.set("trig", string(tollgate.TriggeredBySchedule))
			f.int("crt", int64(now))
			keys = append(keys, k.object(delivery), k.queue(id), k.open(id), k.deliveries(id), k.leases(id), k.object(id))
			args = append(append(args, string(state), k.org+"/"+id, delivery, text(m, "n"), milli, len(f)), f...)
		}
	}
	_, _, err := s.run(ctx, scriptFanOut, keys, args)
	return err
}

// Outcome is what an attempt means for its delivery and its endpoint.
type Outcome struct {
	State      tollgate.DeliveryState // succeeded, retrying or failed
	Next       tollgate.Instant       // of retrying
	Pause      tollgate.Instant       // the endpoint gets nothing until then; zero: no pause
	Slow       bool                   // it took so long that the endpoint gets no more at once than a new one
	StatusCode int                    // 0: none came
	Reason     string                 // why not; empty for success
}

// RecordAttempt writes an attempt down and moves its delivery; late reports
// that the lease had run out, and then nothing moved. failures and lastSuccess
// are the endpoint's health afterwards.
func (s *Store) RecordAttempt(ctx context.Context, w Work, a tollgate.Attempt, o Outcome) (late bool, failures int64, lastSuccess tollgate.Instant, err error) {
	k := s.space(w.Organization)
	doc, err := json.Marshal(a, json.Deterministic(true))
	if err != nil {
		return false, 0, 0, err
	}
	id := w.Endpoint.ID
	healthy, code, pause, most := "0", "", "", mostCap
	if o.State == tollgate.DeliverySucceeded {
		healthy = "1"
	}
	if o.Slow {
		most = firstCap
	}
	if o.StatusCode != 0 {
		code = strconv.Itoa(o.StatusCode)
	}
	if o.Pause != 0 {
		pause = milli(o.Pause)
	}
	outcome, rest, err := s.runOn(ctx, s.batched, scriptRecordAttempt,
		[]string{k.object(w.DeliveryID), k.attempts(w.DeliveryID), k.queue(id), k.leases(id), k.open(id), k.ready, k.object(id)},
		[]any{
			w.DeliveryID, w.Number, doc, string(o.State), milli(s.Now()), milli(o.Next), pause, healthy, code, o.Reason,
			deliveryLifetime.Milliseconds(), k.org + "/" + id, most,
		})
	if err != nil || outcome == "late" {
		return outcome == "late", 0, 0, err
	}
	health := fields{}
	health["fail"], _ = rest[0].(string)
	health["ok"], _ = rest[1].(string)
	return false, health.int("fail"), health.instant("ok"), nil
}
