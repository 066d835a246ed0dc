package rediskv

import (
	"context"
	"errors"
	"fmt"

	"tollgate"
)

// batch collects what one run of put_rules writes.
type batch struct {
	store  *Store
	space  space
	caller Caller
	idem   *Idempotency // nil without a key
	answer Answer
	push   bool // instances have to know

	objects
	sets []configMember
	records
}

// objects are hashes and immutable strings that are written together, or not
// at all.
type objects struct {
	hashes  []configHash
	strings []configString
}

type configHash struct {
	key, expected string // the revision; empty: none
	fields        pairs
}

type configString struct{ key, value string }

func (o *objects) arguments(keys []string, args []any) ([]string, []any) {
	args = append(args, len(o.hashes))
	for _, h := range o.hashes {
		keys = append(keys, h.key)
		args = append(append(args, h.expected, len(h.fields)), h.fields...)
	}
	args = append(args, len(o.strings))
	for _, v := range o.strings {
		keys = append(keys, v.key)
		args = append(args, v.value)
	}
	return keys, args
}

// records are the events and audit entries of what is written: heads and tails
// around the sequence that the script gives them.
type records struct {
	events  []tollgate.Event
	entries [][2][]byte
}

func (r *records) arguments(args []any) ([]any, error) {
	args = append(args, len(r.events))
	for _, e := range r.events {
		head, tail, err := e.Split()
		if err != nil {
			return nil, fmt.Errorf("event %s: %w", e.Type, err)
		}
		account := ""
		if e.MerchantAccountID != nil {
			account = *e.MerchantAccountID
		}
		args = append(args, head, tail, e.ID, string(e.Type), account)
	}
	args = append(args, len(r.entries))
	for _, e := range r.entries {
		args = append(args, e[0], e[1])
	}
	return args, nil
}

// configMember is a member of a sorted set to write, or, without a score, to
// remove.
type configMember struct{ key, score, member string }

func (s *Store) batch(c Caller, idem *Idempotency) *batch {
	return &batch{store: s, space: s.space(c.Organization), caller: c, idem: idem}
}

// hash writes a hash that was read at a revision; "" for one that is new.
func (b *batch) hash(key, expected string, f pairs) {
	b.hashes = append(b.hashes, configHash{key, expected, f})
}

func (b *batch) set(key, score, member string) {
	b.sets = append(b.sets, configMember{key, score, member})
}

func (b *batch) event(t tollgate.EventType, account string, data any) error {
	e, err := tollgate.NewEvent(b.store.Mint(tollgate.PrefixEvent), t, b.store.Now(), b.space.org, account, b.caller.Request.ID, data)
	b.events = append(b.events, e)
	return err
}

func (b *batch) audit(kind, reason, targetType, target string) error {
	return b.audited(kind, "succeeded", reason, targetType, target)
}

func (b *batch) audited(kind, outcome, reason, targetType, target string) error {
	c := b.caller
	if b.answer.Status != 0 {
		c.Request.Status = b.answer.Status
	}
	head, tail, err := b.store.entry(c, kind, outcome, reason, targetType, target)
	b.entries = append(b.entries, [2][]byte{head, tail})
	return err
}

// commit writes all of it. ErrConflict says that something has changed since it
// was read.
func (b *batch) commit(ctx context.Context) (Result, error) {
	s, k := b.store, b.space
	operation := s.Mint("")
	grant, version := b.caller.grant(k)
	record, line, print, stored := b.caller.remembered(k, b.idem, operation, b.answer)
	channel := ""
	if b.push {
		channel = configChannel
	}
	keys := []string{grant, record, k.sequences(), k.events(), k.audit(), k.dispatch, k.webhooks(), changesKey(k.partition), k.mark(operation)}
	keys, args := b.objects.arguments(keys, []any{line, version, print, idempotencyLifetime.Milliseconds(), stored, channel, k.org})
	args = append(args, len(b.sets))
	for _, m := range b.sets {
		keys = append(keys, m.key)
		args = append(args, m.score, m.member)
	}
	args, err := b.records.arguments(args)
	if err != nil {
		return Result{}, err
	}
	outcome, rest, err := s.run(ctx, scriptPutRules, keys, args)
	if err != nil {
		return Result{}, err
	}
	if b.push {
		s.cache.forget(k.org)
	}
	return result(outcome, rest, b.answer)
}

// retried makes an optimistic change again while what it is computed from is
// changed by others in between. Where they come first again and again, the
// change can be tried again later.
func retried[T any](change func() (T, error)) (result T, err error) {
	for range 10 {
		if result, err = change(); !errors.Is(err, ErrConflict) {
			return result, err
		}
	}
	return result, &tollgate.Error{
		Code: tollgate.CodeStoreUnavailable, Cause: err,
		Message: "Others are changing the same at the moment. Try again.",
	}
}
