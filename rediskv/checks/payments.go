package checks

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/checks/look"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/payments"
	"tollgate/rediskv/record"
)

// knownFields are what is read of a payment's transactions first, to know what else
// belongs to them.
var knownFields = []string{"ty", "st", "ma", "cur", "av", "cap", "rfd", "po"}

// paymentParts are what a payment is made of, as it was a moment ago.
type paymentParts struct {
	id           string
	transactions []ledger.Indexed // the authorization, and then the others
	known        []rediskv.Fields // of each
}

// settles bounds how often a payment or payout is read again because it has changed
// since its parts were read. One that never stands still is looked at by the next walk.
const settles = 5

// checkPayments reads payments, each at one moment, and what is wrong with each.
func (w *walk) checkPayments(ctx context.Context, ids []string) (findings [][]Finding, err error) {
	for some := range slices.Chunk(ids, together) {
		left := slices.Clone(some)
		of := map[string][]Finding{}
		for range settles {
			parts, err := w.paymentParts(ctx, left)
			if err != nil {
				return nil, err
			}
			if left, err = w.wholePayments(ctx, parts, of); err != nil {
				return nil, err
			}
			if len(left) == 0 {
				break
			}
		}
		for _, id := range some {
			findings = append(findings, of[id])
		}
	}
	return findings, nil
}

func (w *walk) paymentParts(ctx context.Context, ids []string) ([]paymentParts, error) {
	parts := make([]paymentParts, len(ids))
	asked := make([]func() ([]ledger.Indexed, []rediskv.Fields), len(ids))
	if err := w.Pipelined(ctx, "payment_parts", func(ctx context.Context, pipe redis.Pipeliner) {
		for i, id := range ids {
			asked[i] = ledger.AskParts(ctx, pipe, w.K, id)
		}
	}); err != nil {
		return nil, err
	}
	known := make([][]*redis.SliceCmd, len(ids))
	if err := w.Pipelined(ctx, "payment_parts", func(ctx context.Context, pipe redis.Pipeliner) {
		for i, id := range ids {
			parts[i].id = id
			parts[i].transactions, parts[i].known = asked[i]()
			if parts[i].known != nil {
				continue
			}
			for _, x := range parts[i].transactions {
				known[i] = append(known[i], pipe.HMGet(ctx, w.K.Object(x.ID), knownFields...))
			}
		}
	}); err != nil {
		return nil, err
	}
	for i := range parts {
		for _, reply := range known[i] {
			parts[i].known = append(parts[i].known, record.FieldsIn(reply.Val(), knownFields...))
		}
	}
	return parts, nil
}

// paymentReplies are the records of one payment, as Redis answers.
type paymentReplies struct {
	paymentParts
	hash         *redis.MapStringStringCmd
	ticket       *redis.StringCmd
	now          func() ([]ledger.Indexed, []rediskv.Fields)
	due          *redis.FloatCmd
	transactions []*located
	documents    map[string]*ledger.Document // captures and refunds
}

// wholePayments reads payments at one moment, and returns those that have changed
// since their parts were read.
func (w *walk) wholePayments(ctx context.Context, parts []paymentParts, of map[string][]Finding) (changed []string, err error) {
	replies := make([]paymentReplies, len(parts))
	if err := w.AtOnce(ctx, "payments", func(ctx context.Context, pipe redis.Pipeliner) {
		for i, p := range parts {
			r := paymentReplies{paymentParts: p, documents: map[string]*ledger.Document{}}
			r.hash, r.ticket, r.now = pipe.HGetAll(ctx, w.K.Object(p.id)), pipe.Get(ctx, w.K.Object(tollgate.TicketOf(p.id))), ledger.AskParts(ctx, pipe, w.K, p.id)
			r.due = pipe.ZScore(ctx, w.K.Due, w.K.Org+"/"+p.id)
			for n, x := range p.transactions {
				r.transactions = append(r.transactions, w.locate(ctx, pipe, x, p.known[n]))
				for _, part := range []string{p.known[n]["cap"], p.known[n]["rfd"]} {
					if part != "" && r.documents[part] == nil {
						r.documents[part] = x.AskDocument(ctx, pipe, w.K, part)
					}
				}
			}
			replies[i] = r
		}
	}); err != nil {
		return nil, err
	}
	for i := range replies {
		r := &replies[i]
		if r.changed() {
			changed = append(changed, r.id)
			continue
		}
		if of[r.id], err = w.payment(ctx, r); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// changed reports whether the parts are no longer what they were.
func (r *paymentReplies) changed() bool {
	now, _ := r.now()
	if len(now) != len(r.paymentParts.transactions) {
		return true
	}
	for n, was := range r.paymentParts.transactions {
		if now[n].ID != was.ID {
			return true
		}
	}
	for n, x := range r.transactions {
		f := x.fields()
		if slices.ContainsFunc(knownFields, func(name string) bool { return f[name] != r.known[n][name] }) {
			return true
		}
	}
	return false
}

// payment compares the records of a payment with each other.
func (w *walk) payment(ctx context.Context, r *paymentReplies) (findings []Finding, err error) {
	found := func(format string, args ...any) {
		findings = append(findings, Finding{Finding: consistency.Found(consistency.FindingPayment, "payment", r.id, format, args...)})
	}
	f := rediskv.Fields(r.hash.Val())
	if len(f) == 0 {
		found("its authorization is there, and it is not")
		return findings, nil
	}
	p, err := payments.PaymentOf(r.id, f)
	if err != nil {
		return plain(consistency.FoundDamage(err)), nil
	}
	findings = append(findings, w.queued(r, p, f)...)
	ticket, err := payments.TicketOf(w.K, p.TicketID, r.ticket.Val())
	if err != nil {
		findings = append(findings, plain(consistency.FoundDamage(err))...)
	}
	if n := len(r.transactions); (p.Numbers > 0 || r.transactions[0].Shared) && p.Numbers != n { // one number to each
		found("it has numbered %d transactions, and %d are there", p.Numbers, n)
	}
	records := consistency.PaymentRecords{Payment: p, Ticket: ticket, Due: tollgate.Instant(f.Int("due"))}
	complete := err == nil
	for _, l := range r.transactions {
		if len(l.fields()) == 0 {
			found("its transaction %s is not there", l.ID)
			complete = false
			continue
		}
		x, wrong := w.located(l)
		findings = append(findings, wrong...)
		complete = complete && !x.Damaged
		records.Transactions = append(records.Transactions, x)
	}
	if damaged := look.Documents(w.K, r.documents, &records); len(damaged) > 0 {
		findings, complete = append(findings, plain(damaged)...), false
	}
	if !complete {
		return findings, nil
	}
	if records.Events, err = w.log.EventsOf(ctx, ticket.EventIDs); err != nil {
		return nil, err
	}
	return append(findings, plain(records.Check())...), nil
}

// queued compares a payment with its place among those that the clock ends.
func (w *walk) queued(r *paymentReplies, p *tollgate.Payment, f rediskv.Fields) []Finding {
	there, want := "", rediskv.Milli(p.Deadline())
	if r.due.Err() == nil {
		there = place(r.due.Val())
	}
	if there == want {
		return nil
	}
	return []Finding{w.due(r.id, f, there, want)}
}

// due is a payment that the queue of deadlines has elsewhere than it should.
func (w *walk) due(id string, f rediskv.Fields, there, want string) Finding {
	key, member, hash := w.K.Due, w.K.Org+"/"+id, w.K.Object(id)
	say := func(at string) string {
		if at == "" {
			return "not at all"
		}
		return "at " + at
	}
	finding := consistency.Found(consistency.FindingQueue, "payment", id, "the clock ends it %s, and its queue has it %s", say(want), say(there))
	still := func(c *rediskv.Commit) {
		c.Still(f["v"], "HGET", hash, "v")
		c.Still(there, "ZSCORE", key, member)
	}
	if want == "" {
		return repairable(finding, func(c *rediskv.Commit) {
			still(c)
			c.Do("ZREM", key, member)
		}, "remove %s from %s", member, key)
	}
	return repairable(finding, func(c *rediskv.Commit) {
		still(c)
		c.Do("ZADD", key, want, member)
	}, "add %s to %s at %s", member, key, want)
}

// archived compares the records of a payment in an archive with each other.
func (w *walk) archived(r *ledger.Records) []Finding {
	w.Looked["archived payments"]++
	records, err := look.Archived(w.K, r)
	if err != nil {
		return plain(consistency.FoundDamage(err))
	}
	return plain(records.Check())
}
