package rediskv

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollgate"
	"tollgate/rediskv/bodies"
	"tollgate/rediskv/gcra"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

const (
	// idempotencyLifetime is how long an Idempotency-Key is remembered (interface §4), by
	// the service's clock: scripts compare when both operations were begun (answered, in
	// prelude.lua).
	idempotencyLifetime = 7 * 24 * time.Hour
	// recordLifetime is after how long Redis removes the record, by its own clock, which
	// may be another: then nobody asks for it any more.
	recordLifetime = 2 * idempotencyLifetime
)

// Caller is who asks: a client of an organization under one version of its
// grant, in one request. Request.Status is what success will answer.
type Caller struct {
	Organization string
	GrantVersion int64
	Token        string // its id; empty: none is compared with those that are revoked
	Actor        tollgate.Actor
	Request      tollgate.AuditRequest
	// Rate is counted by the first script that the request runs; nil: none counts it.
	Rate *gcra.Count
	// Turn waits until the caller may have Redis look at much, which it does for
	// one at a time: a listing takes one turn per batch, so that others come
	// between. done ends it. nil: it need not wait.
	Turn func(context.Context) (done func(), err error)
	// Revision is set to the number of the organization's last event by what the
	// caller writes, and by a repeat of it. nil: nobody asks.
	Revision *int64
	// Trace is the traceparent of the request's span, which goes on into the deliveries
	// of what it changes; empty: nobody traces it.
	Trace string
}

// revised are the outcomes behind which a script says a revision.
var revised = []string{"written", "created", "changed", "queued", "done", "repeated", "made", "noted"}

// Revised takes the revision off the answer of a script that writes, for the caller,
// for what is read from the replica later, and for who looks whether it is still there.
func (s *DB) Revised(c Caller, inv *script.Invocation, outcome string, rest []any) []any {
	if len(rest) == 0 || !slices.Contains(revised, outcome) {
		return rest
	}
	last := len(rest) - 1
	text, _ := rest[last].(string)
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && c.Revision != nil {
		*c.Revision = max(*c.Revision, n)
	}
	if err == nil && s.replica != nil {
		s.replica.acknowledged(c.Organization, n)
	}
	if err == nil {
		s.acknowledged(c.Organization, inv, n)
	}
	return rest[:last]
}

// InTurn does one batch of a caller's work.
func (c Caller) InTurn(ctx context.Context, do func() error) error {
	if c.Turn == nil {
		return do()
	}
	done, err := c.Turn(ctx)
	if err != nil {
		return err
	}
	defer done()
	return do()
}

// pageSize is how many objects the caller reads at once.
func (c Caller) pageSize() int {
	if c.Turn == nil {
		return readPage
	}
	return turnPage
}

// TimedInTurn is timed, from the moment on at which it is the caller's turn.
func (s *DB) TimedInTurn(ctx context.Context, c Caller, operation string, do func(context.Context) error) error {
	return c.InTurn(ctx, func() error { return s.Timed(ctx, operation, do) })
}

// Grant is the key of the caller's grant and the version it must have, with the token
// behind it; the service's own clock has no grant, and none is compared.
func (c Caller) Grant(k Space) (keys GrantKeys, args GrantArgs) {
	keys.Rate, args.RateLimit = c.Counted(k)
	if c.Actor.GrantID == "" {
		keys.Grant = k.Sequences()
		return keys, args
	}
	keys.Grant, args.GrantVersion = k.Object(c.Actor.GrantID), strconv.FormatInt(c.GrantVersion, 10)
	if c.Token != "" {
		args.GrantVersion += " " + c.Token
	}
	return keys, args
}

// Counted is where the request is counted. A script that counts nothing does not look there.
func (c Caller) Counted(k Space) (key string, limit gcra.Argument) {
	if limit = c.Rate.Ask(); !limit.Counts() {
		return k.Sequences(), limit
	}
	return k.Rate(limit.Bucket()), limit
}

// CheckGrant compares the grant's version beside reads that are no script: it is on
// its way while they are. What it returns waits for the answer, and a grant that is
// no longer the caller's is then the error, whatever was read.
func (s *DB) CheckGrant(ctx context.Context, c Caller, k Space) (checked func(err *error)) {
	keys, args := c.Grant(k)
	if args.GrantVersion == "" {
		return func(*error) {}
	}
	return Beside(func() error {
		_, _, err := s.Run(ctx, scriptCheckGrant.With(keys, args))
		return err
	})
}

var scriptCheckGrant = script.NewRead[GrantKeys, GrantArgs](lua, "check_grant")

// Entry makes an audit entry of what the caller did.
func (s *DB) Entry(c Caller, kind, outcome, reason, targetType, targetID string) (a AuditArgs, err error) {
	a.AuditHead, a.AuditTail, err = bodies.Audit(&tollgate.AuditEntry{
		ID: s.NewID(tollgate.PrefixAudit), Time: s.Now(), Type: kind, Outcome: outcome, Reason: reason,
		Actor: c.Actor, Request: c.Request, Target: tollgate.AuditTarget{Type: targetType, ID: targetID},
	})
	if err != nil {
		err = fmt.Errorf("audit entry: %w", err)
	}
	entry := record.Entry{Head: a.AuditHead, Tail: a.AuditTail}
	a.AuditEnvelope = entry.Envelope(s.Space(c.Organization).Audit())
	return a, err
}

type appendAuditKeys struct{ Sequences, Audit, Rate, Mark string }

type appendAuditArgs struct {
	RateLimit gcra.Argument
	AuditArgs
}

var scriptAppendAudit = script.New[appendAuditKeys, appendAuditArgs](lua, "append_audit")

// Audit records what a caller was refused; entry's id, time, actor and request
// are filled in.
func (s *DB) Audit(ctx context.Context, c Caller, e tollgate.AuditEntry) error {
	k := s.Space(c.Organization)
	entry, err := s.Entry(c, e.Type, e.Outcome, e.Reason, e.Target.Type, e.Target.ID)
	if err != nil {
		return err
	}
	rate, limit := c.Counted(k)
	_, _, err = s.RunAnew(ctx, scriptAppendAudit.With(appendAuditKeys{k.Sequences(), k.Audit(), rate, k.Mark(s.NewID(""))}, appendAuditArgs{limit, entry}))
	return err
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

// Account is the merchant account or organization that the key belongs to.
func (i Idempotency) Account() string {
	account, _, _ := strings.Cut(i.Scope, ":")
	return account
}

// Operation is the one that the key belongs to, such as "payments.create".
func (i Idempotency) Operation() string {
	_, operation, _ := strings.Cut(i.Scope, ":")
	return operation
}

// Answer is what a request is answered with, and again when it is repeated.
type Answer struct {
	Status   int
	Location string
	Body     []byte
	// Shows: the body is the JSON of what a change of a payment makes. Then Shown may be
	// kept instead of body and location (payments.Store.Shown), in Form.
	Shows bool
	Shown string
	Form  record.Form
	// Reach is the merchant accounts that the answer is about, or ReachAll or
	// ReachNone alone. Empty: the account that its key belongs to.
	Reach []string
}

// What an answer can be about instead of accounts.
const (
	ReachAll  = "*" // all of the organization, those to come included
	ReachNone = "-" // nothing of an account
)

// Result is the answer to give; Repeated when it is an earlier request's.
type Result struct {
	Answer
	Repeated bool
}

// remembered is how scripts are told what to remember of a request: the key of
// the record, the operation as its first line has it (id, client and reach), the
// fingerprints, and the record. Without a key only the operation means anything.
// The build before reads no further than the first line and takes it as a whole.
func (c Caller) remembered(k Space, idem *Idempotency, operation string, a Answer) (key, line, print, text string) {
	line = operation + " " + c.Actor.ClientID
	if len(a.Reach) > 0 {
		line += " " + strings.Join(a.Reach, ",")
	}
	if idem == nil {
		return k.Sequences(), Envelope + "/" + line, "", ""
	}
	key = k.idempotency(*idem)
	r := record.Request{Operation: line, Fingerprint: idem.Fingerprint, Status: a.Status, Location: a.Location, Body: a.Body, Shown: a.Shown}
	text, envelope := r.At(key, a.Form)
	return key, envelope + line, idem.fingerprints(), text
}

func answerOf(reply any) (Result, error) {
	text, _ := reply.(string)
	r, err := record.ReadRequest(text)
	return Result{Answer{Status: r.Status, Location: r.Location, Body: r.Body, Shown: r.Shown, Reach: r.Reach()}, true}, err
}

type findRepeatedArgs struct {
	GrantArgs
	Operation, Fingerprint string
}

var scriptFindRepeated = script.NewRead[RequestKeys, findRepeatedArgs](lua, "find_repeated")

// FindRepeated looks for an earlier request of the same key. A caller that is
// about to refuse for a reason that can change (configuration, a payment's
// state) asks first, so that a repeat gets the answer it had.
func (s *DB) FindRepeated(ctx context.Context, c Caller, idem Idempotency) (Result, bool, error) {
	k := s.Space(c.Organization)
	keys, args := c.Grant(k)
	outcome, rest, err := s.Run(ctx, scriptFindRepeated.With(
		RequestKeys{keys, k.idempotency(idem)},
		findRepeatedArgs{GrantArgs: args, Fingerprint: idem.fingerprints(), Operation: s.NewID("") + " " + c.Actor.ClientID},
	))
	if err != nil || outcome == "new" {
		return Result{}, false, err
	}
	r, err := answerOf(rest[0])
	return r, true, err
}

// DamagedAnswer is the damage of a record whose answer cannot be given again.
func (s *DB) DamagedAnswer(ctx context.Context, c Caller, idem Idempotency, cause error) error {
	return s.DamagedAt(ctx, s.Space(c.Organization).idempotency(idem), cause)
}
