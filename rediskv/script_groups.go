package rediskv

import (
	"fmt"

	"tollgate"
	"tollgate/rediskv/bodies"
	"tollgate/rediskv/gcra"
	"tollgate/rediskv/record"
)

// What the keys and arguments of several scripts have in common.

// RequestKeys and requestArgs are what every change that a client asks for begins
// with (answered, in prelude.lua).
type RequestKeys struct {
	GrantKeys
	Record string
}

// RequestArgs say who asks, and what is remembered of it (answered, in
// prelude.lua).
type RequestArgs struct {
	GrantArgs
	Operation, Fingerprint string
	RecordLifetime         int64
	RecordText             string
}

// GrantKeys and GrantArgs are what scripts compare a caller's grant by, and count its
// request (turned_away, in prelude.lua).
type (
	GrantKeys struct{ Grant, Rate string }
	GrantArgs struct {
		GrantVersion string
		RateLimit    gcra.Argument
	}
)

// Arguments say who asks, and what to remember of it. operation is an id of its
// own.
func (c Caller) Arguments(k Space, idem *Idempotency, operation string, a Answer) (keys RequestKeys, args RequestArgs) {
	keys.GrantKeys, args.GrantArgs = c.Grant(k)
	keys.Record, args.Operation, args.Fingerprint, args.RecordText = c.remembered(k, idem, operation, a)
	args.RecordLifetime = recordLifetime.Milliseconds()
	return keys, args
}

// eventKeys are where an event goes, logKeys where an audit entry goes, too.
type eventKeys struct{ Sequences, Events, Dispatch, Webhooks string }

// LogKeys are where an event and its audit entry go.
type LogKeys struct {
	eventKeys
	Audit string
}

// Logs are the keys of what every change is written to.
func (k Space) Logs() LogKeys {
	return LogKeys{eventKeys{k.Sequences(), k.Events(), k.Dispatch, k.Webhooks()}, k.Audit()}
}

// EventArgs are an event around its sequence, and auditArgs an audit entry.
type EventArgs struct {
	EventHead, EventTail                            []byte
	EventID, EventType, EventAccount, EventEnvelope string
}

// EventArguments are an event of an organization as scripts take it. The trace of the
// caller stands behind the envelope, and beside the event in its log: no checksum covers
// it, because earlier releases, which ignore it, would count another one.
func EventArguments(k Space, c Caller, e *tollgate.Event) (EventArgs, error) {
	head, tail, err := bodies.Event(e)
	if err != nil {
		return EventArgs{}, fmt.Errorf("event %s: %w", e.Type, err)
	}
	a := EventArgs{EventHead: head, EventTail: tail, EventID: e.ID, EventType: string(e.Type)}
	if e.MerchantAccountID != nil {
		a.EventAccount = *e.MerchantAccountID
	}
	entry := record.Entry{Head: head, Tail: tail, ID: a.EventID, Type: a.EventType, Account: a.EventAccount}
	a.EventEnvelope = entry.Envelope(k.Events())
	if c.Trace != "" {
		a.EventEnvelope += " " + c.Trace
	}
	return a, nil
}

// AuditArgs are an audit entry around its sequence.
type AuditArgs struct {
	AuditHead, AuditTail []byte
	AuditEnvelope        string
}
