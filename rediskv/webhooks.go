package rediskv

import (
	"cmp"
	"context"
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

// WebhookFacts reads what a change of an organization's endpoints is decided
// from.
func (s *Store) WebhookFacts(ctx context.Context, org string) (f tollgate.WebhookFacts, err error) {
	k := s.space(org)
	err = s.timed(ctx, "read_webhooks", func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		v, length := pipe.HMGet(ctx, k.webhooks(), "v"), pipe.HLen(ctx, k.webhooks())
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		text, kept := v.Val()[0].(string)
		if kept {
			f.Endpoints = int(length.Val()) - 1
		}
		list := fields{"v": text}
		f.Revision = list.int("v")
		return s.damagedAt(ctx, k.webhooks(), counters(list))
	})
	return f, err
}

// CommitWebhook writes a change of an endpoint.
func (s *Store) CommitWebhook(ctx context.Context, c Caller, idem *Idempotency, ch *tollgate.WebhookChange, ans Answer) (Result, error) {
	b := s.commit(c, idem)
	b.answer = ans
	k, w := b.space, &ch.Endpoint
	key, member, now := k.object(w.ID), k.org+"/"+w.ID, milli(ch.Event.CreatedAt)
	doc, err := json.Marshal(w.WebhookEndpoint, json.Deterministic(true))
	if err != nil {
		return Result{}, fmt.Errorf("webhook %s: %w", w.ID, err)
	}
	keys, err := json.Marshal(w.Sealed)
	if err != nil {
		return Result{}, fmt.Errorf("webhook %s: %w", w.ID, err)
	}
	wants, err := json.Marshal(wanted{w.Status, w.EventTypes, w.MerchantAccountIDs})
	if err != nil {
		return Result{}, fmt.Errorf("webhook %s: %w", w.ID, err)
	}
	var list, f pairs
	list.int("v", ch.Facts.Revision+1)
	f.int("v", w.Revision+1)
	f.set("st", w.Status)
	f.set("url", w.URL)
	f.set("json", string(doc))
	f.set("keys", string(keys))
	if ch.Renewed {
		f.set("fail", "0")
		f.set("ok", now)
		b.remove(key, "pause")
	}
	switch {
	case ch.Removed:
		f = nil
		b.remove(key, "")
		b.remove(k.webhooks(), w.ID)
		b.member(k.ready, removed, member)
		b.member(k.jobs, now, "cancel/"+member+"/")
	case w.Status == tollgate.WebhookActive:
		list.set(w.ID, string(wants))
		b.wakes = append(b.wakes, wake{k.ready, member, now, k.queue(w.ID)})
	default:
		list.set(w.ID, string(wants))
		b.member(k.ready, removed, member)
	}
	b.hash(key, revision(w.Revision), f)
	b.hash(k.webhooks(), revision(ch.Facts.Revision), list)
	b.events = append(b.events, ch.Event)
	if err := b.noted(ch.Audit); err != nil {
		return Result{}, err
	}
	return b.run(ctx)
}

// DisableWebhook ends deliveries to an endpoint on the service's own account,
// and says whether it did. attempted is the endpoint that was found wanting: one
// that was moved, enabled or changed otherwise since then stays as it is, and is
// judged by its own attempts.
func (s *Store) DisableWebhook(ctx context.Context, org string, attempted tollgate.Endpoint, reason string) (disabled bool, err error) {
	if attempted.Status != tollgate.WebhookActive {
		return false, nil
	}
	clock := Caller{Organization: org}
	_, err = Retried(func() (r Result, err error) {
		f, err := s.WebhookFacts(ctx, org)
		if err != nil {
			return r, err
		}
		now, err := s.endpoint(ctx, s.space(org), attempted.ID)
		if err != nil || now.Revision != attempted.Revision {
			return r, cmp.Or(err, notFound())
		}
		ch, err := f.Disable(s.Mint, s.Origin(clock), attempted, reason)
		if err != nil {
			return r, err
		}
		return s.CommitWebhook(ctx, clock, nil, ch, Answer{})
	})
	if gone(err) {
		return false, nil
	}
	return err == nil, err
}

// Webhook reads an endpoint.
func (s *Store) Webhook(ctx context.Context, c Caller, id string) (*tollgate.Endpoint, error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, err
	}
	return s.endpoint(ctx, k, id)
}

func (s *Store) endpoint(ctx context.Context, k space, id string) (*tollgate.Endpoint, error) {
	if !strings.HasPrefix(id, tollgate.PrefixWebhook) {
		return nil, notFound()
	}
	found, err := s.readHashes(ctx, "read_webhook", k.object(id))
	if err != nil {
		return nil, err
	}
	w, err := endpointOf(id, found[0])
	return w, s.noticed(ctx, k, err)
}

func endpointOf(id string, f fields) (*tollgate.Endpoint, error) {
	r := read("webhook_endpoint", id, f)
	w := &tollgate.Endpoint{Revision: r.int("v"), LastSuccess: r.moment("ok"), Failures: r.count("fail")}
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
func (s *Store) Webhooks(ctx context.Context, c Caller, after string, limit int) (rows []tollgate.Endpoint, more bool, err error) {
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
				w = &tollgate.Endpoint{WebhookEndpoint: tollgate.WebhookEndpoint{Object: "webhook_endpoint", ID: ids[i], Damaged: true}}
			}
			rows = append(rows, *w)
		}
		return nil
	})
	return rows, more, err
}
