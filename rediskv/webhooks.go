package rediskv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
)

// wanted is what the fan-out has to know of an endpoint.
type wanted struct {
	Status             string   `json:"status"`
	EventTypes         []string `json:"event_types"`
	MerchantAccountIDs []string `json:"merchant_account_ids"`
}

// WebhookList reads how many endpoints an organization has.
func (s *Store) WebhookList(ctx context.Context, org string) (list tollgate.WebhookList, err error) {
	key := s.space(org).webhooks()
	found := fields{}
	if err = s.timed(ctx, "read_webhooks", func(ctx context.Context) error {
		pipe := s.client.TxPipeline()
		entries, revision := pipe.HLen(ctx, key), pipe.HGet(ctx, key, "v")
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		list.Count = max(0, int(entries.Val())-1) // v is one
		found["v"] = revision.Val()
		return nil
	}); err != nil {
		return list, err
	}
	list.Revision = found.int("v")
	return list, s.damagedAt(ctx, key, counters(found))
}

// CommitWebhook writes a change of an endpoint. ErrConflict when the endpoint, or
// for a new one the list, has changed since it was read.
func (s *Store) CommitWebhook(ctx context.Context, c Caller, idem *Idempotency, ch *tollgate.WebhookChange, ans Answer) (Result, error) {
	b := s.commit(c, idem)
	b.answer = ans
	k, w := b.space, &ch.Webhook
	member := k.org + "/" + w.ID
	if ch.List != nil {
		b.unchanged(k.webhooks(), revision(ch.List.Revision))
	}
	b.do("HINCRBY", k.webhooks(), "v", 1)
	if ch.Event.Type == tollgate.WebhookDeleted {
		b.unchanged(k.object(w.ID), revision(w.Revision))
		b.do("DEL", k.object(w.ID))
		b.do("HDEL", k.webhooks(), w.ID)
		b.do("ZADD", k.jobs, milli(ch.Event.CreatedAt), "cancel/"+member+"/")
	} else if err := b.putWebhook(ch); err != nil {
		return Result{}, fmt.Errorf("webhook %s: %w", w.ID, err)
	}
	switch {
	case ch.Event.Type == tollgate.WebhookDeleted, w.Status != tollgate.WebhookActive:
		b.do("ZREM", k.ready, member)
	case ch.Anew && ch.List == nil: // there may be something queued for it
		b.sooner(k.ready, member, ch.Event.CreatedAt)
	}
	b.events = append(b.events, ch.Event)
	if err := b.audit(string(ch.Event.Type), "", "webhook_endpoint", w.ID); err != nil {
		return Result{}, err
	}
	return b.run(ctx)
}

// putWebhook writes an endpoint, and what the fan-out has to know of it.
func (c *commit) putWebhook(ch *tollgate.WebhookChange) error {
	w, key := &ch.Webhook, c.space.object(ch.Webhook.ID)
	doc, err := json.Marshal(w.WebhookEndpoint, json.Deterministic(true))
	if err != nil {
		return err
	}
	keys, err := json.Marshal(w.Sealed)
	if err != nil {
		return err
	}
	wants, err := json.Marshal(wanted{w.Status, w.EventTypes, w.MerchantAccountIDs})
	if err != nil {
		return err
	}
	c.do("HSET", c.space.webhooks(), w.ID, wants)
	var f pairs
	f.set(envelopeField, envelope)
	f.set("st", w.Status)
	f.int("v", w.Revision+1)
	f.set("url", w.URL)
	f.set("json", string(doc))
	f.set("keys", string(keys))
	if ch.Anew {
		f.set("fail", "0")
		f.int("ok", int64(ch.Event.CreatedAt))
		c.do("HDEL", key, "pause")
	}
	c.hash(key, revision(w.Revision), f)
	return nil
}

// Webhook reads an endpoint.
func (s *Store) Webhook(ctx context.Context, c Caller, id string) (*tollgate.StoredWebhook, error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, err
	}
	return s.endpoint(ctx, k, id)
}

func (s *Store) endpoint(ctx context.Context, k space, id string) (*tollgate.StoredWebhook, error) {
	if !strings.HasPrefix(id, tollgate.PrefixWebhook) {
		return nil, tollgate.NotFound()
	}
	found, err := s.readHashes(ctx, "read_webhook", k.object(id))
	if err != nil {
		return nil, err
	}
	w, err := endpointOf(id, found[0])
	return w, s.noticed(ctx, k, err)
}

func endpointOf(id string, f fields) (*tollgate.StoredWebhook, error) {
	r := read("webhook_endpoint", id, f)
	w := &tollgate.StoredWebhook{Revision: r.int("v"), LastSuccess: r.moment("ok"), Failures: r.count("fail")}
	r.json("json", &w.WebhookEndpoint)
	r.json("keys", &w.Sealed)
	// What the scripts read of it says the same.
	for name, value := range map[string]string{"url": w.URL, "st": w.Status} {
		if f[name] != value {
			r.fault(name)
		}
	}
	r.count("cap")
	r.moment("pause")
	if w.ID != id && !r.unreadable("json") {
		r.fault("json")
	}
	return w, r.err()
}

// Webhooks lists endpoints by id, those after one.
func (s *Store) Webhooks(ctx context.Context, c Caller, after string, limit int) (rows []tollgate.StoredWebhook, more bool, err error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, false, err
	}
	err = s.timed(ctx, "read_webhooks", func(ctx context.Context) error {
		ids, err := s.client.HKeys(ctx, k.webhooks()).Result()
		if err != nil {
			return err
		}
		ids = slices.DeleteFunc(ids, func(id string) bool { return id == "v" || cmp.Compare(id, after) <= 0 })
		slices.Sort(ids)
		more = len(ids) > limit
		pipe := s.client.Pipeline()
		var replies []*redis.MapStringStringCmd
		for _, id := range ids[:min(limit, len(ids))] {
			replies = append(replies, pipe.HGetAll(ctx, k.object(id)))
		}
		if len(replies) == 0 {
			return nil
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for i, r := range replies {
			if len(r.Val()) == 0 {
				continue // deleted meanwhile
			}
			w, err := endpointOf(ids[i], r.Val())
			if s.noticed(ctx, k, err) != nil {
				w = &tollgate.StoredWebhook{WebhookEndpoint: tollgate.WebhookEndpoint{Object: "webhook_endpoint", ID: ids[i], Damaged: true}}
			}
			rows = append(rows, *w)
		}
		return nil
	})
	return rows, more, err
}
