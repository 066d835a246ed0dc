package checks

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/checks/look"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/payments"
	"tollgate/rediskv/record"
	"tollgate/rediskv/streams"
)

// stream walks through a log from a place on. number is that of an entry, or its
// damage, and numbers are given from a counter.
func (w *walk) stream(ctx context.Context, key, counter, what string, number func(redis.XMessage) (int64, error), each func(ctx context.Context, entries []redis.XMessage) error) error {
	if err := w.segments(ctx, key); err != nil {
		return err
	}
	trimmed, err := look.Trimmed(ctx, w.Reader, strings.TrimPrefix(key, w.K.Object("")), counter)
	if err != nil {
		return err
	}
	w.report(plain(trimmed))
	s := consistency.Sequence{Log: counter}
	from := "-"
	if at := w.at.At; at != "" {
		from = at // the last one that was looked at, for its number
	}
	to := "+"
	if err := w.Timed(ctx, what, func(ctx context.Context) error {
		last, err := w.Redis().XRevRangeN(ctx, key, "+", "-", 1).Result()
		for _, m := range last { // what comes later is for the next walk
			to = m.ID
		}
		return err
	}); err != nil {
		return err
	}
	for {
		entries, err := streams.Range(ctx, w.store.db, key, from, to, page)
		if err != nil {
			return err
		}
		for _, m := range entries {
			n, err := number(m)
			if err != nil {
				if !w.damage(err) {
					return err
				}
				continue
			}
			w.report(plain(s.Next(n, m.ID)))
		}
		if each != nil && len(entries) > 0 {
			if err := each(ctx, entries); err != nil {
				return err
			}
		}
		if len(entries) < page {
			if len(entries) > 0 {
				if err := w.passed(ctx, what, len(entries), entries[len(entries)-1].ID); err != nil {
					return err
				}
			}
			return w.end(ctx, key, counter, number)
		}
		last := entries[len(entries)-1].ID
		from = "(" + last
		if err := w.passed(ctx, what, len(entries), last); err != nil {
			return err
		}
	}
}

// end compares the last entry of a log with its counter, at one moment.
func (w *walk) end(ctx context.Context, key, counter string, number func(redis.XMessage) (int64, error)) error {
	var last *redis.XMessageSliceCmd
	var given *redis.StringCmd
	if err := w.AtOnce(ctx, "end", func(ctx context.Context, pipe redis.Pipeliner) {
		last, given = pipe.XRevRangeN(ctx, key, "+", "-", 1), pipe.HGet(ctx, w.K.Sequences(), counter)
	}); err != nil {
		return err
	}
	for _, m := range last.Val() {
		n, err := number(m)
		if err != nil {
			return nil // it was reported already
		}
		s := consistency.Sequence{Log: counter}
		s.Next(n, m.ID)
		count, err := strconv.ParseInt(given.Val(), 10, 64)
		if err != nil {
			count = -1
		}
		w.report(plain(s.End(count)))
	}
	return nil
}

// auditLog walks through the audit record.
func (w *walk) auditLog(ctx context.Context) error {
	return w.stream(ctx, w.K.Audit(), "audit", "audit entries", func(m redis.XMessage) (int64, error) {
		var e tollgate.AuditEntry
		err := errors.Join(record.CheckEntry(w.K.Audit(), m.Values), record.Decode(rediskv.Text(m, "b"), &e))
		if err == nil && (e.Seq < 1 || e.Type == "") {
			err = errors.New("a member is missing")
		}
		if err != nil {
			return 0, tollgate.Damage("audit_entry", tollgate.PrefixAudit+strings.ReplaceAll(m.ID, "-", "_"), err)
		}
		return e.Seq, nil
	}, nil)
}

// eventLog walks through the events: each is one of its payment, and every endpoint
// that wants it has one delivery of it.
func (w *walk) eventLog(ctx context.Context) error {
	endpoints, err := w.endpoints(ctx)
	if err != nil {
		return err
	}
	return w.stream(ctx, w.K.Events(), "event", "events", look.SequenceOf(w.K), func(ctx context.Context, entries []redis.XMessage) error {
		var events []loggedEvent
		for _, m := range entries {
			if e, err := eventlog.EventOf(w.K, m); err == nil {
				place := eventlog.Place(m.ID)
				events = append(events, loggedEvent{e, place.Milli, place.Seq})
			}
		}
		if err := confirmed(ctx, w, events, w.checkEvents); err != nil {
			return err
		}
		return w.delivered(ctx, events, endpoints)
	})
}

// loggedEvent is an event and its place in the log, which begins with the time in
// milliseconds.
type loggedEvent struct {
	*tollgate.Event
	milli, seq uint64
}

func (e *loggedEvent) before(p eventlog.Position) bool {
	return e.milli < p.Milli || e.milli == p.Milli && e.seq < p.Seq
}

// checkEvents looks whether payments know their events.
func (w *walk) checkEvents(ctx context.Context, events []loggedEvent) ([][]Finding, error) {
	of := make([]string, len(events))
	tickets := map[string]*redis.StringCmd{}
	if err := w.Pipelined(ctx, "tickets", func(ctx context.Context, pipe redis.Pipeliner) {
		for i, e := range events {
			var d struct {
				PaymentID string `json:"payment_id"`
			}
			if !strings.HasPrefix(string(e.Type), "payment.") || json.Unmarshal(e.Data, &d) != nil || !strings.HasPrefix(d.PaymentID, tollgate.PrefixPayment) {
				continue
			}
			of[i] = d.PaymentID
			if tickets[d.PaymentID] == nil {
				tickets[d.PaymentID] = pipe.Get(ctx, w.K.Object(tollgate.TicketOf(d.PaymentID)))
			}
		}
	}); err != nil {
		return nil, err
	}
	archived, err := look.Elsewhere(ctx, w.store.ledger, w.K, tickets, func(text *redis.StringCmd) bool { return text.Val() == "" })
	if err != nil {
		return nil, err
	}
	findings := make([][]Finding, len(events))
	for i, e := range events {
		if of[i] == "" {
			continue
		}
		text := tickets[of[i]].Val()
		if r := archived[of[i]]; r != nil {
			text = r.Ticket
		}
		if payments.Refers(text, e.ID) {
			continue
		}
		findings[i] = plain([]consistency.Finding{consistency.Found(consistency.FindingEvent, "payment", of[i], "event %s, %s, is in the log, and its ticket does not refer to it", e.ID, e.Type)})
	}
	return findings, nil
}
