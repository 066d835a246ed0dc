package rediskv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tollgate"
)

// stored reads the fields of one stored object, strictly: what is missing, is
// not written as this service writes it, or cannot be, makes the object a
// damaged one. Nothing is read as zero because it cannot be read.
type stored struct {
	fields
	object, id string
	faults     []string // names of fields that cannot be read
}

func read(object, id string, f fields) *stored {
	r := &stored{fields: f, object: object, id: id}
	if checkEnvelope(f[envelopeField]) != nil {
		r.fault(envelopeField)
	}
	return r
}

// err is nil, or the damage of the object.
func (r *stored) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	d := tollgate.Damage(r.object, r.id, fmt.Errorf("%s %s: unreadable: %s", r.object, r.id, strings.Join(r.faults, ", ")))
	d.Damaged.MerchantAccountID = r.account()
	return d
}

func (r *stored) account() string {
	if !slices.Contains(r.faults, "ma") {
		return r.fields["ma"]
	}
	return ""
}

func (r *stored) fault(name string) { r.faults = append(r.faults, name) }

// unreadable reports whether a field has a fault.
func (r *stored) unreadable(name string) bool { return slices.Contains(r.faults, name) }

// signed is an integer in its one decimal form.
func (r *stored) signed(name string) int64 {
	n, err := strconv.ParseInt(r.fields[name], 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != r.fields[name] {
		r.fault(name)
		return 0
	}
	return n
}

// int is an integer that is not negative; count is one that is 0 while it is
// not there.
func (r *stored) int(name string) int64 {
	n := r.signed(name)
	if n < 0 {
		r.fault(name)
	}
	return n
}

func (r *stored) count(name string) int64 {
	if r.fields[name] == "" {
		return 0
	}
	return r.int(name)
}

// amount is money of at most 15 digits.
func (r *stored) amount(name string, c tollgate.Currency) tollgate.Money {
	n := r.int(name)
	if n > tollgate.MaxMinor {
		r.fault(name)
	}
	return tollgate.Money{Minor: n, Currency: c}
}

// latest is the end of the year 9999: no moment is written beyond it.
const latest = 253_402_300_799_999

// instant must be there; moment is zero while it is not.
func (r *stored) instant(name string) tollgate.Instant {
	n := r.int(name)
	if n == 0 || n > latest {
		r.fault(name)
	}
	return tollgate.Instant(n)
}

func (r *stored) moment(name string) tollgate.Instant {
	if r.fields[name] == "" || r.fields[name] == "0" {
		return 0
	}
	return r.instant(name)
}

// text must be there.
func (r *stored) text(name string) string {
	if r.fields[name] == "" {
		r.fault(name)
	}
	return r.fields[name]
}

// word is one of those that are known.
func (r *stored) word(name string, known ...string) string {
	if !slices.Contains(known, r.fields[name]) {
		r.fault(name)
	}
	return r.fields[name]
}

func (r *stored) currency(name string) tollgate.Currency {
	c, err := tollgate.ParseCurrency(r.fields[name])
	if err != nil {
		r.fault(name)
	}
	return c
}

// of is an identifier of a kind; ofOne is one that may not be there.
func (r *stored) of(name, prefix string) string {
	if !strings.HasPrefix(r.fields[name], prefix) || !tollgate.ValidID(r.fields[name]) {
		r.fault(name)
	}
	return r.fields[name]
}

func (r *stored) ofOne(name, prefix string) *string {
	if r.fields[name] != "" {
		r.of(name, prefix)
	}
	return r.optional(name)
}

// date is a date in its one form that may not be there.
func (r *stored) date(name string) *string {
	if text := r.fields[name]; text != "" {
		if _, err := tollgate.ParseDate(text); err != nil {
			r.fault(name)
		}
	}
	return r.optional(name)
}

// json reads a field's JSON, which must be there.
func (r *stored) json(name string, into any) {
	if decode(r.fields[name], into) != nil {
		r.fault(name)
	}
}

// damaged makes whatever kept an object from being read its damage, and tells
// of it. nil stays nil, and an error that says something else stays that.
func (s *Store) damaged(ctx context.Context, k space, object, id string, err error) error {
	if err == nil {
		return nil
	}
	d := tollgate.Damage(object, id, err)
	s.tell(ctx, k, d)
	return d
}

// noticed tells of an error that is the damage of an object, and returns it.
func (s *Store) noticed(ctx context.Context, k space, err error) error {
	if e, ok := errors.AsType[*tollgate.Error](err); ok && e.Damaged != nil {
		s.tell(ctx, k, e)
	}
	return err
}

type noteDamageKeys struct {
	Damaged string
	eventKeys
}

type noteDamageArgs struct {
	Object, NowMs string
	eventArgs
}

var scriptNoteDamage = newScript[noteDamageKeys, noteDamageArgs](lua, "note_damage")

// tell says once of each damaged object that it is: an event of its
// organization, which is what makes it once for all processes, a line in the
// log and a count. What cannot be said now is said when the object is read
// again.
func (s *Store) tell(ctx context.Context, k space, e *tollgate.Error) {
	name := e.Damaged.Object + "/" + e.Damaged.ID
	if _, said := s.told.Get(k.org + "/" + name); said {
		return
	}
	event, err := e.Damaged.Event(s.Mint, k.org, s.Now())
	var args eventArgs
	if err == nil {
		args, err = eventArguments(&event)
	}
	if err == nil {
		args.EventAccount = e.Damaged.MerchantAccountID
		_, _, err = s.run(context.WithoutCancel(ctx), scriptNoteDamage.with(
			noteDamageKeys{k.damaged(), k.logs().eventKeys}, noteDamageArgs{name, milli(s.Now()), args}))
	}
	s.log.Error("a stored object cannot be read", "organization", k.org, "object", e.Damaged.Object, "id", e.Damaged.ID, "error", e.Cause)
	if err != nil {
		s.log.Warn("nobody was told of a damaged object", "organization", k.org, "id", e.Damaged.ID, "error", err)
		return
	}
	s.told.Add(k.org+"/"+name, true)
	if s.onDamage != nil {
		s.onDamage(e.Damaged.Object)
	}
}

// IsDamage reports whether an error is that of a stored object that cannot be
// read: it concerns that object and no other.
func IsDamage(err error) bool { return tollgate.DamageOf(err) != nil }

// kinds are the types of objects by the prefix of their identifiers.
var kinds = map[string]string{
	tollgate.PrefixOrganization: "organization", tollgate.PrefixLegalEntity: "legal_entity", tollgate.PrefixMerchantAccount: "merchant_account",
	tollgate.PrefixGrant: "grant", tollgate.PrefixClient: "client", tollgate.PrefixPayment: "payment", tollgate.PrefixCapture: "capture", tollgate.PrefixRefund: "refund",
	tollgate.PrefixTransaction: "transaction", tollgate.PrefixTicket: "ticket", tollgate.PrefixEvent: "event", tollgate.PrefixPerimeter: "perimeter",
	tollgate.PrefixRuleSet: "rule_set", tollgate.PrefixPayout: "payout", tollgate.PrefixRuleSigner: "rule_signer",
	tollgate.PrefixActivation: "activation", tollgate.PrefixShadow: "shadow", tollgate.PrefixWebhook: "webhook_endpoint",
	tollgate.PrefixDelivery: "delivery", tollgate.PrefixExport: "export", tollgate.PrefixRecovery: "recovery", tollgate.PrefixAttempt: "attempt",
}

// damagedAt is damaged for the object that a key belongs to:
// "{p07}:<organization>[:<identifier>[:…]]". A rule's is made of its citation;
// a record of a request and a counter of a limit have none but their key's.
func (s *Store) damagedAt(ctx context.Context, key string, err error) error {
	if err == nil {
		return nil
	}
	part := strings.SplitN(key, ":", 4)
	if len(part) < 2 {
		return fmt.Errorf("%s: %w", key, err)
	}
	id := part[1]
	if len(part) > 2 && strings.Contains(part[2], "_") {
		id = part[2]
	}
	object := "record"
	if prefix, _, ok := strings.Cut(id, "_"); ok && kinds[prefix+"_"] != "" {
		object = kinds[prefix+"_"]
	}
	if len(part) > 3 && part[2] == "use" {
		object, id = "counter", part[3]
	}
	if strings.HasSuffix(key, ":shadowing") {
		object = "shadows"
	}
	if len(part) > 3 && part[2] == "idem" {
		object, id = "idempotency_record", part[3]
	}
	if len(part) > 3 && part[2] == "rule" {
		if cited, err := tollgate.ParseCitation(part[2] + ":" + part[3]); err == nil {
			object, id = "rule", tollgate.RuleID(cited)
		}
	}
	return s.damaged(ctx, s.space(part[1]), object, id, err)
}

// counters reports a hash whose revision or highest version is no number: the
// next one would be made of it.
func counters(f fields) error {
	r := read("", "", f)
	for _, name := range []string{"v", "last"} {
		r.count(name)
	}
	if len(r.faults) > 0 {
		return fmt.Errorf("unreadable: %s", strings.Join(r.faults, ", "))
	}
	return nil
}
