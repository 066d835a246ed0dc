package rediskv

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
)

// Recover stores a job that queues again what an endpoint missed; the worker
// carries it out.
func (s *Store) Recover(ctx context.Context, c Caller, idem *Idempotency, webhook string, r tollgate.Recovery, ans Answer) (Result, error) {
	if _, err := s.Webhook(ctx, c, webhook); err != nil {
		return Result{}, err
	}
	low, high, err := s.bounds(ctx, s.space(c.Organization), TransactionQuery{CreatedAfter: r.Since})
	if err != nil {
		return Result{}, err
	}
	doc, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		return Result{}, fmt.Errorf("recovery: %w", err)
	}
	k := s.space(c.Organization)
	var f pairs
	f.set("json", string(doc))
	f.int("at", low/16)
	f.int("end", min(high/16, 1<<48))
	f.set("state", "pending")
	q := requeueing{trigger: tollgate.TriggeredByRecovery, object: r.ID, fields: f, audit: "webhook_endpoint.recover", job: "recover/" + k.org + "/" + webhook + "/" + r.ID}
	outcome, rest, err := s.requeue(ctx, c, idem, webhook, q, ans)
	if err != nil {
		return Result{}, err
	}
	return result(outcome, rest, ans)
}

// Recovery reads a recovery with its progress.
func (s *Store) Recovery(ctx context.Context, c Caller, webhook, id string) (*tollgate.Recovery, error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(id, tollgate.PrefixRecovery) {
		return nil, notFound()
	}
	found, err := s.readHashes(ctx, "read_recovery", k.object(id))
	if err != nil {
		return nil, err
	}
	r, err := recoveryOf(found[0])
	if err == nil && r.WebhookID != webhook {
		return nil, notFound()
	}
	return r, err
}

func recoveryOf(f fields) (*tollgate.Recovery, error) {
	r := new(tollgate.Recovery)
	if err := decode(f["json"], r); err != nil {
		return nil, fmt.Errorf("recovery: %w", err)
	}
	r.State, r.Looked, r.Queued, r.CompletedAt = f["state"], f.int("looked"), f.int("queued"), f.instant("cat")
	return r, nil
}

// RunJobs carries one step of each job of a partition: the next batch of a
// recovery, the next batch of what a deleted endpoint leaves behind. It returns
// how many deliveries it touched; 0 when there is nothing to do. Steps are
// atomic, so that a job whose worker dies goes on with the next.
func (s *Store) RunJobs(ctx context.Context, partition int) (touched int, err error) {
	var members []string
	err = s.timed(ctx, "read_jobs", func(ctx context.Context) (err error) {
		members, err = s.client.ZRange(ctx, jobsKey(partition), 0, 15).Result()
		return err
	})
	for _, m := range members {
		part := strings.SplitN(m, "/", 4)
		if err != nil || len(part) != 4 {
			return touched, err
		}
		var n int
		done := false
		k := s.space(part[1])
		if part[0] == "recover" {
			n, done, err = s.recoverStep(ctx, k, part[2], part[3])
		} else {
			n, done, err = s.cancelStep(ctx, k, part[2])
		}
		touched += n
		if err == nil && done {
			err = s.timed(ctx, "end_job", func(ctx context.Context) error { return s.client.ZRem(ctx, k.jobs, m).Err() })
		}
	}
	return touched, err
}

func (s *Store) recoverStep(ctx context.Context, k space, webhook, id string) (touched int, done bool, err error) {
	found, err := s.readHashes(ctx, "read_recovery", k.object(id))
	if gone(err) {
		return 0, true, nil
	}
	if err != nil {
		return 0, false, err
	}
	f := found[0]
	if f["state"] == "succeeded" {
		return 0, true, nil
	}
	var members []redis.Z
	if err := s.timed(ctx, "recovery_batch", func(ctx context.Context) (err error) {
		members, err = s.client.ZRangeByScoreWithScores(ctx, k.deliveries(webhook),
			&redis.ZRangeBy{Min: f["at"], Max: f["end"], Count: scanBatch}).Result()
		return err
	}); err != nil {
		return 0, false, err
	}
	r, err := recoveryOf(f)
	if err != nil {
		return 0, false, err
	}
	q := requeueing{trigger: tollgate.TriggeredByRecovery, object: id}
	at := f.int("at")
	for _, m := range members {
		delivery, _ := m.Member.(string)
		found, err := s.readHashes(ctx, "read_delivery", k.object(delivery))
		if gone(err) {
			at = int64(m.Score) + 1
			continue
		}
		if err != nil {
			return 0, false, err
		}
		d := deliveryOf(delivery, webhook, found[0])
		if event, _ := tollgate.IDTime(d.EventID); tollgate.At(event) >= r.Since {
			q.deliveries = append(q.deliveries, d)
		}
		at = int64(m.Score) + 1
	}
	q.fields.int("at", at)
	q.fields.int("looked", f.int("looked")+int64(len(members)))
	q.fields.set("state", "running")
	if done = len(members) < scanBatch; done {
		q.fields.set("state", "succeeded")
		q.fields.int("cat", int64(s.Now()))
	}
	_, _, err = s.requeue(ctx, Caller{Organization: k.org}, nil, webhook, q, Answer{})
	if gone(err) { // the endpoint
		return 0, true, nil
	}
	return len(q.deliveries), done, err
}

// cancelStep ends deliveries of an endpoint that was deleted, and then removes
// what is left of it.
func (s *Store) cancelStep(ctx context.Context, k space, webhook string) (touched int, done bool, err error) {
	err = s.timed(ctx, "cancel_deliveries", func(ctx context.Context) error {
		ids, err := s.client.ZRange(ctx, k.open(webhook), 0, scanBatch-1).Result()
		if err != nil {
			return err
		}
		touched, done = len(ids), len(ids) == 0
		pipe := s.client.TxPipeline()
		for _, id := range ids {
			pipe.HSet(ctx, k.object(id), "st", string(tollgate.DeliveryCanceled), "cat", milli(s.Now()))
			pipe.PExpire(ctx, k.object(id), deliveryLifetime)
			pipe.PExpire(ctx, k.attempts(id), deliveryLifetime)
			pipe.ZRem(ctx, k.open(webhook), id)
		}
		if done {
			pipe.Del(ctx, k.queue(webhook), k.leases(webhook), k.deliveries(webhook))
		}
		_, err = pipe.Exec(ctx)
		return err
	})
	return touched, done, err
}

// Depth is what waits in a partition.
type Depth struct {
	Partition int
	Waiting   int64            // deliveries queued, those being sent included
	OldestDue tollgate.Instant // zero when nothing is due
}

// QueueDepths reads the queues of every partition that has any.
func (s *Store) QueueDepths(ctx context.Context) (depths []Depth, err error) {
	for partition := range s.partitions {
		var ready []redis.Z
		err := s.timed(ctx, "queue_depths", func(ctx context.Context) (err error) {
			ready, err = s.client.ZRangeWithScores(ctx, readyKey(partition), 0, -1).Result()
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(ready) == 0 {
			continue
		}
		d := Depth{Partition: partition}
		if oldest := tollgate.Instant(ready[0].Score); oldest <= s.Now() {
			d.OldestDue = oldest
		}
		err = s.timed(ctx, "queue_depths", func(ctx context.Context) error {
			pipe := s.client.Pipeline()
			var lengths []*redis.IntCmd
			for _, r := range ready {
				member, _ := r.Member.(string)
				org, id, _ := strings.Cut(member, "/")
				lengths = append(lengths, pipe.ZCard(ctx, s.space(org).queue(id)))
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
			for _, n := range lengths {
				d.Waiting += n.Val()
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		depths = append(depths, d)
	}
	return depths, nil
}
