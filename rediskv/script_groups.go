package rediskv

import (
	"fmt"

	"tollgate"
)

// What the keys and arguments of several scripts have in common.

// requestKeys and requestArgs are what every change that a client asks for begins
// with (answered, in prelude.lua).
type RequestKeys struct{ Grant, Record string }

type RequestArgs struct {
	Operation, GrantVersion, Fingerprint string
	RecordLifetime                       int64
	RecordText                           string
}

// request says who asks, and what to remember of it. operation is an id of its
// own.
func (c Caller) Arguments(k Space, idem *Idempotency, operation string, a Answer) (keys RequestKeys, args RequestArgs) {
	keys.Grant, args.GrantVersion = c.Grant(k)
	keys.Record, args.Operation, args.Fingerprint, args.RecordText = c.remembered(k, idem, operation, a)
	args.RecordLifetime = idempotencyLifetime.Milliseconds()
	return keys, args
}

// eventKeys are where an event goes, logKeys where an audit entry goes, too.
type eventKeys struct{ Sequences, Events, Dispatch, Webhooks string }

type LogKeys struct {
	eventKeys
	Audit string
}

func (k Space) Logs() LogKeys {
	return LogKeys{eventKeys{k.Sequences(), k.Events(), k.Dispatch, k.Webhooks()}, k.Audit()}
}

// eventArgs are an event around its sequence, and auditArgs an audit entry.
type EventArgs struct {
	EventHead, EventTail             []byte
	EventID, EventType, EventAccount string
}

func EventArguments(e *tollgate.Event) (EventArgs, error) {
	head, tail, err := e.Split()
	if err != nil {
		return EventArgs{}, fmt.Errorf("event %s: %w", e.Type, err)
	}
	a := EventArgs{EventHead: head, EventTail: tail, EventID: e.ID, EventType: string(e.Type)}
	if e.MerchantAccountID != nil {
		a.EventAccount = *e.MerchantAccountID
	}
	return a, nil
}

type AuditArgs struct{ AuditHead, AuditTail []byte }
