package rediskv

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"

	"tollgate"
)

// commit is a change that is written all at once, or not at all, if what it was
// computed from is still so.
type commit struct {
	store  *Store
	space  space
	caller Caller
	idem   *Idempotency // nil without a key
	answer Answer
	notify bool // instances have to know

	reads   []reading
	hashes  []hashWrite
	strings []stringWrite
	writes  []write
	raised  []string // grants whose tokens end
	events  []tollgate.Event
	entries []auditArgs
}

// reading is what a command must answer of a key, as it did before.
type reading struct {
	command, key string
	args         pairs
	answer       string
}

// hashWrite is a hash that was read at a revision, empty where there was none.
// Without fields it is only compared.
type hashWrite struct {
	key, expected string
	fields        pairs
}

// stringWrite is an immutable version.
type stringWrite struct{ key, value string }

// write is a command that changes one key, whatever it holds. Its answer can
// become a field of a hash.
type write struct {
	command, key string
	args         pairs
	field, hash  string
}

// What becomes of a member of a set, if it is no score.
const (
	removed  = "remove" // from a sorted set
	lookedAt = "look"   // at once, if the sorted set has it
	added    = "add"    // to a set
)

func (s *Store) commit(c Caller, idem *Idempotency) *commit {
	return &commit{store: s, space: s.space(c.Organization), caller: c, idem: idem}
}

// revision is the text of one: none of 0, before the first.
func revision(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// hash writes a hash that was read at a revision; "" for one that is new.
func (c *commit) hash(key, expected string, f pairs) {
	c.hashes = append(c.hashes, hashWrite{key, expected, f})
}

// unchanged makes the change hold only while a hash is as it was read.
func (c *commit) unchanged(key, expected string) { c.hash(key, expected, nil) }

func (c *commit) version(key, text string) { c.strings = append(c.strings, stringWrite{key, text}) }

// still makes the change hold only while a command answers what it did: a text, or
// the digits of a number, and nothing where there is nothing.
func (c *commit) still(answer, command, key string, args ...any) {
	c.reads = append(c.reads, reading{command, key, args, answer})
}

// do changes a key by a command that is not compared with anything.
func (c *commit) do(command, key string, args ...any) {
	c.writes = append(c.writes, write{command: command, key: key, args: args})
}

// kept is do, and the command's answer becomes a field of a hash.
func (c *commit) kept(hash, field, command, key string, args ...any) {
	c.writes = append(c.writes, write{command, key, args, field, hash})
}

func (c *commit) member(key, how, member string) {
	switch how {
	case removed:
		c.do("ZREM", key, member)
	case lookedAt:
		c.do("ZADD", key, "XX", "0", member)
	case added:
		c.do("SADD", key, member)
	default:
		c.do("ZADD", key, how, member)
	}
}

// sooner has a member of a queue looked at no later than at a moment.
func (c *commit) sooner(queue, member string, at tollgate.Instant) {
	c.do("ZADD", queue, "LT", milli(at), member)
}

// Origin is what the caller's change is caused by, now.
func (s *Store) Origin(c Caller) tollgate.Origin {
	return tollgate.Origin{Organization: c.Organization, RequestID: c.Request.ID, At: s.Now()}
}

// document writes an object's document, read at a revision; 0 for one that is new.
func (c *commit) document(id string, read int64, doc any) error {
	text, err := json.Marshal(doc, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	var f pairs
	f.set(envelopeField, envelope)
	f.int("v", read+1)
	f.set("json", string(text))
	c.hash(c.space.object(id), revision(read), f)
	return nil
}

// noted adds an audit entry of which type, outcome, reason and target are given.
func (c *commit) noted(e tollgate.AuditEntry) error {
	return c.audited(e.Type, e.Outcome, e.Reason, e.Target.Type, e.Target.ID)
}

func (c *commit) audit(kind, reason, targetType, target string) error {
	return c.audited(kind, "succeeded", reason, targetType, target)
}

func (c *commit) audited(kind, outcome, reason, targetType, target string) error {
	by := c.caller
	if c.answer.Status != 0 {
		by.Request.Status = c.answer.Status
	}
	entry, err := c.store.entry(by, kind, outcome, reason, targetType, target)
	c.entries = append(c.entries, entry)
	return err
}

type commitKeys struct {
	requestKeys
	logKeys
	Changes, Mark string
}

type commitArgs struct {
	requestArgs
	Channel, Organization string
}

var scriptCommit = newScript[commitKeys, commitArgs](lua, "commit")

// run writes all of it. ErrConflict says that something has changed since it was
// read.
func (c *commit) run(ctx context.Context) (Result, error) { return c.runAs(ctx, c.store.Mint("")) }

// runAs is run under an id that the change itself knows.
func (c *commit) runAs(ctx context.Context, operation string) (Result, error) {
	outcome, rest, err := c.send(ctx, operation)
	if err != nil {
		return Result{}, err
	}
	return result(outcome, rest, c.answer)
}

// send is runAs for one who asks whether it was this very run that wrote
// (written), or one before whose reply was lost (done).
func (c *commit) send(ctx context.Context, operation string) (outcome string, rest []any, err error) {
	s, k := c.store, c.space
	keys, args := c.caller.request(k, c.idem, operation, c.answer)
	channel := ""
	if c.notify {
		channel = configChannel
	}
	inv := scriptCommit.with(commitKeys{keys, k.logs(), changesKey(k.partition), k.mark(operation)}, commitArgs{args, channel, k.org})
	if err := c.groups(inv); err != nil {
		return "", nil, err
	}
	if outcome, rest, err = s.run(ctx, inv); err == nil && c.notify {
		s.cache.forget(k.org)
	}
	return outcome, rest, err
}

// groups appends what is written.
func (c *commit) groups(inv *invocation) error {
	inv.args = append(inv.args, len(c.reads))
	for _, r := range c.reads {
		inv.keys = append(inv.keys, r.key)
		inv.args = append(inv.args, r.command)
		inv.group(r.args)
		inv.args = append(inv.args, r.answer)
	}
	inv.args = append(inv.args, len(c.hashes))
	for _, h := range c.hashes {
		inv.keys = append(inv.keys, h.key)
		inv.args = append(inv.args, h.expected)
		inv.group(h.fields)
	}
	inv.args = append(inv.args, len(c.strings))
	for _, v := range c.strings {
		inv.keys = append(inv.keys, v.key)
		inv.args = append(inv.args, v.value)
	}
	inv.args = append(inv.args, len(c.writes))
	for _, w := range c.writes {
		inv.keys = append(inv.keys, w.key)
		if w.field != "" {
			inv.keys = append(inv.keys, w.hash)
		}
		inv.args = append(inv.args, w.command, w.field)
		inv.group(w.args)
	}
	inv.args = append(inv.args, len(c.events))
	for i := range c.events {
		e, err := eventArguments(&c.events[i])
		if err != nil {
			return err
		}
		inv.args = append(inv.args, e.EventHead, e.EventTail, e.EventID, e.EventType, e.EventAccount)
	}
	inv.args = append(inv.args, len(c.entries))
	for _, e := range c.entries {
		inv.args = append(inv.args, e.AuditHead, e.AuditTail)
	}
	for _, id := range c.raised {
		inv.keys = append(inv.keys, c.space.object(id))
	}
	return nil
}

// Retried makes an optimistic change (facts, decision, commit) again while what
// it is decided from is changed by others in between. Where they come first again
// and again, the change can be tried again later.
func Retried[T any](change func() (T, error)) (result T, err error) {
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

func result(outcome string, rest []any, ans Answer) (Result, error) {
	if outcome == "repeated" {
		return answerOf(rest[0])
	}
	return Result{Answer: ans}, nil
}
