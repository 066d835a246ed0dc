package checks

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/checks/look"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/record"
	"tollgate/rediskv/streams"
	"tollgate/rediskv/webhooks"
)

// endpoint is an endpoint, and what the fan-out knows of it.
type endpoint struct {
	tollgate.WebhookEndpoint
	known string
}

// endpoints reads the organization's endpoints. One that cannot be read is found.
func (w *walk) endpoints(ctx context.Context) (list []endpoint, err error) {
	var known map[string]string
	if err := w.Timed(ctx, "endpoints", func(ctx context.Context) (err error) {
		known, err = w.Redis().HGetAll(ctx, w.K.Webhooks()).Result()
		return err
	}); err != nil {
		return nil, err
	}
	var ids []string
	for id := range known {
		if id != "v" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		var f map[string]string
		if err := w.Timed(ctx, "endpoints", func(ctx context.Context) (err error) {
			f, err = w.Redis().HGetAll(ctx, w.K.Object(id)).Result()
			f = record.Verified(w.K.Object(id), f)
			return err
		}); err != nil {
			return nil, err
		}
		if len(f) == 0 {
			continue // checkDirectory says so
		}
		e, err := webhooks.EndpointOf(id, f)
		if err != nil {
			w.damage(err)
			continue
		}
		list = append(list, endpoint{e.WebhookEndpoint, known[id]})
	}
	return list, nil
}

// longestScript is how far an event and its entry in the dispatch stream can be apart,
// which one script writes.
const longestScript = 5 * time.Second

// wanted is an event that an endpoint wants.
type wanted struct {
	loggedEvent
	to endpoint
}

// delivered looks whether endpoints have one delivery of each event that they want.
// An endpoint that was changed about then or since may have wanted something else.
func (w *walk) delivered(ctx context.Context, events []loggedEvent, endpoints []endpoint) error {
	var all []wanted
	for _, e := range events {
		account := ""
		if e.MerchantAccountID != nil {
			account = *e.MerchantAccountID
		}
		for _, to := range endpoints {
			if e.CreatedAt > to.UpdatedAt.Add(rediskv.Skew) && to.Wants(e.Type, account) {
				all = append(all, wanted{e, to})
			}
		}
	}
	for some := range slices.Chunk(all, page) {
		if err := confirmed(ctx, w, some, w.checkWanted); err != nil {
			return err
		}
	}
	return nil
}

// checkWanted compares events that have been handed over with the deliveries of
// them. An entry of the dispatch stream goes as the deliveries come, so what is older
// than its first entry has been handed over.
func (w *walk) checkWanted(ctx context.Context, list []wanted) ([][]Finding, error) {
	places, known := make([]*redis.FloatCmd, len(list)), make([]*redis.StringCmd, len(list))
	var waiting *redis.XMessageSliceCmd
	if err := w.AtOnce(ctx, "deliveries", func(ctx context.Context, pipe redis.Pipeliner) {
		waiting = pipe.XRangeN(ctx, w.K.Dispatch, "-", "+", 1)
		for i, one := range list {
			places[i] = pipe.ZScore(ctx, w.K.Deliveries(one.to.ID), tollgate.DeliveryOf(one.ID, one.to.ID))
			known[i] = pipe.HGet(ctx, w.K.Webhooks(), one.to.ID)
		}
	}); err != nil {
		return nil, err
	}
	// Deliveries go behind their events: what is in the log now was in it before.
	first, err := streams.Range(ctx, w.store.db, w.K.Events(), "-", "+", 1)
	if err != nil {
		return nil, err
	}
	findings := make([][]Finding, len(list))
	for i, one := range list {
		handed, kept := true, false
		for _, m := range waiting.Val() {
			handed = one.milli+uint64(longestScript.Milliseconds()) < eventlog.Place(m.ID).Milli
			if rediskv.Text(m, "o") == w.K.Org {
				handed = one.before(eventlog.Place(rediskv.Text(m, "s")))
			}
		}
		for _, m := range first {
			kept = !one.before(eventlog.Place(m.ID))
		}
		if !handed || !kept || known[i].Val() != one.to.known {
			continue
		}
		id := tollgate.DeliveryOf(one.ID, one.to.ID)
		switch {
		case places[i].Err() != nil:
			findings[i] = plain([]consistency.Finding{consistency.Found(consistency.FindingDelivery, "delivery", id, "%s wants event %s, and has no delivery of it", one.to.ID, one.ID)})
		case places[i].Val() != float64(one.Sequence):
			findings[i] = plain([]consistency.Finding{consistency.Found(consistency.FindingDelivery, "delivery", id, "%s has it at %s, and its event %s has sequence %d", one.to.ID, place(places[i].Val()), one.ID, one.Sequence)})
		}
	}
	return findings, nil
}

// webhooks walks through the deliveries of each endpoint, and through what it still
// has to send.
func (w *walk) webhooks(ctx context.Context) error {
	var known []string
	if err := w.Timed(ctx, "directory", func(ctx context.Context) (err error) {
		known, err = w.Redis().HKeys(ctx, w.K.Webhooks()).Result()
		return err
	}); err != nil {
		return err
	}
	known = slices.DeleteFunc(known, func(id string) bool { return id == "v" })
	slices.Sort(known)
	for _, id := range known {
		if id < w.at.At {
			continue
		}
		if err := confirmed(ctx, w, []string{id}, w.checkEndpoint); err != nil {
			return err
		}
		if err := w.deliveries(ctx, id); err != nil {
			return err
		}
		for _, key := range []string{w.K.Open(id), w.K.Queue(id)} {
			if err := w.scanned(ctx, key, func(ctx context.Context, members []string) error {
				return confirmed(ctx, w, members, func(ctx context.Context, ids []string) ([][]Finding, error) { return w.checkDeliveries(ctx, id, ids) })
			}); err != nil {
				return err
			}
		}
		if err := w.passed(ctx, "endpoints", 1, id); err != nil {
			return err
		}
	}
	return nil
}

// checkEndpoint compares an endpoint with what the fan-out knows of it, and with the
// queue of those that have something to send.
func (w *walk) checkEndpoint(ctx context.Context, ids []string) ([][]Finding, error) {
	findings := make([][]Finding, len(ids))
	for i, id := range ids {
		var hash *redis.MapStringStringCmd
		var known, revision *redis.StringCmd
		var queued *redis.IntCmd
		var ready *redis.FloatCmd
		member := w.K.Org + "/" + id
		if err := w.AtOnce(ctx, "endpoint", func(ctx context.Context, pipe redis.Pipeliner) {
			hash, known, revision = pipe.HGetAll(ctx, w.K.Object(id)), pipe.HGet(ctx, w.K.Webhooks(), id), pipe.HGet(ctx, w.K.Webhooks(), "v")
			queued, ready = pipe.ZCard(ctx, w.K.Queue(id)), pipe.ZScore(ctx, w.K.Ready, member)
		}); err != nil {
			return nil, err
		}
		if known.Err() != nil {
			continue // it was deleted
		}
		f := rediskv.Fields(hash.Val())
		still := func(c *rediskv.Commit) {
			c.Still(f["v"], "HGET", w.K.Object(id), "v")
			c.Still(revision.Val(), "HGET", w.K.Webhooks(), "v")
		}
		if len(f) == 0 {
			findings[i] = []Finding{repairable(consistency.Found(consistency.FindingIndex, "webhook_endpoint", id, "the fan-out knows it, and it is not there"), func(c *rediskv.Commit) {
				still(c)
				c.Do("HDEL", w.K.Webhooks(), id)
				c.Do("HINCRBY", w.K.Webhooks(), "v", 1)
			}, "remove %s from %s", id, w.K.Webhooks())}
			continue
		}
		e, err := webhooks.EndpointOf(id, f)
		if err != nil {
			findings[i] = plain(consistency.FoundDamage(err))
			continue
		}
		if !webhooks.HealthIs(f) && w.store.db.Layout() >= rediskv.Together {
			findings[i] = append(findings[i], repairable(consistency.Found(consistency.FindingDamaged, "webhook_endpoint", id, "its health is not as in its copy, %q", f["health"]), func(c *rediskv.Commit) {
				still(c)
				c.Do("HSET", w.K.Object(id), "health", "")
			}, "forget the copy until the next attempt"))
		}
		wants, err := webhooks.Wanted(e)
		if err != nil {
			return nil, err
		}
		if !sameJSON(known.Val(), wants) {
			findings[i] = append(findings[i], repairable(consistency.Found(consistency.FindingIndex, "webhook_endpoint", id, "the fan-out knows that it wants %s, and it wants %s", known.Val(), wants), func(c *rediskv.Commit) {
				still(c)
				c.Do("HSET", w.K.Webhooks(), id, wants)
				c.Do("HINCRBY", w.K.Webhooks(), "v", 1)
			}, "set %s of %s to %s", id, w.K.Webhooks(), wants))
		}
		if e.Status == tollgate.WebhookActive && queued.Val() > 0 && ready.Err() != nil {
			now := rediskv.Milli(w.store.db.Now())
			findings[i] = append(findings[i], repairable(consistency.Found(consistency.FindingQueue, "webhook_endpoint", id, "it has deliveries to send, and is not among those that have"), func(c *rediskv.Commit) {
				c.Still(e.Status, "HGET", w.K.Object(id), "st")
				c.Still("", "ZSCORE", w.K.Ready, member)
				c.Do("ZADD", w.K.Ready, now, member)
			}, "add %s to %s", member, w.K.Ready))
		}
	}
	return findings, nil
}

// sameJSON compares two documents, whatever the order of their members.
func sameJSON(a, b string) bool {
	var first, second struct {
		Status             string   `json:"status"`
		EventTypes         []string `json:"event_types"`
		MerchantAccountIDs []string `json:"merchant_account_ids"`
	}
	strict := json.RejectUnknownMembers(true)
	return json.Unmarshal([]byte(a), &first, strict) == nil && json.Unmarshal([]byte(b), &second, strict) == nil && first.Status == second.Status &&
		slices.Equal(first.EventTypes, second.EventTypes) && slices.Equal(first.MerchantAccountIDs, second.MerchantAccountIDs)
}

// deliveries walks through an endpoint's list of deliveries, which has one of each event.
func (w *walk) deliveries(ctx context.Context, id string) error {
	s := struct {
		at     float64
		member string
	}{at: -1}
	for {
		entries, err := look.Entries(ctx, w.Reader, w.K.Deliveries(id), s.at, w.last)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return w.beyond(ctx, id)
		}
		if err := confirmed(ctx, w, entries, func(ctx context.Context, entries []entry) ([][]Finding, error) {
			return w.checkListedDeliveries(ctx, id, entries)
		}); err != nil {
			return err
		}
		ids := make([]string, len(entries))
		for i, e := range entries {
			if e.Score == s.at {
				w.report(plain([]consistency.Finding{consistency.Found(consistency.FindingDelivery, "delivery", e.Member, "%s has %s and it at %s: two deliveries of one event", id, s.member, place(e.Score))}))
			}
			ids[i], s.at, s.member = e.Member, e.Score, e.Member
		}
		if err := confirmed(ctx, w, ids, func(ctx context.Context, ids []string) ([][]Finding, error) { return w.checkDeliveries(ctx, id, ids) }); err != nil {
			return err
		}
		if err := w.passed(ctx, "deliveries", len(entries), id); err != nil {
			return err
		}
	}
}

// checkDeliveries compares deliveries of an endpoint with the places that it has
// them in.
func (w *walk) checkDeliveries(ctx context.Context, endpoint string, ids []string) (findings [][]Finding, err error) {
	for some := range slices.Chunk(ids, 2*together) {
		hashes := make([]*redis.MapStringStringCmd, len(some))
		places := make([][3]*redis.FloatCmd, len(some))
		if err := w.AtOnce(ctx, "deliveries", func(ctx context.Context, pipe redis.Pipeliner) {
			for i, id := range some {
				hashes[i] = pipe.HGetAll(ctx, w.K.Object(id))
				places[i] = [3]*redis.FloatCmd{pipe.ZScore(ctx, w.K.Deliveries(endpoint), id), pipe.ZScore(ctx, w.K.Open(endpoint), id), pipe.ZScore(ctx, w.K.Queue(endpoint), id)}
			}
		}); err != nil {
			return nil, err
		}
		for i, id := range some {
			findings = append(findings, w.delivery(endpoint, id, hashes[i].Val(), places[i]))
		}
	}
	return findings, nil
}

func (w *walk) delivery(endpoint, id string, f rediskv.Fields, places [3]*redis.FloatCmd) (findings []Finding) {
	r := consistency.DeliveryRecords{ID: id, Endpoint: endpoint, Open: places[1].Err() == nil, Queued: places[2].Err() == nil}
	if len(f) > 0 {
		key := w.K.Object(id)
		d, stored := webhooks.ReadDelivery(key, id, endpoint, record.KindOf(key).Unfolded(f))
		if err := stored.Err(); err != nil {
			return plain(consistency.FoundDamage(err))
		}
		r.Delivery = &d
	}
	list, stray := r.Check()
	for _, one := range list {
		if !stray || one.Kind != consistency.FindingQueue {
			findings = append(findings, Finding{Finding: one})
			continue
		}
		findings = append(findings, repairable(one, func(c *rediskv.Commit) {
			c.Still(f["st"], "HGET", w.K.Object(id), "st")
			for _, key := range []string{w.K.Open(endpoint), w.K.Queue(endpoint), w.K.Leases(endpoint)} {
				c.Do("ZREM", key, id)
			}
			c.Do("HDEL", w.K.Targets(endpoint), id)
		}, "remove %s from what %s has to send", id, endpoint))
		continue
	}
	if d := r.Delivery; d != nil && d.State != tollgate.DeliveryHeld && !stray && len(list) == 1 && list[0].Kind == consistency.FindingQueue {
		findings[0] = w.requeue(list[0], endpoint, d, f)
	}
	return findings
}

// requeue is a delivery that its endpoint has lost sight of.
func (w *walk) requeue(found consistency.Finding, endpoint string, d *tollgate.Delivery, f rediskv.Fields) Finding {
	made, ok := tollgate.IDTime(d.EventID)
	if !ok || d.EventType == tollgate.EventPing {
		return Finding{Finding: found}
	}
	now := strconv.FormatInt(int64(max(w.store.db.Now(), d.NextAttemptAt)), 10)
	return repairable(found, func(c *rediskv.Commit) {
		c.Still(f["st"], "HGET", w.K.Object(d.ID), "st")
		c.Still(f["n"], "HGET", w.K.Object(d.ID), "n")
		c.Do("ZADD", w.K.Open(endpoint), "NX", rediskv.Milli(tollgate.At(made)), d.ID)
		c.Do("ZADD", w.K.Queue(endpoint), "NX", now, d.ID)
		c.Do("ZADD", w.K.Ready, "NX", now, w.K.Org+"/"+endpoint)
	}, "queue %s again", d.ID)
}

// scanned walks through a sorted set whose places say nothing of its order.
func (w *walk) scanned(ctx context.Context, key string, each func(ctx context.Context, members []string) error) error {
	for cursor := uint64(0); ; {
		var pairs []string
		if err := w.Timed(ctx, "scan", func(ctx context.Context) (err error) {
			pairs, cursor, err = w.Redis().ZScan(ctx, key, cursor, "", page).Result()
			return err
		}); err != nil {
			return err
		}
		var members []string
		for i := 0; i < len(pairs); i += 2 {
			members = append(members, pairs[i])
		}
		for some := range slices.Chunk(members, page) {
			if err := each(ctx, some); err != nil {
				return err
			}
			if err := w.passed(ctx, "queue entries", len(some), w.at.At); err != nil {
				return err
			}
		}
		if cursor == 0 {
			return nil
		}
	}
}
