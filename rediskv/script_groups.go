package rediskv

import (
	"fmt"

	"tollgate"
)

// What the keys and arguments of several scripts have in common.

// requestKeys and requestArgs are what every change that a client asks for begins
// with (answered, in prelude.lua).
type requestKeys struct{ Grant, Record string }

type requestArgs struct {
	Operation, GrantVersion, Fingerprint string
	RecordLifetime                       int64
	RecordText                           string
}

// request says who asks, and what to remember of it. operation is an id of its
// own.
func (c Caller) request(k space, idem *Idempotency, operation string, a Answer) (keys requestKeys, args requestArgs) {
	keys.Grant, args.GrantVersion = c.grant(k)
	keys.Record, args.Operation, args.Fingerprint, args.RecordText = c.remembered(k, idem, operation, a)
	args.RecordLifetime = idempotencyLifetime.Milliseconds()
	return keys, args
}

// eventKeys are where an event goes, logKeys where an audit entry goes, too.
type eventKeys struct{ Sequences, Events, Dispatch, Webhooks string }

type logKeys struct {
	eventKeys
	Audit string
}

func (k space) logs() logKeys {
	return logKeys{eventKeys{k.sequences(), k.events(), k.dispatch, k.webhooks()}, k.audit()}
}

// eventArgs are an event around its sequence, and auditArgs an audit entry.
type eventArgs struct {
	EventHead, EventTail             []byte
	EventID, EventType, EventAccount string
}

func eventArguments(e *tollgate.Event) (eventArgs, error) {
	head, tail, err := e.Split()
	if err != nil {
		return eventArgs{}, fmt.Errorf("event %s: %w", e.Type, err)
	}
	a := eventArgs{EventHead: head, EventTail: tail, EventID: e.ID, EventType: string(e.Type)}
	if e.MerchantAccountID != nil {
		a.EventAccount = *e.MerchantAccountID
	}
	return a, nil
}

type auditArgs struct{ AuditHead, AuditTail []byte }
