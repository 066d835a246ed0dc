package rediskv

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

// Commit is a change that is written all at once, or not at all, if what it was
// computed from is still so.
type Commit struct {
	Store  *DB
	Space  Space
	caller Caller
	idem   *Idempotency // nil without a key
	Answer Answer
	Notify bool // instances have to know

	reads   []reading
	Hashes  []HashWrite
	strings []stringWrite
	writes  []write
	Raised  []string // grants whose tokens end
	Events  []tollgate.Event
	entries []AuditArgs
}

// reading is what a command must answer of a key, as it did before.
type reading struct {
	command, key string
	args         Pairs
	answer       string
}

// HashWrite is a hash that was read at a revision, empty where there was none.
// Without fields it is only compared. Beside is what else the checksum covers, as it
// was read at that revision.
type HashWrite struct {
	Key, Expected string
	Fields        Pairs
	Beside        Fields
}

// stringWrite is an immutable version.
type stringWrite struct{ key, value string }

// write is a command that changes one key, whatever it holds. Its answer can
// become a field of a hash.
type write struct {
	command, key string
	args         Pairs
	field, hash  string
}

// What becomes of a member of a set, if it is no score.
const (
	Removed  = "remove" // from a sorted set
	LookedAt = "look"   // at once, if the sorted set has it
	Added    = "add"    // to a set
)

// NewCommit begins a commit of a caller, with the idempotency key of the request
// or without one.
func (s *DB) NewCommit(c Caller, idem *Idempotency) *Commit {
	return &Commit{Store: s, Space: s.Space(c.Organization), caller: c, idem: idem}
}

// Revision is the text of one: none of 0, before the first.
func Revision(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// Hash writes a hash that was read at a revision; "" for one that is new.
func (c *Commit) Hash(key, expected string, f Pairs) {
	c.Hashes = append(c.Hashes, HashWrite{key, expected, f, nil})
}

// Unchanged makes the change hold only while a hash is as it was read.
func (c *Commit) Unchanged(key, expected string) { c.Hash(key, expected, nil) }

// Version writes a text of which no other may follow under the same key.
func (c *Commit) Version(key, text string) { c.strings = append(c.strings, stringWrite{key, text}) }

// VersionDocument is Version of a document, as JSON.
func (c *Commit) VersionDocument(key, object string) {
	c.Version(key, record.EnvelopedJSON(key, object))
}

// Still makes the change hold only while a command answers what it did: a text, or
// the digits of a number, and nothing where there is nothing.
func (c *Commit) Still(answer, command, key string, args ...any) {
	c.reads = append(c.reads, reading{command, key, args, answer})
}

// Do changes a key by a command that is not compared with anything.
func (c *Commit) Do(command, key string, args ...any) {
	c.writes = append(c.writes, write{command: command, key: key, args: args})
}

// Kept is Do, and the command's answer becomes a field of a hash.
func (c *Commit) Kept(hash, field, command, key string, args ...any) {
	c.writes = append(c.writes, write{command, key, args, field, hash})
}

// Member changes one member of a sorted set or a set.
func (c *Commit) Member(key, how, member string) {
	switch how {
	case Removed:
		c.Do("ZREM", key, member)
	case LookedAt:
		c.Do("ZADD", key, "XX", "0", member)
	case Added:
		c.Do("SADD", key, member)
	default:
		c.Do("ZADD", key, how, member)
	}
}

// Sooner has a member of a queue looked at no later than at a moment.
func (c *Commit) Sooner(queue, member string, at tollgate.Instant) {
	c.Do("ZADD", queue, "LT", Milli(at), member)
}

// Origin is what the caller's change is caused by, now.
func (s *DB) Origin(c Caller) tollgate.Origin {
	return tollgate.Origin{Organization: c.Organization, RequestID: c.Request.ID, At: s.Now(), HistoryID: s.Histories.Of(s.Partition(c.Organization)).ID}
}

// Document writes an object's document, read at a revision; 0 for one that is new.
func (c *Commit) Document(id string, read int64, doc any) error {
	return c.DocumentBeside(id, read, doc, nil)
}

// DocumentBeside is Document for an object of which the checksum covers more: beside
// is that, as it was read at the same revision.
func (c *Commit) DocumentBeside(id string, read int64, doc any, beside Fields) error {
	text, err := json.Marshal(doc, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	var f Pairs
	f.Set(EnvelopeField, Envelope)
	f.Int("v", read+1)
	f.Set("json", string(text))
	c.Hashes = append(c.Hashes, HashWrite{c.Space.Object(id), Revision(read), f, beside})
	return nil
}

// Noted adds an audit entry of which type, outcome, reason and target are given.
func (c *Commit) Noted(e tollgate.AuditEntry) error {
	return c.Audited(e.Type, e.Outcome, e.Reason, e.Target.Type, e.Target.ID)
}

// Audit adds an entry of what succeeded to the audit record.
func (c *Commit) Audit(kind, reason, targetType, target string) error {
	return c.Audited(kind, "succeeded", reason, targetType, target)
}

// Audited adds an entry with its outcome to the audit record.
func (c *Commit) Audited(kind, outcome, reason, targetType, target string) error {
	by := c.caller
	if c.Answer.Status != 0 {
		by.Request.Status = c.Answer.Status
	}
	entry, err := c.Store.Entry(by, kind, outcome, reason, targetType, target)
	c.entries = append(c.entries, entry)
	return err
}

type commitKeys struct {
	RequestKeys
	LogKeys
	Changes, Mark string
}

type commitArgs struct {
	RequestArgs
	Channel, Organization string
}

var scriptCommit = script.New[commitKeys, commitArgs](lua, "commit")

// Run writes all of it. ErrConflict says that something has changed since it was
// read.
func (c *Commit) Run(ctx context.Context) (Result, error) { return c.RunAs(ctx, c.Store.NewID("")) }

// RunAs is run under an id that the change itself knows.
func (c *Commit) RunAs(ctx context.Context, operation string) (Result, error) {
	outcome, rest, err := c.Send(ctx, operation)
	if err != nil {
		return Result{}, err
	}
	return ResultOf(outcome, rest, c.Answer)
}

// Send is runAs for one who asks whether it was this very run that wrote
// (written), or one before whose reply was lost (done).
func (c *Commit) Send(ctx context.Context, operation string) (outcome string, rest []any, err error) {
	s, k := c.Store, c.Space
	keys, args := c.caller.Arguments(k, c.idem, operation, c.Answer)
	channel := ""
	if c.Notify {
		channel = ConfigChannel
	}
	inv := scriptCommit.With(commitKeys{keys, k.Logs(), ChangesKey(k.Partition), k.Mark(operation)}, commitArgs{args, channel, k.Org})
	if err := c.groups(inv); err != nil {
		return "", nil, err
	}
	if outcome, rest, err = s.Run(ctx, inv); err == nil && c.Notify {
		s.Cache.Forget(k.Org)
	}
	return outcome, s.Revised(c.caller, inv, outcome, rest), err
}

// groups appends what is written.
func (c *Commit) groups(inv *script.Invocation) error {
	inv.Args = append(inv.Args, len(c.reads))
	for _, r := range c.reads {
		inv.Keys = append(inv.Keys, r.key)
		inv.Args = append(inv.Args, r.command)
		inv.Group(r.args)
		inv.Args = append(inv.Args, r.answer)
	}
	inv.Args = append(inv.Args, len(c.Hashes))
	for _, h := range c.Hashes {
		if err := record.Check(h.Beside[EnvelopeField]); err != nil { // a new checksum would make it right
			_, object, id, _ := record.ObjectAt(h.Key)
			return tollgate.Damage(object, id, err)
		}
		inv.Keys = append(inv.Keys, h.Key)
		inv.Args = append(inv.Args, h.Expected)
		inv.Group(h.Fields.Sealed(h.Key, h.Beside))
	}
	inv.Args = append(inv.Args, len(c.strings))
	for _, v := range c.strings {
		inv.Keys = append(inv.Keys, v.key)
		inv.Args = append(inv.Args, v.value)
	}
	inv.Args = append(inv.Args, len(c.writes))
	for _, w := range c.writes {
		inv.Keys = append(inv.Keys, w.key)
		if w.field != "" {
			inv.Keys = append(inv.Keys, w.hash)
		}
		inv.Args = append(inv.Args, w.command, w.field)
		inv.Group(w.args)
	}
	inv.Args = append(inv.Args, len(c.Events))
	for i := range c.Events {
		e, err := EventArguments(c.Space, c.caller, &c.Events[i])
		if err != nil {
			return err
		}
		inv.Args = append(inv.Args, e.EventHead, e.EventTail, e.EventID, e.EventType, e.EventAccount, e.EventEnvelope)
	}
	inv.Args = append(inv.Args, len(c.entries))
	for _, e := range c.entries {
		inv.Args = append(inv.Args, e.AuditHead, e.AuditTail, e.AuditEnvelope)
	}
	for _, id := range c.Raised {
		inv.Keys = append(inv.Keys, c.Space.Object(id))
	}
	return nil
}

// mostRetries bounds how often a change is made again. Each conflict is somebody
// else's success; a request's own time ends it before, if Redis is distant.
const mostRetries = 64

// Retried makes an optimistic change (facts, decision, commit) again while what
// it is decided from is changed by others in between. Where they come first again
// and again, the change can be tried again later.
func Retried[T any](change func() (T, error)) (result T, err error) {
	for range mostRetries {
		if result, err = change(); !errors.Is(err, ErrConflict) {
			return result, err
		}
	}
	return result, &tollgate.Error{
		Code: tollgate.CodeStoreUnavailable, Cause: err,
		Message: "Others are changing the same at the moment. Try again.",
	}
}

// ResultOf reads what a script that commits answers.
func ResultOf(outcome string, rest []any, ans Answer) (Result, error) {
	if outcome == "repeated" {
		return answerOf(rest[0])
	}
	return Result{Answer: ans}, nil
}
