package rediskv

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
)

// idempotencyLifetime is how long an Idempotency-Key is remembered
// (interface §4).
const idempotencyLifetime = 7 * 24 * time.Hour

// Caller is who asks: a client of an organization under one version of its
// grant, in one request. Request.Status is what success will answer.
type Caller struct {
	Organization string
	GrantVersion int64
	Actor        tollgate.Actor
	Request      tollgate.AuditRequest
}

// grant is the key of the caller's grant and the version it must have; the
// service's own clock has no grant, and none is compared.
func (c Caller) grant(k space) (key, version string) {
	if c.Actor.GrantID == "" {
		return k.sequences(), ""
	}
	return k.object(c.Actor.GrantID), strconv.FormatInt(c.GrantVersion, 10)
}

// checkGrant compares the grant's version beside reads that are no script.
func (s *Store) checkGrant(ctx context.Context, c Caller, k space) error {
	key, version := c.grant(k)
	if version == "" {
		return nil
	}
	return s.timed(ctx, "check_grant", func(ctx context.Context) error {
		current, err := s.client.HGet(ctx, key, "v").Result()
		if err == nil && current == version {
			return nil
		}
		if err != nil && err != redis.Nil {
			return err
		}
		return grantChanged()
	})
}

// entry makes an audit entry of what the caller did.
func (s *Store) entry(c Caller, kind, outcome, reason, targetType, targetID string) (head, tail []byte, err error) {
	return tollgate.AuditEntry{
		ID: s.Mint(tollgate.PrefixAudit), Time: s.Now(), Type: kind, Outcome: outcome, Reason: reason,
		Actor: c.Actor, Request: c.Request, Target: tollgate.AuditTarget{Type: targetType, ID: targetID},
	}.Split()
}

// Audit records what a caller was refused; entry's id, time, actor and request
// are filled in.
func (s *Store) Audit(ctx context.Context, c Caller, e tollgate.AuditEntry) error {
	k := s.space(c.Organization)
	head, tail, err := s.entry(c, e.Type, e.Outcome, e.Reason, e.Target.Type, e.Target.ID)
	if err != nil {
		return err
	}
	_, _, err = s.run(ctx, scriptAppendAudit, []string{k.sequences(), k.audit(), k.mark(s.Mint(""))}, []any{head, tail})
	return err
}

// CountRefusal counts a stranger's failure per reason and minute, so that
// nobody without a token can make the record grow. Counts are kept 30 days.
func (s *Store) CountRefusal(ctx context.Context, reason string) error {
	key := deniedKey(s.clock().UTC().Format("2006-01-02T15:04"))
	return s.timed(ctx, "count_refusal", func(ctx context.Context) error {
		if err := s.client.HIncrBy(ctx, key, reason, 1).Err(); err != nil {
			return err
		}
		return s.client.Expire(ctx, key, 30*24*time.Hour).Err()
	})
}

// Idempotency identifies a request that may be repeated. Scope is the merchant
// account (or organization) and the operation; Fingerprint is a hex digest of
// the normalized request, and Earlier that of what earlier releases made of it.
type Idempotency struct{ Scope, Key, Fingerprint, Earlier string }

// fingerprints are those by which a repeat is known, for the scripts.
func (i Idempotency) fingerprints() string {
	if i.Earlier == "" || i.Earlier == i.Fingerprint {
		return i.Fingerprint
	}
	return i.Fingerprint + " " + i.Earlier
}

// Answer is what a request is answered with, and again when it is repeated.
type Answer struct {
	Status   int
	Location string
	Body     []byte
}

// Result is the answer to give; Repeated when it is an earlier request's.
type Result struct {
	Answer
	Repeated bool
}

// record is the stored form of an answer.
func (a Answer) record(operation, fingerprint string) string {
	return operation + "\n" + fingerprint + "\n" + strconv.Itoa(a.Status) + "\n" + a.Location + "\n" + string(a.Body)
}

func answerOf(record any) (Result, error) {
	text, _ := record.(string)
	part := strings.SplitN(text, "\n", 5)
	if len(part) != 5 {
		return Result{}, fmt.Errorf("redis: an idempotency record has %d parts", len(part))
	}
	status, err := strconv.Atoi(part[2])
	if err != nil {
		return Result{}, fmt.Errorf("redis: an idempotency record has status %q", part[2])
	}
	return Result{Answer{status, part[3], []byte(part[4])}, true}, nil
}

// FindRepeated looks for an earlier request of the same key. A caller that is
// about to refuse for a reason that can change (configuration, a payment's
// state) asks first, so that a repeat gets the answer it had.
func (s *Store) FindRepeated(ctx context.Context, c Caller, idem Idempotency) (Result, bool, error) {
	k := s.space(c.Organization)
	grant, version := c.grant(k)
	outcome, rest, err := s.run(ctx, scriptFindRepeated, []string{grant, k.idempotency(idem)}, []any{version, idem.fingerprints()})
	if err != nil || outcome == "new" {
		return Result{}, false, err
	}
	r, err := answerOf(rest[0])
	return r, true, err
}
