package checks

import (
	"context"
	"errors"

	"tollgate/rediskv"
)

// ErrNotDerivable says that nobody can tell from what is stored what would be right.
var ErrNotDerivable = errors.New("what is right cannot be derived from what is stored")

// Repair commits what a finding's Repair says, with an entry in the audit record.
// rediskv.ErrConflict says that something has changed since it was read, and nothing
// was written: the next check says what is then so.
func (s *Store) Repair(ctx context.Context, f Finding) error {
	if f.fix == nil {
		return ErrNotDerivable
	}
	c := s.db.NewCommit(rediskv.Caller{Organization: f.Organization}, nil)
	f.fix(c)
	c.Do("HDEL", c.Space.Damaged(), f.Object+"/"+f.ID)                     // what is wrong with it next is told again
	c.Do("HSET", c.Space.Damaged(), "repaired", rediskv.Milli(s.db.Now())) // the log still names what was told
	if err := c.Audit("check.repair", string(f.Kind)+": "+f.Message+"; "+f.Repair, f.Object, f.ID); err != nil {
		return err
	}
	_, err := c.Run(ctx)
	return err
}
