package webhooks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/bodies"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

// DeliveryLifetime is how long a delivery and its attempts are kept once it is
// done (interface §8).
const DeliveryLifetime = 30 * 24 * time.Hour

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
func (s *Store) Deliveries(ctx context.Context, c rediskv.Caller, webhook string, q DeliveryQuery) (rows []tollgate.Delivery, next int64, more bool, err error) {
	k := s.db.Space(c.Organization)
	defer rediskv.Beside(func() error { _, err := s.Webhook(ctx, c, webhook); return err })(&err)
	next = q.After
	for looked := 0; looked < rediskv.ScanLimit; {
		ids, found, err := s.scanDeliveries(ctx, c, k, webhook, next)
		if err != nil {
			return nil, 0, false, err
		}
		for i, f := range found {
			if len(f) > 0 {
				d, r := ReadDelivery(k.Object(ids[i].ID), ids[i].ID, webhook, f)
				if (len(q.States) == 0 || slices.Contains(q.States, d.State) || r.Unreadable("st")) &&
					(q.EventType == "" || q.EventType == string(d.EventType) || r.Unreadable("et")) {
					if len(rows) == q.Limit {
						return rows, next, true, nil
					}
					_ = s.db.Noticed(ctx, k, r.Err())
					rows = append(rows, d)
				}
			}
			next = ids[i].Position
		}
		if len(ids) < rediskv.ScanPage {
			return rows, next, false, nil
		}
		looked += len(ids)
	}
	return rows, next, true, nil
}

func (s *Store) scanDeliveries(ctx context.Context, c rediskv.Caller, k rediskv.Space, webhook string, after int64) (ids []ledger.Indexed, found []rediskv.Fields, err error) {
	if err := s.db.TimedInTurn(ctx, c, "scan_deliveries", func(ctx context.Context) error {
		last := "+inf"
		if after != 0 {
			last = strconv.FormatInt(after-1, 10)
		}
		members, err := s.db.Redis.ZRevRangeByScoreWithScores(ctx, k.Deliveries(webhook), &redis.ZRangeBy{Min: "-inf", Max: last, Count: rediskv.ScanPage}).Result()
		for _, m := range members {
			id, _ := m.Member.(string)
			ids = append(ids, ledger.Indexed{ID: id, Position: int64(m.Score)})
		}
		return err
	}); err != nil {
		return nil, nil, err
	}
	err = rediskv.EachHash(ctx, s.db, c, "read_deliveries", ids, func(one ledger.Indexed) string { return k.Object(one.ID) },
		func(_ ledger.Indexed, f rediskv.Fields) { found = append(found, f) })
	return ids, found, err
}

// Delivery reads one delivery of an endpoint.
func (s *Store) Delivery(ctx context.Context, c rediskv.Caller, webhook, id string) (_ *tollgate.Delivery, err error) {
	k := s.db.Space(c.Organization)
	defer rediskv.Beside(func() error { _, err := s.Webhook(ctx, c, webhook); return err })(&err)
	f, err := s.db.ReadObject(ctx, "read_delivery", k, tollgate.PrefixDelivery, id)
	if err != nil {
		return nil, err
	}
	if other := f["we"]; other != webhook && strings.HasPrefix(other, tollgate.PrefixWebhook) {
		return nil, tollgate.NotFound()
	}
	d, r := ReadDelivery(k.Object(id), id, webhook, f)
	return &d, s.db.Noticed(ctx, k, r.Err())
}

// ReadDelivery reads the hash at a key back; with an error only Object and ID count.
func ReadDelivery(key, id, webhook string, f rediskv.Fields) (tollgate.Delivery, *rediskv.Stored) {
	f = settled(AttemptsOf(key), f)
	r := record.ReadHash("delivery", id, f)
	d := tollgate.Delivery{
		Object: "delivery", ID: id, CreatedAt: r.Instant("crt"), WebhookID: webhook, EventID: r.Of("evt", tollgate.PrefixEvent), EventType: tollgate.EventType(r.Text("et")),
		State: tollgate.DeliveryState(r.Word("st", deliveryStates...)), AttemptCount: int(r.Count("n")), NextAttemptAt: r.Moment("nat"), LastAttemptAt: r.Moment("lat"),
		CompletedAt: r.Moment("cat"), FailureReason: f.Optional("why"), ReplayCount: int(r.Count("rc")),
	}
	if f["we"] != webhook {
		r.Fault("we")
	}
	if d.EventType != tollgate.EventPing && !slices.Contains(tollgate.EventTypes, d.EventType) {
		r.Fault("et")
	}
	if r.Count("run") > r.Count("n") { // of the scripts
		r.Fault("run")
	}
	if to := f["to"]; to != "" && !strings.HasPrefix(to, "http") {
		r.Fault("to")
	}
	if f["trig"] != "" {
		r.Word("trig", string(tollgate.TriggeredBySchedule), string(tollgate.TriggeredByReplay), string(tollgate.TriggeredByRecovery))
	}
	switch d.State { // what has been attempted says so
	case tollgate.DeliverySucceeded:
		r.Int("code")
		fallthrough
	case tollgate.DeliveryFailed, tollgate.DeliveryRetrying, tollgate.DeliverySending:
		r.Int("n")
		r.Instant("lat")
	}
	if !counted(f, d.State) {
		r.Fault("n")
	}
	if d.State == tollgate.DeliverySucceeded || d.State == tollgate.DeliveryFailed {
		r.Instant("cat")
	}
	if code := int(r.Count("code")); code != 0 {
		d.LastStatusCode = &code
	}
	d.Damaged = len(r.Faults) > 0
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
func (s *Store) Attempts(ctx context.Context, c rediskv.Caller, webhook, delivery string, after, limit int) (rows []jsontext.Value, more bool, err error) {
	d, err := s.Delivery(ctx, c, webhook, delivery)
	if err != nil {
		return nil, false, err
	}
	k := s.db.Space(c.Organization)
	last := d.AttemptCount
	if d.State == tollgate.DeliverySending {
		last--
	}
	var fields []string
	for n := after + 1; n <= min(last, after+limit); n++ {
		number := strconv.Itoa(n)
		fields = append(fields, record.Pieces(number)...)
	}
	if len(fields) == 0 {
		return nil, false, nil
	}
	err = s.db.Timed(ctx, "read_attempts", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		within, beside := pipe.HMGet(ctx, k.Object(delivery), fields...), pipe.HMGet(ctx, k.Attempts(delivery), fields...)
		_, err := pipe.Exec(ctx)
		for number := after + 1; err == nil && number <= after+len(fields)/record.MostPieces; number++ {
			at := (number - after - 1) * record.MostPieces
			text, ok := record.Joined(within.Val()[at : at+record.MostPieces])
			if !ok {
				text, ok = record.Joined(beside.Val()[at : at+record.MostPieces])
			}
			if !ok {
				continue
			}
			row, failed := attemptRow(k, delivery, number, text)
			if failed != nil { // it stands in its own place
				failed = s.db.Damaged(ctx, k, "attempt", delivery+"_"+strconv.Itoa(number), failed)
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

// IsRecorded reports whether the text of an attempt is a record; else it is what the script
// that began the next one has written.
func IsRecorded(text string) bool { return strings.HasPrefix(text, "{") || record.IsPacked(text) }

// attemptRow is the JSON of an attempt: as it was stored, or of what was packed.
func attemptRow(k rediskv.Space, delivery string, number int, text string) (jsontext.Value, error) {
	if !IsRecorded(text) {
		return unknownAttempt(delivery, number, text)
	}
	var a tollgate.Attempt
	err := record.DecodeAt(attemptKey(k, delivery, number), text, &a)
	if err != nil {
		return nil, fmt.Errorf("attempt %d of %s: %w", number, delivery, err)
	}
	if a.DeliveryID != delivery || a.Number != number || a.Object != "attempt" || a.StartedAt == 0 {
		return nil, fmt.Errorf("attempt %d of %s: the document is of attempt %d of %q", number, delivery, a.Number, a.DeliveryID)
	}
	if record.IsPacked(text) {
		return bodies.Of(&a)
	}
	object, err := record.Opened(attemptKey(k, delivery, number), text)
	return jsontext.Value(object), err
}

// AttemptsOf is the key of a delivery's attempts, where they do not stand in its own hash.
func AttemptsOf(key string) string { return key + ":att" }

// attemptKey is what the checksum of an attempt is bound to, wherever it stands: the hash of
// attempts and its field.
func attemptKey(k rediskv.Space, delivery string, number int) string {
	return k.Attempts(delivery) + ":" + strconv.Itoa(number)
}

// unknownAttempt is the JSON of an attempt that nobody has recorded, from what
// the script that began the next one has written.
func unknownAttempt(delivery string, number int, written string) (jsontext.Value, error) {
	parts := strings.SplitN(written, " ", 4)
	if len(parts) != 4 {
		return nil, fmt.Errorf("attempt %d of %s: %q", number, delivery, written)
	}
	r := record.ReadHash("attempt", delivery, rediskv.Fields{"at": parts[0]})
	started := r.Instant("at")
	if err := r.Err(); err != nil {
		return nil, err
	}
	a := tollgate.Attempt{
		Object: "attempt", ID: attemptOf(delivery, number, started), CreatedAt: started, DeliveryID: delivery, Number: number,
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
func (s *Store) CommitReplay(ctx context.Context, c rediskv.Caller, idem *rediskv.Idempotency, r *tollgate.DeliveryReplay, ans rediskv.Answer) (rediskv.Result, error) {
	doc, err := json.Marshal(r.Replay, json.Deterministic(true))
	if err != nil {
		return rediskv.Result{}, fmt.Errorf("replay: %w", err)
	}
	var f rediskv.Pairs
	f.Set(rediskv.EnvelopeField, rediskv.Envelope)
	f.Set("json", string(doc))
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
	fields     rediskv.Pairs
	event      *tollgate.Event
	audit      string
	job        string
	deliveries []tollgate.Delivery
}

type requeueKeys struct {
	rediskv.RequestKeys
	rediskv.LogKeys
	Endpoint, Queue, Open, Ready, Job, Jobs, Mark string
}

type requeueArgs struct {
	rediskv.RequestArgs
	NowMs                          int64
	ReadyMember, Trigger, ReplayID string
	rediskv.EventArgs
	rediskv.AuditArgs
	NewJob, Place string
	FieldCount    int
}

var scriptRequeue = script.New[requeueKeys, requeueArgs](lua, "requeue")

func (s *Store) requeue(ctx context.Context, c rediskv.Caller, idem *rediskv.Idempotency, webhook string, q requeueing, ans rediskv.Answer) (rediskv.Result, error) {
	k := s.db.Space(c.Organization)
	operation := s.db.NewID("")
	request, asked := c.Arguments(k, idem, operation, ans)
	args := requeueArgs{
		RequestArgs: asked, NowMs: int64(s.db.Now()), ReadyMember: k.Org + "/" + webhook, Trigger: string(q.trigger), ReplayID: q.replay,
		NewJob: q.job, Place: q.from, FieldCount: len(q.fields),
	}
	var err error
	if q.event != nil {
		if args.EventArgs, err = rediskv.EventArguments(k, c, q.event); err != nil {
			return rediskv.Result{}, err
		}
	}
	if q.audit != "" {
		if args.AuditArgs, err = s.db.Entry(c, q.audit, "succeeded", "", "webhook_endpoint", webhook); err != nil {
			return rediskv.Result{}, err
		}
	}
	inv := scriptRequeue.With(requeueKeys{
		RequestKeys: request, LogKeys: k.Logs(), Endpoint: k.Object(webhook), Queue: k.Queue(webhook), Open: k.Open(webhook), Ready: k.Ready,
		Job: k.Object(q.object), Jobs: k.Jobs, Mark: k.Mark(operation),
	}, args)
	inv.Args = append(inv.Args, q.fields.Sealed(k.Object(q.object), nil)...)
	for _, d := range q.deliveries {
		written, _ := tollgate.IDTime(d.EventID)
		at := tollgate.At(written)
		if d.EventType == tollgate.EventPing {
			at = endOfLog
		}
		inv.Keys = append(inv.Keys, k.Object(d.ID), k.Attempts(d.ID))
		code := ""
		if d.LastStatusCode != nil {
			code = strconv.Itoa(*d.LastStatusCode)
		}
		inv.Args = append(inv.Args, d.ID, int64(at), d.AttemptCount, int64(d.LastAttemptAt), code)
	}
	outcome, rest, err := s.db.Run(ctx, inv)
	if err != nil {
		return rediskv.Result{}, err
	}
	return rediskv.ResultOf(outcome, s.db.Revised(c, inv, outcome, rest), ans)
}

// attemptOf is the id of a delivery's attempt that began at a moment.
func attemptOf(delivery string, number int, started tollgate.Instant) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", delivery, number))
	return tollgate.NewID(tollgate.PrefixAttempt, started.Time(), bytes.NewReader(sum[:]))
}
