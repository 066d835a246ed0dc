package rediskv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
)

// Endpoint is a webhook endpoint with its encrypted keys and its health.
type Endpoint struct {
	tollgate.WebhookEndpoint
	Sealed      []SealedKey
	Revision    int64
	LastSuccess tollgate.Instant // zero: never
	Failures    int64            // deliveries given up since then
}

// SealedKey is a signing key's secret, encrypted for its endpoint, version and
// scheme.
type SealedKey struct {
	Version int                      `json:"version"`
	Scheme  tollgate.SignatureScheme `json:"scheme"`
	Secret  []byte                   `json:"secret"`
}

// wanted is what the fan-out has to know of an endpoint.
type wanted struct {
	Status             string   `json:"status"`
	EventTypes         []string `json:"event_types"`
	MerchantAccountIDs []string `json:"merchant_account_ids"`
}

// CreateWebhook writes a new endpoint. CodeQuotaExceeded when there are
// tollgate.MaxWebhooks already.
func (s *Store) CreateWebhook(ctx context.Context, c Caller, idem *Idempotency, w Endpoint, ans Answer) (Result, error) {
	w.Revision = 0
	return s.putWebhook(ctx, c, idem, w, tollgate.WebhookCreated, ans)
}

// ChangeWebhook writes an endpoint that was read at w.Revision; event says what
// changed. ErrConflict when it has changed since.
func (s *Store) ChangeWebhook(ctx context.Context, c Caller, idem *Idempotency, w Endpoint, event tollgate.EventType, ans Answer) (Result, error) {
	return s.putWebhook(ctx, c, idem, w, event, ans)
}

// DeleteWebhook removes an endpoint that was read at w.Revision. A job cancels
// what is still to be delivered.
func (s *Store) DeleteWebhook(ctx context.Context, c Caller, w Endpoint) error {
	_, err := s.putWebhook(ctx, c, nil, w, tollgate.WebhookDeleted, Answer{})
	return err
}

// DisableWebhook ends deliveries to an endpoint on the service's own account,
// and says whether it did. attempted is the endpoint that was found wanting: one
// that was moved, enabled or changed otherwise since then stays as it is, and is
// judged by its own attempts.
func (s *Store) DisableWebhook(ctx context.Context, org string, attempted Endpoint, reason string) (disabled bool, err error) {
	if attempted.Status != tollgate.WebhookActive {
		return false, nil
	}
	attempted.Status, attempted.DisabledReason, attempted.UpdatedAt = tollgate.WebhookDisabledStatus, &reason, s.Now()
	_, err = s.ChangeWebhook(ctx, Caller{Organization: org}, nil, attempted, tollgate.WebhookDisabled, Answer{})
	if errors.Is(err, ErrConflict) || gone(err) {
		return false, nil
	}
	return err == nil, err
}

type putWebhookKeys struct {
	requestKeys
	logKeys
	Endpoint, Ready, Queue, Jobs, Mark string
}

type putWebhookArgs struct {
	requestArgs
	ExpectedRevision, EndpointID string
	DirectoryEntry               []byte
	NowMs                        int64
	ReadyMember, Job             string
	MostEndpoints                int
	eventArgs
	auditArgs
	Status, URL string
	FieldCount  int
}

var scriptPutWebhook = newScript[putWebhookKeys, putWebhookArgs]("put_webhook")

func (s *Store) putWebhook(ctx context.Context, c Caller, idem *Idempotency, w Endpoint, event tollgate.EventType, ans Answer) (Result, error) {
	k := s.space(c.Organization)
	w.Secret = "" // shown once, kept sealed
	operation := s.Mint("")
	request, asked := c.request(k, idem, operation, ans)
	if ans.Status != 0 {
		c.Request.Status = ans.Status
	}
	doc, err := json.Marshal(w.WebhookEndpoint, json.Deterministic(true))
	if err != nil {
		return Result{}, fmt.Errorf("webhook %s: %w", w.ID, err)
	}
	keys, err := json.Marshal(w.Sealed)
	if err != nil {
		return Result{}, fmt.Errorf("webhook %s: %w", w.ID, err)
	}
	directory, err := json.Marshal(wanted{w.Status, w.EventTypes, w.MerchantAccountIDs})
	if err != nil {
		return Result{}, fmt.Errorf("webhook %s: %w", w.ID, err)
	}
	job, expected := "", ""
	if event == tollgate.WebhookDeleted {
		directory, job = nil, "cancel/"+k.org+"/"+w.ID+"/"
	}
	if w.Revision != 0 {
		expected = strconv.FormatInt(w.Revision, 10)
	}
	e, err := tollgate.NewEvent(s.Mint(tollgate.PrefixEvent), event, s.Now(), k.org, "", c.Request.ID, struct {
		WebhookID      string  `json:"webhook_id"`
		Status         string  `json:"status"`
		DisabledReason *string `json:"disabled_reason"`
	}{w.ID, w.Status, w.DisabledReason})
	if err != nil {
		return Result{}, err
	}
	said, err := eventArguments(&e)
	if err != nil {
		return Result{}, err
	}
	entry, err := s.entry(c, string(event), "succeeded", "", "webhook_endpoint", w.ID)
	if err != nil {
		return Result{}, err
	}
	var f pairs
	f.int("v", w.Revision+1)
	f.set("url", w.URL)
	f.set("json", string(doc))
	f.set("keys", string(keys))
	inv := scriptPutWebhook.with(putWebhookKeys{
		requestKeys: request, logKeys: k.logs(), Endpoint: k.object(w.ID), Ready: k.ready, Queue: k.queue(w.ID), Jobs: k.jobs, Mark: k.mark(operation),
	}, putWebhookArgs{
		requestArgs: asked, ExpectedRevision: expected, EndpointID: w.ID, DirectoryEntry: directory, NowMs: int64(s.Now()),
		ReadyMember: k.org + "/" + w.ID, Job: job, MostEndpoints: tollgate.MaxWebhooks, eventArgs: said, auditArgs: entry,
		Status: w.Status, URL: w.URL, FieldCount: len(f),
	})
	inv.args = append(inv.args, f...)
	outcome, rest, err := s.run(ctx, inv)
	if err != nil {
		return Result{}, err
	}
	if outcome == "full" {
		return Result{}, tollgate.QuotaExceeded("webhooks", "An organization has at most %d webhook endpoints; remove one.", tollgate.MaxWebhooks)
	}
	return result(outcome, rest, ans)
}

// Webhook reads an endpoint.
func (s *Store) Webhook(ctx context.Context, c Caller, id string) (*Endpoint, error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, err
	}
	return s.endpoint(ctx, k, id)
}

func (s *Store) endpoint(ctx context.Context, k space, id string) (*Endpoint, error) {
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

func endpointOf(id string, f fields) (*Endpoint, error) {
	r := read("webhook_endpoint", id, f)
	w := &Endpoint{Revision: r.int("v"), LastSuccess: r.moment("ok"), Failures: r.count("fail")}
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
func (s *Store) Webhooks(ctx context.Context, c Caller, after string, limit int) (rows []Endpoint, more bool, err error) {
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
				w = &Endpoint{WebhookEndpoint: tollgate.WebhookEndpoint{Object: "webhook_endpoint", ID: ids[i], Damaged: true}}
			}
			rows = append(rows, *w)
		}
		return nil
	})
	return rows, more, err
}
