package health

import (
	"context"

	"tollgate/rediskv"
)

// CheckWrites is whether Redis takes a write.
const CheckWrites = "writes"

// Examine looks at a Redis that no process of ours need be able to use: all that Judge
// says, whether it takes a write, and whose clock is wrong. seal is what the first
// process has left there.
func Examine(ctx context.Context, o rediskv.Options) (found []Finding, seal string, err error) {
	db, err := rediskv.Bare(ctx, o)
	if err != nil {
		return nil, "", err
	}
	defer db.Close()
	s := New(db)
	servers, err := s.Servers(ctx)
	if err != nil {
		return nil, "", err
	}
	found = Judge(servers, o.WaitReplicas)
	f := Finding{Check: CheckWrites, Level: Fine, Message: "redis takes writes"}
	if write := s.Beat(ctx); write != Written {
		f.Level, f.Message, f.Advice = Failure, "redis takes no writes ("+string(write)+")", "look at what redis says"
		if _, said := s.Writes(); said != nil {
			f.Message += ": " + said.Error()
		}
	}
	found = append(found, f)
	for _, f := range s.Findings() {
		if f.Check == CheckClock {
			found = append(found, f)
		}
	}
	_, seal = db.Recorded()
	return found, seal, nil
}
