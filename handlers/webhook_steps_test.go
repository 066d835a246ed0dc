package handlers_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers/secret"
	"tollgate/rediskv/webhooks"
)

// newVault is the vault of every test: one key, so that all can open what one
// has sealed.
func newVault(t testing.TB) *secret.Vault {
	t.Helper()
	v, err := secret.NewVault(make([]byte, 32))
	return must(t, v, err)
}

// directWebhooks carries out what a worker does, in the directives of a
// conversation:
//
//	! fan-out             makes the deliveries of the events so far
//	! take                leases what is due and never reports
//	! attempt failed 500  makes the attempts that are due; each ends like that
//	! jobs                carries out recoveries and cancellations
func (p *player) directWebhooks(words []string) error {
	switch words[0] {
	case "fan-out":
		return p.fanOut()
	case "take":
		_, err := p.take()
		return err
	case "attempt":
		code, err := strconv.Atoi(words[2])
		if err != nil {
			return err
		}
		return p.attempt(tollgate.DeliveryState(words[1]), code)
	case "jobs":
		return p.eachPartition(func(partition int) (int, error) { return p.store.RunJobs(p.t.Context(), partition) })
	}
	return p.directExports(words)
}

// fanOut hands over until nothing is left; the first look makes the group.
func (w *world) fanOut() error {
	for range 2 {
		if err := w.eachPartition(func(partition int) (int, error) {
			f, err := w.store.FanOut(w.t.Context(), partition, "test", time.Millisecond, nil)
			return f.Events, err
		}); err != nil {
			return err
		}
	}
	return nil
}

// eachPartition repeats a step in every partition that has anything to do with
// webhooks until it has nothing to do. In the others a look at what was handed
// over would only wait: a real server notices the end of 1 ms up to 100 ms late.
func (w *world) eachPartition(step func(partition int) (int, error)) error {
	all := dump(w.t, w.redis)
	for partition := range w.store.Partitions() {
		tag := fmt.Sprintf("{p%02d}:", partition)
		if all[tag+"dispatch"] == "" && all[tag+"ready"] == "" && all[tag+"jobs"] == "" {
			continue
		}
		for {
			n, err := step(partition)
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
		}
	}
	return nil
}

func (w *world) take() (work []webhooks.Work, err error) {
	err = w.eachPartition(func(partition int) (int, error) {
		taken, _, err := w.store.TakeDue(w.t.Context(), partition, func([]*webhooks.Turn) {}, 30*time.Second)
		if err == nil {
			err = w.store.ReadBodies(w.t.Context(), taken)
		}
		work = append(work, taken...)
		return len(taken), err
	})
	return work, err
}

// attempt reports all that is due as ended with a status code; an endpoint that
// fails gets one delivery at a time.
func (w *world) attempt(state tollgate.DeliveryState, code int) error {
	for {
		work, err := w.take()
		if err == nil && len(work) > 0 {
			err = w.report(work, state, code)
		}
		if err != nil || len(work) == 0 {
			return err
		}
	}
}

func (w *world) report(work []webhooks.Work, state tollgate.DeliveryState, code int) error {
	for _, one := range work {
		if !jsontext.Value(one.Body).IsValid() {
			return fmt.Errorf("delivery %s has the body %q", one.DeliveryID, one.Body)
		}
		o := webhooks.Outcome{State: state, StatusCode: code}
		a := tollgate.Attempt{
			Object: "attempt", ID: one.AttemptID, CreatedAt: one.StartedAt, DeliveryID: one.DeliveryID, Number: one.Number, Trigger: one.Trigger,
			Status: tollgate.AttemptSucceeded, StartedAt: one.StartedAt, URL: one.Endpoint.URL,
			Request:  tollgate.AttemptRequest{BodyBytes: len(one.Body)},
			Response: &tollgate.AttemptResponse{StatusCode: code, Headers: map[string]string{"Content-Type": "text/plain"}, Body: "seen"},
		}
		if one.ReplayID != "" {
			a.ReplayID = &one.ReplayID
		}
		if state != tollgate.DeliverySucceeded {
			a.Status, o.Reason = tollgate.AttemptFailed, "http_"+strconv.Itoa(code)
		}
		if state == tollgate.DeliveryRetrying {
			o.Next = tollgate.At(w.now()).Add(5 * time.Second)
			a.NextAttemptAt = o.Next
		}
		if r, err := w.store.RecordAttempts(w.t.Context(), []webhooks.Ended{{Work: one, Attempt: a, Outcome: o}}); err != nil || r[0].Late {
			return fmt.Errorf("recorded: %+v, %w", r, err)
		}
	}
	return nil
}
