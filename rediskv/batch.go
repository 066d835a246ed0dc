package rediskv

import (
	"context"
	"errors"

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
	entries []auditArgs
}

func (r *records) arguments(args []any) ([]any, error) {
	args = append(args, len(r.events))
	for i := range r.events {
		e, err := eventArguments(&r.events[i])
		if err != nil {
			return nil, err
		}
		args = append(args, e.EventHead, e.EventTail, e.EventID, e.EventType, e.EventAccount)
	}
	args = append(args, len(r.entries))
	for _, e := range r.entries {
		args = append(args, e.AuditHead, e.AuditTail)
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
	entry, err := b.store.entry(c, kind, outcome, reason, targetType, target)
	b.entries = append(b.entries, entry)
	return err
}

type putRulesKeys struct {
	requestKeys
	logKeys
	Changes, Mark string
}

type putRulesArgs struct {
	requestArgs
	Channel, Organization string
}

var scriptPutRules = newScript[putRulesKeys, putRulesArgs]("put_rules")

// commit writes all of it. ErrConflict says that something has changed since it
// was read.
func (b *batch) commit(ctx context.Context) (Result, error) {
	s, k := b.store, b.space
	operation := s.Mint("")
	keys, args := b.caller.request(k, b.idem, operation, b.answer)
	channel := ""
	if b.push {
		channel = configChannel
	}
	inv := scriptPutRules.with(putRulesKeys{keys, k.logs(), changesKey(k.partition), k.mark(operation)}, putRulesArgs{args, channel, k.org})
	inv.keys, inv.args = b.objects.arguments(inv.keys, inv.args)
	inv.args = append(inv.args, len(b.sets))
	for _, m := range b.sets {
		inv.keys = append(inv.keys, m.key)
		inv.args = append(inv.args, m.score, m.member)
	}
	var err error
	if inv.args, err = b.records.arguments(inv.args); err != nil {
		return Result{}, err
	}
	outcome, rest, err := s.run(ctx, inv)
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
