package rediskv

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"tollgate"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

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
	args, err := EventArguments(k, Caller{}, &event)
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
	r := record.ReadHash("", "", f)
	for _, name := range []string{"v", "last"} {
		r.Count(name)
	}
	if len(r.Faults) > 0 {
		return fmt.Errorf("unreadable: %s", strings.Join(r.Faults, ", "))
	}
	return nil
}
