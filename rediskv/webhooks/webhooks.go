package webhooks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

// wanted is what the fan-out has to know of an endpoint.
type wanted struct {
	Status             string   `json:"status"`
	EventTypes         []string `json:"event_types"`
	MerchantAccountIDs []string `json:"merchant_account_ids"`
}

// Wanted is what the fan-out has to know of an endpoint, as it is kept.
func Wanted(w *tollgate.StoredWebhook) (string, error) {
	text, err := json.Marshal(wanted{w.Status, w.EventTypes, w.MerchantAccountIDs})
	return string(text), err
}

// WebhookList reads how many endpoints an organization has.
func (s *Store) WebhookList(ctx context.Context, org string) (list tollgate.WebhookList, err error) {
	key := s.db.Space(org).Webhooks()
	found := rediskv.Fields{}
	if err = s.db.Timed(ctx, "read_webhooks", func(ctx context.Context) error {
		var entries *redis.IntCmd
		var revision *redis.StringCmd
		if err := s.db.AtOnce(ctx, func(pipe redis.Pipeliner) {
			entries, revision = pipe.HLen(ctx, key), pipe.HGet(ctx, key, "v")
		}); err != nil {
			return err
		}
		list.Count = max(0, int(entries.Val())-1) // v is one
		found["v"] = revision.Val()
		return nil
	}); err != nil {
		return list, err
	}
	list.Revision = found.Int("v")
	return list, s.db.DamagedAt(ctx, key, rediskv.Counters(found))
}

// CommitWebhook writes a change of an endpoint. ErrConflict when the endpoint, or
// for a new one the list, has changed since it was read.
func (s *Store) CommitWebhook(ctx context.Context, c rediskv.Caller, idem *rediskv.Idempotency, ch *tollgate.WebhookChange, ans rediskv.Answer) (rediskv.Result, error) {
	b := s.db.NewCommit(c, idem)
	b.Answer = ans
	k, w := b.Space, &ch.Webhook
	member := k.Org + "/" + w.ID
	if ch.List != nil {
		b.Unchanged(k.Webhooks(), rediskv.Revision(ch.List.Revision))
	}
	b.Do("HINCRBY", k.Webhooks(), "v", 1)
	if ch.Event.Type == tollgate.WebhookDeleted {
		b.Unchanged(k.Object(w.ID), rediskv.Revision(w.Revision))
		b.Do("DEL", k.Object(w.ID))
		b.Do("HDEL", k.Webhooks(), w.ID)
		b.Do("ZADD", k.Jobs, rediskv.Milli(ch.Event.CreatedAt), "cancel/"+member+"/")
	} else if err := putWebhook(b, ch); err != nil {
		return rediskv.Result{}, fmt.Errorf("webhook %s: %w", w.ID, err)
	}
	switch {
	case ch.Event.Type == tollgate.WebhookDeleted, w.Status != tollgate.WebhookActive:
		b.Do("ZREM", k.Ready, member)
	case ch.Anew && ch.List == nil: // there may be something queued for it
		b.Sooner(k.Ready, member, ch.Event.CreatedAt)
	}
	b.Events = append(b.Events, ch.Event)
	if err := b.Audit(string(ch.Event.Type), "", "webhook_endpoint", w.ID); err != nil {
		return rediskv.Result{}, err
	}
	return b.Run(ctx)
}

// CommitSecrets writes the secrets of an endpoint, encrypted under another key; nothing
// else of it changes, and nobody is told. rediskv.ErrConflict: it has changed meanwhile.
func (s *Store) CommitSecrets(ctx context.Context, org string, w *tollgate.StoredWebhook) error {
	b := s.db.NewCommit(rediskv.Caller{Organization: org}, nil)
	ch := &tollgate.WebhookChange{Webhook: *w}
	if err := putWebhook(b, ch); err != nil {
		return fmt.Errorf("webhook %s: %w", w.ID, err)
	}
	_, err := b.Run(ctx)
	return err
}

// putWebhook writes an endpoint, and what the fan-out has to know of it.
func putWebhook(c *rediskv.Commit, ch *tollgate.WebhookChange) error {
	w, key := &ch.Webhook, c.Space.Object(ch.Webhook.ID)
	doc, err := json.Marshal(w.WebhookEndpoint, json.Deterministic(true))
	if err != nil {
		return err
	}
	keys, err := json.Marshal(w.Sealed)
	if err != nil {
		return err
	}
	wants, err := Wanted(w)
	if err != nil {
		return err
	}
	c.Do("HSET", c.Space.Webhooks(), w.ID, wants)
	var f rediskv.Pairs
	f.Set(rediskv.EnvelopeField, rediskv.Envelope)
	f.Set("st", w.Status)
	f.Int("v", w.Revision+1)
	f.Set("url", w.URL)
	f.Set("json", string(doc))
	f.Set("keys", string(keys))
	if ch.Anew {
		f.Set("fail", "0")
		f.Int("ok", int64(ch.Event.CreatedAt))
		f.Set("health", "0 "+rediskv.Milli(ch.Event.CreatedAt))
		c.Do("HDEL", key, "pause")
	}
	c.Hash(key, rediskv.Revision(w.Revision), f)
	return nil
}

// Webhook reads an endpoint.
func (s *Store) Webhook(ctx context.Context, c rediskv.Caller, id string) (_ *tollgate.StoredWebhook, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	return s.endpoint(ctx, k, id)
}

func (s *Store) endpoint(ctx context.Context, k rediskv.Space, id string) (*tollgate.StoredWebhook, error) {
	f, err := s.db.ReadObject(ctx, "read_webhook", k, tollgate.PrefixWebhook, id)
	if err != nil {
		return nil, err
	}
	w, err := EndpointOf(id, f)
	return w, s.db.Noticed(ctx, k, err)
}

// EndpointOf reads the hash of an endpoint; its error is the damage of it.
func EndpointOf(id string, f rediskv.Fields) (*tollgate.StoredWebhook, error) {
	r := record.ReadHash("webhook_endpoint", id, f)
	w := &tollgate.StoredWebhook{Revision: r.Int("v"), LastSuccess: r.Moment("ok"), Failures: r.Count("fail")}
	r.JSON("json", &w.WebhookEndpoint)
	r.JSON("keys", &w.Sealed)
	// What the scripts read of it says the same.
	for name, value := range map[string]string{"url": w.URL, "st": w.Status} {
		if f[name] != value {
			r.Fault(name)
		}
	}
	r.Count("cap")
	r.Moment("pause")
	if w.ID != id && !r.Unreadable("json") {
		r.Fault("json")
	}
	return w, r.Err()
}

// HealthIs reports whether what scripts keep of an endpoint's health is as in its copy. An
// earlier release leaves that as it is.
func HealthIs(f rediskv.Fields) bool {
	names := []string{"fail", "ok", "cap", "pause"}
	for i, text := range strings.Fields(f["health"]) {
		if i >= len(names) || f[names[i]] != text && (f[names[i]] != "" || names[i] != "pause") {
			return false
		}
	}
	return true
}

// Webhooks lists endpoints by id, those after one.
func (s *Store) Webhooks(ctx context.Context, c rediskv.Caller, after string, limit int) (rows []tollgate.StoredWebhook, more bool, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	var ids []string
	if err := s.db.Timed(ctx, "list_webhooks", func(ctx context.Context) (err error) {
		ids, err = s.db.Redis.HKeys(ctx, k.Webhooks()).Result()
		return err
	}); err != nil {
		return nil, false, err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "v" || cmp.Compare(id, after) <= 0 })
	slices.Sort(ids)
	more = len(ids) > limit
	err = rediskv.EachHash(ctx, s.db, c, "read_webhooks", ids[:min(limit, len(ids))], k.Object, func(id string, f rediskv.Fields) {
		if len(f) == 0 {
			return // deleted meanwhile
		}
		w, err := EndpointOf(id, f)
		if s.db.Noticed(ctx, k, err) != nil {
			w = &tollgate.StoredWebhook{WebhookEndpoint: tollgate.WebhookEndpoint{Object: "webhook_endpoint", ID: id, Damaged: true}}
		}
		rows = append(rows, *w)
	})
	return rows, more, err
}
