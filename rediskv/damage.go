package rediskv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tollgate"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

// Stored reads the fields of one stored object, strictly: what is missing, is
// not written as this service writes it, or cannot be, makes the object a
// damaged one. Nothing is read as zero because it cannot be read.
type Stored struct {
	Fields
	object, id string
	Faults     []string // names of fields that cannot be read
}

// ReadHash begins to read an object from the fields of its hash.
func ReadHash(object, id string, f Fields) *Stored {
	r := &Stored{Fields: f, object: object, id: id}
	if record.Check(f[EnvelopeField]) != nil {
		r.Fault(EnvelopeField)
	}
	return r
}

// Err is nil, or the damage of the object.
func (r *Stored) Err() error {
	if len(r.Faults) == 0 {
		return nil
	}
	d := tollgate.Damage(r.object, r.id, fmt.Errorf("%s %s: unreadable: %s", r.object, r.id, strings.Join(r.Faults, ", ")))
	d.Damaged.MerchantAccountID = r.account()
	return d
}

func (r *Stored) account() string {
	if ma := r.Fields["ma"]; !slices.Contains(r.Faults, "ma") && strings.HasPrefix(ma, tollgate.PrefixMerchantAccount) && tollgate.ValidID(ma) {
		return ma
	}
	return ""
}

// Fault notes a field that cannot be what was written.
func (r *Stored) Fault(name string) { r.Faults = append(r.Faults, name) }

// Unreadable reports whether a field has a fault. With another checksum it may be any.
func (r *Stored) Unreadable(name string) bool {
	return slices.Contains(r.Faults, name) || slices.Contains(r.Faults, EnvelopeField)
}

// Signed is an integer in its one decimal form.
func (r *Stored) Signed(name string) int64 {
	n, err := strconv.ParseInt(r.Fields[name], 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != r.Fields[name] {
		r.Fault(name)
		return 0
	}
	return n
}

// Int is an integer that is not negative; count is one that is 0 while it is
// not there.
func (r *Stored) Int(name string) int64 {
	n := r.Signed(name)
	if n < 0 {
		r.Fault(name)
	}
	return n
}

// Count reads a number that is not negative.
func (r *Stored) Count(name string) int64 {
	if r.Fields[name] == "" {
		return 0
	}
	return r.Int(name)
}

// Amount is money of at most 15 digits.
func (r *Stored) Amount(name string, c tollgate.Currency) tollgate.Money {
	n := r.Int(name)
	if n > tollgate.MaxMinor {
		r.Fault(name)
	}
	return tollgate.Money{Minor: n, Currency: c}
}

// latest is the end of the year 9999: no moment is written beyond it.
const latest = 253_402_300_799_999

// Instant must be there; moment is zero while it is not.
func (r *Stored) Instant(name string) tollgate.Instant {
	n := r.Int(name)
	if n == 0 || n > latest {
		r.Fault(name)
	}
	return tollgate.Instant(n)
}

// Moment reads an instant, in milliseconds.
func (r *Stored) Moment(name string) tollgate.Instant {
	if r.Fields[name] == "" || r.Fields[name] == "0" {
		return 0
	}
	return r.Instant(name)
}

// Text must be there.
func (r *Stored) Text(name string) string {
	if r.Fields[name] == "" {
		r.Fault(name)
	}
	return r.Fields[name]
}

// Word is one of those that are known.
func (r *Stored) Word(name string, known ...string) string {
	if !slices.Contains(known, r.Fields[name]) {
		r.Fault(name)
	}
	return r.Fields[name]
}

// Currency reads a currency by its code.
func (r *Stored) Currency(name string) tollgate.Currency {
	c, err := tollgate.ParseCurrency(r.Fields[name])
	if err != nil {
		r.Fault(name)
	}
	return c
}

// Of is an identifier of a kind.
func (r *Stored) Of(name, prefix string) string {
	if !strings.HasPrefix(r.Fields[name], prefix) || !tollgate.ValidID(r.Fields[name]) {
		r.Fault(name)
	}
	return r.Fields[name]
}

// JSON reads a field's JSON, which must be there.
func (r *Stored) JSON(name string, into any) {
	if Decode(r.Fields[name], into) != nil {
		r.Fault(name)
	}
}

// Damaged makes whatever kept an object from being read its damage, and tells
// of it. nil stays nil, and an error that says something else stays that.
func (s *DB) Damaged(ctx context.Context, k Space, object, id string, err error) error {
	if err == nil {
		return nil
	}
	d := tollgate.Damage(object, id, err)
	s.tell(ctx, k, d)
	return d
}

// Noticed tells of an error that is the damage of an object, and returns it.
func (s *DB) Noticed(ctx context.Context, k Space, err error) error {
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
	EventArgs
}

var scriptNoteDamage = script.New[noteDamageKeys, noteDamageArgs](lua, "note_damage")

// tell says once of each damaged object that it is: an event of its
// organization, which is what makes it once for all processes, a line in the
// log and a count. What cannot be said now is said when the object is read
// again.
func (s *DB) tell(ctx context.Context, k Space, e *tollgate.Error) {
	name := e.Damaged.Object + "/" + e.Damaged.ID
	if _, said := s.told.Get(k.Org + "/" + name); said {
		return
	}
	err := s.Announce(context.WithoutCancel(ctx), k, e.Damaged)
	s.Log.Error("a stored object cannot be read", "organization", k.Org, "object", e.Damaged.Object, "id", e.Damaged.ID, "error", e.Cause)
	if err != nil {
		s.Log.Warn("nobody was told of a damaged object", "organization", k.Org, "id", e.Damaged.ID, "error", err)
		return
	}
	s.told.Add(k.Org+"/"+name, true)
	if s.onDamage != nil {
		s.onDamage(e.Damaged.Object)
	}
}

// Announce tells an organization by an event that an object is not to be trusted:
// once, however often it is found, by whomever.
func (s *DB) Announce(ctx context.Context, k Space, d *tollgate.DamagedObject) error {
	event, err := d.Event(s.NewID, k.Org, s.Now())
	if err != nil {
		return err
	}
	args, err := EventArguments(k, &event)
	if err != nil {
		return err
	}
	args.EventAccount = d.MerchantAccountID
	inv := scriptNoteDamage.With(
		noteDamageKeys{k.Damaged(), k.Logs().eventKeys}, noteDamageArgs{d.Object + "/" + d.ID, Milli(s.Now()), args})
	outcome, rest, err := s.Run(ctx, inv)
	s.Revised(Caller{Organization: k.Org}, inv, outcome, rest)
	return err
}

// IsDamage reports whether an error is that of a stored object that cannot be
// read: it concerns that object and no other.
func IsDamage(err error) bool { return tollgate.DamageOf(err) != nil }

// DamagedAt is damaged for the object that a key belongs to:
// "{p07}:<organization>[:<identifier>[:…]]". A rule's is made of its citation;
// a record of a request and a counter of a limit have none but their key's.
func (s *DB) DamagedAt(ctx context.Context, key string, err error) error {
	if err == nil {
		return nil
	}
	org, object, id, ok := record.ObjectAt(key)
	if !ok {
		return fmt.Errorf("%s: %w", key, err)
	}
	return s.Damaged(ctx, s.Space(org), object, id, err)
}

// Counters reports a hash whose revision or highest version is no number: the
// next one would be made of it.
func Counters(f Fields) error {
	r := ReadHash("", "", f)
	for _, name := range []string{"v", "last"} {
		r.Count(name)
	}
	if len(r.Faults) > 0 {
		return fmt.Errorf("unreadable: %s", strings.Join(r.Faults, ", "))
	}
	return nil
}
