package rediskv

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
)

// deliveryLifetime is how long a delivery and its attempts are kept once it is
// done (interface §8).
const deliveryLifetime = 30 * 24 * time.Hour

// DeliveryQuery selects deliveries, the newest first; empty members select all.
// After is the position of the last one that was looked at, 0 at the start.
type DeliveryQuery struct {
	States    []tollgate.DeliveryState
	EventType string
	After     int64
	Limit     int
}

// Deliveries returns one page of an endpoint's deliveries and the position to
// go on from.
func (s *Store) Deliveries(ctx context.Context, c Caller, webhook string, q DeliveryQuery) (rows []tollgate.Delivery, next int64, more bool, err error) {
	k := s.space(c.Organization)
	if _, err := s.Webhook(ctx, c, webhook); err != nil {
		return nil, 0, false, err
	}
	next = q.After
	for looked := 0; looked < scanLimit; {
		ids, found, err := s.scanDeliveries(ctx, c, k, webhook, next)
		if err != nil {
			return nil, 0, false, err
		}
		for i, f := range found {
			if len(f) > 0 {
				d, r := readDelivery(ids[i].id, webhook, f)
				if (len(q.States) == 0 || slices.Contains(q.States, d.State) || r.unreadable("st")) &&
					(q.EventType == "" || q.EventType == string(d.EventType) || r.unreadable("et")) {
					if len(rows) == q.Limit {
						return rows, next, true, nil
					}
					_ = s.noticed(ctx, k, r.err())
					rows = append(rows, d)
				}
			}
			next = ids[i].position
		}
		if len(ids) < scanBatch {
			return rows, next, false, nil
		}
		looked += len(ids)
	}
	return rows, next, true, nil
}

func (s *Store) scanDeliveries(ctx context.Context, c Caller, k space, webhook string, after int64) (ids []indexed, found []fields, err error) {
	if err := s.timedInTurn(ctx, c, "scan_deliveries", func(ctx context.Context) error {
		last := "+inf"
		if after != 0 {
			last = strconv.FormatInt(after-1, 10)
		}
		members, err := s.client.ZRevRangeByScoreWithScores(ctx, k.deliveries(webhook), &redis.ZRangeBy{Min: "-inf", Max: last, Count: scanBatch}).Result()
		for _, m := range members {
			id, _ := m.Member.(string)
			ids = append(ids, indexed{id, int64(m.Score)})
		}
		return err
	}); err != nil {
		return nil, nil, err
	}
	for part := range slices.Chunk(ids, c.batch()) {
		if err := s.timedInTurn(ctx, c, "read_deliveries", func(ctx context.Context) error {
			pipe := s.client.Pipeline()
			replies := make([]*redis.MapStringStringCmd, len(part))
			for i, one := range part {
				replies[i] = pipe.HGetAll(ctx, k.object(one.id))
			}
			_, err := pipe.Exec(ctx)
			for _, r := range replies {
				found = append(found, r.Val())
			}
			return err
		}); err != nil {
			return nil, nil, err
		}
	}
	return ids, found, nil
}

// Delivery reads one delivery of an endpoint.
func (s *Store) Delivery(ctx context.Context, c Caller, webhook, id string) (*tollgate.Delivery, error) {
	k := s.space(c.Organization)
	if _, err := s.Webhook(ctx, c, webhook); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(id, tollgate.PrefixDelivery) {
		return nil, tollgate.NotFound()
	}
	found, err := s.readHashes(ctx, "read_delivery", k.object(id))
	if err != nil {
		return nil, err
	}
	if other := found[0]["we"]; other != webhook && strings.HasPrefix(other, tollgate.PrefixWebhook) {
		return nil, tollgate.NotFound()
	}
	d, r := readDelivery(id, webhook, found[0])
	return &d, s.noticed(ctx, k, r.err())
}

// readDelivery reads a hash back; with an error only Object and ID count.
func readDelivery(id, webhook string, f fields) (tollgate.Delivery, *stored) {
	r := read("delivery", id, f)
	d := tollgate.Delivery{
		Object: "delivery", ID: id, CreatedAt: r.instant("crt"), WebhookID: webhook, EventID: r.of("evt", tollgate.PrefixEvent), EventType: tollgate.EventType(r.text("et")),
		State: tollgate.DeliveryState(r.word("st", deliveryStates...)), AttemptCount: int(r.count("n")), NextAttemptAt: r.moment("nat"), LastAttemptAt: r.moment("lat"),
		CompletedAt: r.moment("cat"), FailureReason: f.optional("why"), ReplayCount: int(r.count("rc")),
	}
	if f["we"] != webhook {
		r.fault("we")
	}
	if d.EventType != tollgate.EventPing && !slices.Contains(tollgate.EventTypes, d.EventType) {
		r.fault("et")
	}
	r.count("run")   // of the scripts
	switch d.State { // what has been attempted says so
	case tollgate.DeliverySucceeded:
		r.int("code")
		fallthrough
	case tollgate.DeliveryFailed, tollgate.DeliveryRetrying, tollgate.DeliverySending:
		r.int("n")
		r.instant("lat")
	}
	if d.State == tollgate.DeliverySucceeded || d.State == tollgate.DeliveryFailed {
		r.instant("cat")
	}
	if code := int(r.count("code")); code != 0 {
		d.LastStatusCode = &code
	}
	d.Damaged = len(r.faults) > 0
	return d, r
}

var deliveryStates = func() (names []string) {
	for _, state := range tollgate.DeliveryStates {
		names = append(names, string(state))
	}
	return names
}()

// Attempts lists a delivery's attempts from the first, those after the first
// after ones. The one being made now is not among them.
func (s *Store) Attempts(ctx context.Context, c Caller, webhook, delivery string, after, limit int) (rows []jsontext.Value, more bool, err error) {
	d, err := s.Delivery(ctx, c, webhook, delivery)
	if err != nil {
		return nil, false, err
	}
	k := s.space(c.Organization)
	last := d.AttemptCount
	if d.State == tollgate.DeliverySending {
		last--
	}
	var numbers []string
	for n := after + 1; n <= min(last, after+limit); n++ {
		numbers = append(numbers, strconv.Itoa(n))
	}
	if len(numbers) == 0 {
		return nil, false, nil
	}
	err = s.timed(ctx, "read_attempts", func(ctx context.Context) error {
		values, err := s.client.HMGet(ctx, k.attempts(delivery), numbers...).Result()
		for i, v := range values {
			text, ok := v.(string)
			if !ok {
				continue
			}
			row, failed := attemptRow(delivery, after+1+i, text)
			if failed != nil { // it stands in its own place
				failed = s.damaged(ctx, k, "attempt", delivery+"_"+strconv.Itoa(after+1+i), failed)
				if row, err = json.Marshal(tollgate.DamageOf(failed)); err != nil {
					return err
				}
			}
			rows = append(rows, row)
		}
		return err
	})
	return rows, last > after+limit, err
}

// attemptRow is the JSON of an attempt as it is stored.
func attemptRow(delivery string, number int, text string) (jsontext.Value, error) {
	if !strings.HasPrefix(text, "{") {
		return unknownAttempt(delivery, number, text)
	}
	var a tollgate.Attempt
	if err := decode(text, &a); err != nil {
		return nil, fmt.Errorf("attempt %d of %s: %w", number, delivery, err)
	}
	if a.DeliveryID != delivery || a.Number != number || a.Object != "attempt" || a.StartedAt == 0 {
		return nil, fmt.Errorf("attempt %d of %s: the document is of attempt %d of %q", number, delivery, a.Number, a.DeliveryID)
	}
	object, _ := opened(text)
	return jsontext.Value(object), nil
}

// unknownAttempt is the JSON of an attempt that nobody has recorded, from what
// the script that began the next one has written.
func unknownAttempt(delivery string, number int, written string) (jsontext.Value, error) {
	parts := strings.SplitN(written, " ", 4)
	if len(parts) != 4 {
		return nil, fmt.Errorf("attempt %d of %s: %q", number, delivery, written)
	}
	r := read("attempt", delivery, fields{"at": parts[0]})
	started := r.instant("at")
	if err := r.err(); err != nil {
		return nil, err
	}
	a := tollgate.Attempt{
		Object: "attempt", ID: tollgate.AttemptOf(delivery, number, started), CreatedAt: started, DeliveryID: delivery, Number: number,
		Trigger: tollgate.AttemptTrigger(parts[1]), Status: tollgate.AttemptUnknown, StartedAt: started, URL: parts[3],
	}
	if parts[2] != "" {
		a.ReplayID = &parts[2]
	}
	text, err := json.Marshal(a, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("attempt %d of %s: %w", number, delivery, err)
	}
	return text, nil
}

// CommitReplay has a delivery sent now; its schedule of retries starts anew, and a
// pause of its endpoint ends. ErrConflict while an attempt is being made.
func (s *Store) CommitReplay(ctx context.Context, c Caller, idem *Idempotency, r *tollgate.DeliveryReplay, ans Answer) (Result, error) {
	doc, err := json.Marshal(r.Replay, json.Deterministic(true))
	if err != nil {
		return Result{}, fmt.Errorf("replay: %w", err)
	}
	var f pairs
	f.set(envelopeField, envelope)
	f.set("json", string(doc))
	return s.requeue(ctx, c, idem, r.Delivery.WebhookID, requeueing{
		trigger: tollgate.TriggeredByReplay, replay: r.Replay.ID, object: r.Replay.ID, fields: f, event: &r.Event, audit: "delivery.replay", deliveries: []tollgate.Delivery{r.Delivery},
	}, ans)
}

// requeueing is a set of deliveries to queue again.
type requeueing struct {
	trigger    tollgate.AttemptTrigger
	replay     string
	object     string // the replay or recovery that it belongs to
	from       string // the place of the recovery that this is the next step from
	fields     pairs
	event      *tollgate.Event
	audit      string
	job        string
	deliveries []tollgate.Delivery
}

type requeueKeys struct {
	requestKeys
	logKeys
	Endpoint, Queue, Open, Ready, Job, Jobs, Mark string
}

type requeueArgs struct {
	requestArgs
	NowMs                          int64
	ReadyMember, Trigger, ReplayID string
	eventArgs
	auditArgs
	NewJob, Place string
	FieldCount    int
}

var scriptRequeue = newScript[requeueKeys, requeueArgs](lua, "requeue")

func (s *Store) requeue(ctx context.Context, c Caller, idem *Idempotency, webhook string, q requeueing, ans Answer) (Result, error) {
	k := s.space(c.Organization)
	operation := s.Mint("")
	request, asked := c.request(k, idem, operation, ans)
	args := requeueArgs{
		requestArgs: asked, NowMs: int64(s.Now()), ReadyMember: k.org + "/" + webhook, Trigger: string(q.trigger), ReplayID: q.replay,
		NewJob: q.job, Place: q.from, FieldCount: len(q.fields),
	}
	var err error
	if q.event != nil {
		if args.eventArgs, err = eventArguments(q.event); err != nil {
			return Result{}, err
		}
	}
	if q.audit != "" {
		if args.auditArgs, err = s.entry(c, q.audit, "succeeded", "", "webhook_endpoint", webhook); err != nil {
			return Result{}, err
		}
	}
	inv := scriptRequeue.with(requeueKeys{
		requestKeys: request, logKeys: k.logs(), Endpoint: k.object(webhook), Queue: k.queue(webhook), Open: k.open(webhook), Ready: k.ready,
		Job: k.object(q.object), Jobs: k.jobs, Mark: k.mark(operation),
	}, args)
	inv.args = append(inv.args, q.fields...)
	for _, d := range q.deliveries {
		written, _ := tollgate.IDTime(d.EventID)
		at := tollgate.At(written)
		if d.EventType == tollgate.EventPing {
			at = endOfLog
		}
		inv.keys = append(inv.keys, k.object(d.ID), k.attempts(d.ID))
		inv.args = append(inv.args, d.ID, int64(at))
	}
	outcome, rest, err := s.run(ctx, inv)
	if err != nil {
		return Result{}, err
	}
	return result(outcome, rest, ans)
}
