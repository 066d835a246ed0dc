package webhooks

import (
	"context"
	"fmt"
	"strconv"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

// Outcome is what an attempt means for its delivery and its endpoint.
type Outcome struct {
	State      tollgate.DeliveryState // succeeded, retrying or failed
	Next       tollgate.Instant       // of retrying
	Pause      tollgate.Instant       // the endpoint gets nothing until then; zero: no pause
	Slow       bool                   // it took so long that the endpoint gets no more at once than a new one
	Unheard    bool                   // no answer came: whoever was frozen until the lease was over cannot know whether one did
	Own        bool                   // the service's fault: it says nothing about the endpoint and costs no retry
	StatusCode int                    // 0: none came
	Reason     string                 // why not; empty for success
}

// Ended is an attempt that has ended, and what that means.
type Ended struct {
	Work    Work
	Attempt tollgate.Attempt
	Outcome Outcome
}

// Recorded is what became of an Ended. Late: the lease had run out, and nothing
// has moved; an Unheard one is not even written down. The rest is the endpoint's health after it,
// and when it has something due, which the last of those that were recorded together says:
// zero when nothing is queued.
type Recorded struct {
	Late        bool
	Failures    int64
	LastSuccess tollgate.Instant
	Next        tollgate.Instant
}

type recordAttemptsKeys struct{ Queue, Leases, Open, Ready, Endpoint, Mark string }

type recordAttemptsArgs struct {
	NowMs                  string
	DoneLifetime           int64
	ReadyMember            string
	FirstCap, AttemptCount int
}

var scriptRecordAttempts = script.New[recordAttemptsKeys, recordAttemptsArgs](lua, "record_attempts")

// RecordAttempts writes down attempts of one endpoint and moves their
// deliveries, each for itself: one that is late does not keep the others from
// counting. There is at least one, and at most MostAtOnce.
func (s *Store) RecordAttempts(ctx context.Context, ended []Ended) ([]Recorded, error) {
	endpoint := ended[0].Work.Endpoint.ID
	k := s.db.Space(ended[0].Work.Organization)
	inv := scriptRecordAttempts.With(recordAttemptsKeys{
		Queue: k.Queue(endpoint), Leases: k.Leases(endpoint), Open: k.Open(endpoint), Ready: k.Ready, Endpoint: k.Object(endpoint),
		Mark: k.Mark(s.db.NewID("")),
	}, recordAttemptsArgs{
		NowMs: rediskv.Milli(s.db.Now()), DoneLifetime: DeliveryLifetime.Milliseconds(), ReadyMember: k.Org + "/" + endpoint, FirstCap: firstCap, AttemptCount: len(ended),
	})
	for i := range ended {
		id := ended[i].Work.DeliveryID
		attempts := k.Attempts(id)
		if ended[i].Work.folded {
			attempts = k.Object(id)
		}
		inv.Keys = append(inv.Keys, k.Object(id), attempts)
		inv.Args = append(inv.Args, id)
	}
	for i := range ended {
		doc, err := record.Text(attemptKey(k, ended[i].Work.DeliveryID, ended[i].Work.Number), &ended[i].Attempt, record.FormIn(s.db.Layout()))
		if err != nil {
			return nil, fmt.Errorf("attempt: %w", err)
		}
		inv.Args = append(ended[i].Outcome.arguments(append(inv.Args, ended[i].Work.Number, doc)), ended[i].Work.Endpoint.Revision, rediskv.Milli(endOf(&ended[i].Attempt)),
			int64(ended[i].Work.Lease))
	}
	_, rest, err := s.db.RunOn(ctx, s.db.Batched, inv)
	if err != nil {
		return nil, err
	}
	if len(rest) != 1+len(ended) {
		return nil, fmt.Errorf("redis record_attempts: %d parts", len(rest))
	}
	next := s.nextOf(rest[0])
	recorded := make([]Recorded, len(ended))
	for i := range recorded {
		part, _ := rest[1+i].([]any)
		if len(part) != 3 {
			return nil, fmt.Errorf("redis record_attempts: %d parts", len(part))
		}
		late, _ := part[0].(int64)
		health := record.ReadHash("webhook_endpoint", endpoint, rediskv.Fields{})
		health.Fields["fail"], _ = part[1].(string)
		health.Fields["ok"], _ = part[2].(string)
		recorded[i] = Recorded{late == 1, health.Count("fail"), health.Moment("ok"), 0}
	}
	recorded[len(recorded)-1].Next = next // one look at the endpoint is enough
	return recorded, nil
}

func (o Outcome) arguments(args []any) []any {
	healthy, code, most, unheard := "0", "", mostCap, ""
	switch {
	case o.Own:
		healthy = ""
	case o.State == tollgate.DeliverySucceeded:
		healthy = "1"
	}
	if o.Slow {
		most = firstCap
	}
	if o.StatusCode != 0 {
		code = strconv.Itoa(o.StatusCode)
	}
	if o.Unheard {
		unheard = "1"
	}
	return append(args, string(o.State), rediskv.Milli(o.Next), rediskv.Milli(o.Pause), healthy, code, o.Reason, most, unheard)
}
