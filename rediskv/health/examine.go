package health

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
)

// CheckWrites is whether Redis takes a write.
const CheckWrites = "writes"

// Left is what processes have left in a Redis, which others have to agree with.
type Left struct {
	Seal    string // made with their secret key; empty: none has run
	Keyring string // the text of the keyring
}

// Examine looks at a Redis that no process of ours need be able to use: all that Judge
// says, whether it takes a write, and whose clock is wrong.
func Examine(ctx context.Context, o rediskv.Options) (found []Finding, left Left, err error) {
	db, err := rediskv.Bare(ctx, o)
	if err != nil {
		return nil, left, err
	}
	defer db.Close()
	s := New(db)
	servers, err := s.Servers(ctx)
	if err != nil {
		return nil, left, err
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
	_, left.Seal = db.Recorded()
	if left.Keyring, err = db.Redis.Get(ctx, rediskv.KeyringKey).Result(); errors.Is(err, redis.Nil) {
		err = nil
	}
	return found, left, err
}
