package webhooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/record"
)

// CommitRecovery stores a job that queues again what an endpoint missed; the worker
// carries it out.
func (s *Store) CommitRecovery(ctx context.Context, c rediskv.Caller, idem *rediskv.Idempotency, r *tollgate.Recovery, ans rediskv.Answer) (rediskv.Result, error) {
	k := s.db.Space(c.Organization)
	low, high, err := s.ledger.Bounds(ctx, k, ledger.TransactionQuery{CreatedAfter: r.Since})
	if err != nil {
		return rediskv.Result{}, err
	}
	doc, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		return rediskv.Result{}, fmt.Errorf("recovery: %w", err)
	}
	var f rediskv.Pairs
	f.Set(rediskv.EnvelopeField, rediskv.Envelope)
	f.Set("json", string(doc))
	f.Int("at", low/16)
	f.Int("end", min(high/16, 1<<48))
	f.Set("state", r.State)
	f.Set("marks", recoveryMarks(k.Object(r.ID), strconv.FormatInt(low/16, 10), r))
	return s.requeue(ctx, c, idem, r.WebhookID, requeueing{
		trigger: tollgate.TriggeredByRecovery, object: r.ID, fields: f, audit: "webhook_endpoint.recover", job: "recover/" + k.Org + "/" + r.WebhookID + "/" + r.ID,
	}, ans)
}

// Recovery reads a recovery with its progress.
func (s *Store) Recovery(ctx context.Context, c rediskv.Caller, webhook, id string) (_ *tollgate.Recovery, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	f, err := s.db.ReadObject(ctx, "read_recovery", k, tollgate.PrefixRecovery, id)
	if err != nil {
		return nil, err
	}
	r, err := RecoveryOf(k.Object(id), f)
	err = s.db.Damaged(ctx, k, "recovery", id, err)
	if err == nil && r.WebhookID != webhook {
		return nil, tollgate.NotFound()
	}
	return r, err
}

// recoveryMarks are the marks of how far a recovery has come.
func recoveryMarks(key, at string, r *tollgate.Recovery) string {
	return record.Marks(key, at, strconv.FormatInt(r.Looked, 10), r.State, rediskv.Milli(r.CompletedAt))
}

// RecoveryOf reads the hash of a recovery back.
func RecoveryOf(key string, f rediskv.Fields) (*tollgate.Recovery, error) {
	r := new(tollgate.Recovery)
	if err := f.Document(r); err != nil {
		return nil, fmt.Errorf("recovery: %w", err)
	}
	of := record.ReadHash("recovery", r.ID, f)
	r.State, r.Looked, r.Queued, r.CompletedAt = of.Word("state", tollgate.RecoveryPending, tollgate.RecoveryRunning, tollgate.RecoverySucceeded), of.Count("looked"), of.Count("queued"), of.Moment("cat")
	same, whole := record.Marked(f["marks"], key, f["at"], cmp.Or(f["looked"], "0"), f["state"], f["cat"])
	if !whole {
		of.Fault("marks")
	}
	if copied := record.Copied("queued"); same && f[copied] != "" && f[copied] != f["queued"] {
		of.Fault("queued")
	}
	return r, of.Err()
}

// jobsAtOnce is how many jobs of a partition one call carries on.
const jobsAtOnce = 16

// RunJobs carries the jobs of a partition that have waited longest one step on:
// the next batch of a recovery, the next batch of what a deleted endpoint leaves
// behind. Then the others have their turn. It returns how many deliveries it has
// gone through; 0 when there is nothing to do. It goes on past a job that fails
// and returns the first error. Steps are atomic, and each is made from the place
// that it is for, so that any number of workers carry a job, and one that dies
// leaves nothing to repair.
func (s *Store) RunJobs(ctx context.Context, partition int) (looked int, err error) {
	var members []string
	err = s.db.Timed(ctx, "read_jobs", func(ctx context.Context) (err error) {
		members, err = s.db.Redis.ZRange(ctx, rediskv.JobsKey(partition), 0, jobsAtOnce-1).Result()
		return err
	})
	for _, m := range members {
		n, failed := s.runJob(ctx, m)
		looked += n
		if err == nil {
			err = failed
		}
		if rediskv.Away(failed) {
			break
		}
	}
	return looked, err
}

// runJob makes one step of a job and sends it to the end of the queue, or
// removes it when that was the last one.
func (s *Store) runJob(ctx context.Context, member string) (looked int, err error) {
	part := strings.SplitN(member, "/", 4)
	if len(part) != 4 {
		return 0, fmt.Errorf("job %q", member)
	}
	k := s.db.Space(part[1])
	done := false
	if part[0] == "recover" {
		looked, done, err = s.recoverStep(ctx, k, part[2], part[3])
	} else {
		looked, done, err = s.cancelStep(ctx, k, part[2])
	}
	if rediskv.Away(err) {
		return looked, err
	}
	return looked, errors.Join(err, s.db.Timed(ctx, "leave_job", func(ctx context.Context) error {
		if done {
			return s.db.Redis.ZRem(ctx, k.Jobs, member).Err()
		}
		return s.db.Redis.ZAddXX(ctx, k.Jobs, redis.Z{Score: float64(s.db.Now()), Member: member}).Err()
	}))
}

func (s *Store) recoverStep(ctx context.Context, k rediskv.Space, webhook, id string) (looked int, done bool, err error) {
	found, err := s.db.ReadHashes(ctx, "read_recovery", k.Object(id))
	if rediskv.Gone(err) {
		return 0, true, nil
	}
	if err != nil {
		return 0, false, err
	}
	f := found[0]
	if f["state"] == tollgate.RecoverySucceeded {
		return 0, true, nil
	}
	r, err := RecoveryOf(k.Object(id), f)
	if err != nil {
		return 0, false, s.db.Damaged(ctx, k, "recovery", id, err)
	}
	batch, at, err := s.recoveryBatch(ctx, k, webhook, f)
	if err != nil {
		return 0, false, err
	}
	done = len(batch) < rediskv.ScanPage
	q := requeueing{trigger: tollgate.TriggeredByRecovery, object: id, from: f["at"], deliveries: r.Advance(batch, done, s.db.Now())}
	q.fields.Int("at", at)
	q.fields.Int("looked", r.Looked)
	q.fields.Set("state", r.State)
	q.fields.Add("cat", rediskv.Milli(r.CompletedAt))
	q.fields.Set("marks", recoveryMarks(k.Object(id), strconv.FormatInt(at, 10), r))
	_, err = s.requeue(ctx, rediskv.Caller{Organization: k.Org}, nil, webhook, q, rediskv.Answer{})
	switch {
	case rediskv.Gone(err): // the endpoint, and with it the way to read the recovery
		return 0, true, nil
	case errors.Is(err, rediskv.ErrConflict): // another worker was faster
		return 0, false, nil
	case err != nil:
		return 0, false, err
	}
	return len(batch), done, nil
}

// recoveryBatch reads the deliveries that are next in a recovery, and the place
// to go on from; those that have expired have no event any more.
func (s *Store) recoveryBatch(ctx context.Context, k rediskv.Space, webhook string, f rediskv.Fields) (batch []tollgate.Delivery, at int64, err error) {
	if at, err = strconv.ParseInt(f["at"], 10, 64); err != nil {
		return nil, 0, err
	}
	err = s.db.Timed(ctx, "recovery_batch", func(ctx context.Context) error {
		members, err := s.db.Redis.ZRangeByScoreWithScores(ctx, k.Deliveries(webhook),
			&redis.ZRangeBy{Min: f["at"], Max: f["end"], Count: rediskv.ScanPage}).Result()
		if err != nil || len(members) == 0 {
			return err
		}
		at = int64(members[len(members)-1].Score) + 1
		pipe := s.db.Redis.Pipeline()
		events := make([]*redis.SliceCmd, len(members))
		for i, m := range members {
			id, _ := m.Member.(string)
			batch = append(batch, tollgate.Delivery{ID: id})
			events[i] = pipe.HMGet(ctx, k.Object(id), record.KindOf(k.Object(id)).Names([]string{"evt"})...)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for i := range batch {
			batch[i].EventID = rediskv.VerifiedIn(k.Object(batch[i].ID), events[i].Val(), "evt")["evt"]
		}
		return nil
	})
	return batch, at, err
}

// cancelStep ends deliveries of an endpoint that was deleted, and then removes
// what is left of it.
func (s *Store) cancelStep(ctx context.Context, k rediskv.Space, webhook string) (touched int, done bool, err error) {
	err = s.db.Timed(ctx, "cancel_deliveries", func(ctx context.Context) error {
		ids, err := s.db.Redis.ZRange(ctx, k.Open(webhook), 0, rediskv.ScanPage-1).Result()
		if err != nil {
			return err
		}
		touched, done = len(ids), len(ids) == 0
		pipe := s.db.Redis.TxPipeline()
		for _, id := range ids {
			pipe.HSet(ctx, k.Object(id), "st", string(tollgate.DeliveryCanceled), "cat", rediskv.Milli(s.db.Now()))
			pipe.PExpire(ctx, k.Object(id), DeliveryLifetime)
			pipe.PExpire(ctx, k.Attempts(id), DeliveryLifetime)
			pipe.ZRem(ctx, k.Open(webhook), id)
		}
		if done {
			pipe.Del(ctx, k.Queue(webhook), k.Leases(webhook), k.Targets(webhook), k.Deliveries(webhook))
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
	OldestDue tollgate.Instant // since when the oldest that nobody is sending has been due; zero when nothing is
}

// QueueDepths reads the queues of those partitions that have any. It also forgets
// endpoints that have nothing queued: one that was deleted never has again, and
// another is read again when its turn comes.
func (s *Store) QueueDepths(ctx context.Context, partitions []int) (depths []Depth, err error) {
	queued := map[any]bool{}
	for _, partition := range partitions {
		var ready []string
		err := s.db.Timed(ctx, "queue_depths", func(ctx context.Context) (err error) {
			ready, err = s.db.Redis.ZRange(ctx, rediskv.ReadyKey(partition), 0, -1).Result()
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(ready) == 0 {
			continue
		}
		d := Depth{Partition: partition}
		err = s.db.Timed(ctx, "queue_depths", func(ctx context.Context) error {
			pipe := s.db.Redis.Pipeline()
			var lengths []*redis.IntCmd
			var heads []*redis.ZSliceCmd
			for _, member := range ready {
				queued[member] = true
				org, id, _ := strings.Cut(member, "/")
				queue := s.db.Space(org).Queue(id)
				lengths = append(lengths, pipe.ZCard(ctx, queue))
				heads = append(heads, pipe.ZRangeWithScores(ctx, queue, 0, 0))
			}
			now := s.db.Now()
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
			for i := range ready {
				d.Waiting += lengths[i].Val()
				// What is being sent stands where its lease ends.
				for _, head := range heads[i].Val() {
					if due := tollgate.Instant(math.Ceil(head.Score)); due <= now && (d.OldestDue == 0 || due < d.OldestDue) {
						d.OldestDue = due
					}
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		depths = append(depths, d)
	}
	s.endpoints.Range(func(name, _ any) bool {
		if !queued[name] {
			s.endpoints.Delete(name)
		}
		return true
	})
	return depths, nil
}
