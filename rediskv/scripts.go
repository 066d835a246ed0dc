package rediskv

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv/gcra"
	"tollgate/rediskv/history"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

//go:embed lua/*.lua
var lua embed.FS

// loadScripts makes the first EVALSHA of each script succeed, on every master of a
// cluster. To a single server it returns what is to be sent in front of the next
// commands: it has said which scripts it has, as a rule all. They are some 300 KB, and
// on their way for long; between two of them Redis answers others.
func (s *DB) loadScripts(ctx context.Context, there []bool) (first func(redis.Pipeliner), err error) {
	for _, one := range script.All() {
		if one.Fault != nil {
			return nil, one.Fault
		}
	}
	if cluster, ok := s.Redis.(*redis.ClusterClient); ok {
		return nil, cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error { return loadInto(ctx, s, master, nil) })
	}
	return func(pipe redis.Pipeliner) { queueScripts(ctx, pipe, there) }, nil
}

func loadInto(ctx context.Context, s *DB, c redis.Cmdable, there []bool) error {
	return s.Timed(ctx, "load_scripts", func(ctx context.Context) error {
		pipe := c.Pipeline()
		queueScripts(ctx, pipe, there)
		if pipe.Len() == 0 {
			return nil
		}
		_, err := pipe.Exec(ctx)
		return err
	})
}

func queueScripts(ctx context.Context, pipe redis.Pipeliner, there []bool) {
	for i, one := range script.All() {
		if i >= len(there) || !there[i] {
			pipe.ScriptLoad(ctx, one.Source) // one.Load would take the hash of an answer that has not come
		}
	}
}

// Outcomes that concern the Store's callers, not clients.
var (
	// ErrStale: the configuration that was used is not the current one.
	ErrStale = errors.New("configuration has changed")
	// ErrConflict: the object has changed since it was read.
	ErrConflict = errors.New("object has changed")
	// ErrReplayed: the assertion has been used before.
	ErrReplayed = errors.New("assertion has been used before")
)

// Run carries out a script and turns the outcomes that every caller treats
// alike into errors.
func (s *DB) Run(ctx context.Context, inv *script.Invocation) (outcome string, rest []any, err error) {
	if s.IsView() && !inv.Reads {
		s = s.primary
	}
	return s.RunOn(ctx, s.Redis, inv)
}

// RunAnew is Run for a script that is made of nothing that was read before: where another
// history has begun meanwhile, it is carried out in that.
func (s *DB) RunAnew(ctx context.Context, inv *script.Invocation) (outcome string, rest []any, err error) {
	for range 3 {
		if outcome, rest, err = s.Run(ctx, inv); !errors.Is(err, ErrStale) {
			break
		}
	}
	return outcome, rest, err
}

// RunOn is run on a client of the caller's choice.
func (s *DB) RunOn(ctx context.Context, client redis.Scripter, inv *script.Invocation) (outcome string, rest []any, err error) {
	s.Histories.Guard(ctx, inv)
	var again *script.Invocation
	err = s.Timed(ctx, inv.Name, func(ctx context.Context) error {
		reply, err := s.reply(ctx, client, inv)
		if err != nil {
			return err
		}
		outcome, _ = reply[0].(string)
		rest = reply[1:]
		if inv.RateLimit > 0 {
			rest = counted(inv, rest)
		}
		if damage := rememberedWrong(inv, outcome, rest); damage != nil {
			outcome, rest = "damaged", []any{inv.Keys[inv.Place(recordKey)]}
			return nil
		}
		if outcome == "outdated" {
			again = forgetting(inv, rest)
			return nil
		}
		switch outcome {
		case "grant":
			return grantChanged()
		case "limited":
			return &tollgate.Error{Code: tollgate.CodeRateLimited, Message: "These are more requests than the client's rate limit allows. Send the next one after Retry-After."}
		case "missing":
			return tollgate.NotFound()
		case "reused":
			return &tollgate.Error{Code: tollgate.CodeIdempotencyKeyReused, Param: "Idempotency-Key", Message: "This Idempotency-Key was used with another request."}
		case "stale":
			return ErrStale
		case "conflict":
			return ErrConflict
		case "replayed":
			return ErrReplayed
		case "toomuch":
			return &tollgate.Error{Code: tollgate.CodeAmountInvalid, Param: "amount", Message: "The account's captures of one payout date would add up to more than can be paid."}
		}
		return nil
	})
	if err == nil && again != nil {
		return s.RunOn(ctx, client, again)
	}
	if err == nil && outcome == history.Outcome {
		err = s.OtherHistory(ctx, inv)
	}
	if err == nil && outcome == "damaged" {
		key, _ := rest[0].(string)
		err = s.DamagedAt(ctx, key, fmt.Errorf("redis %s: %s has another form", inv.Name, key))
	}
	return outcome, rest, err
}

// counted takes off what a script says of the limit that it has counted the request in.
func counted(inv *script.Invocation, rest []any) []any {
	last := len(rest) - 1
	text, _ := rest[last].(string)
	inv.Args[inv.RateLimit].(gcra.Argument).Answered(text)
	return rest[:last]
}

// reply is what Redis says to a script.
func (s *DB) reply(ctx context.Context, client redis.Scripter, inv *script.Invocation) ([]any, error) {
	switch {
	case s.IsView(): // EVALSHA_RO
		return inv.RunRO(ctx, client, inv.Keys, inv.Args...).Slice()
	case s.waits(inv):
		return s.runWaiting(ctx, inv)
	}
	return inv.Script.Run(ctx, client, inv.Keys, inv.Args...).Slice()
}

// recordKey is the place of RequestKeys.Record among the named keys of every script
// that has them, and fingerprintArg that of RequestArgs.Fingerprint among its arguments.
const (
	recordKey      = 2
	fingerprintArg = 3
)

// rememberedWrong reports that the record of a request, by which a script has refused
// it, answers it again or forgets it, is not what was written.
func rememberedWrong(inv *script.Invocation, outcome string, rest []any) error {
	if outcome != "repeated" && outcome != "reused" && outcome != "outdated" || len(rest) == 0 {
		return nil
	}
	text, _ := rest[0].(string)
	return record.CheckRequest(inv.Keys[inv.Place(recordKey)], text)
}

// forgetting is the script that may forget a record, and no other one: that is the
// first of rest, and it is what was written.
func forgetting(inv *script.Invocation, rest []any) *script.Invocation {
	text, _ := rest[0].(string)
	envelope, _, _ := strings.Cut(text, "/")
	again := &script.Invocation{Named: inv.Named, Keys: inv.Keys, Args: slices.Clone(inv.Args)}
	at := inv.Place(fingerprintArg)
	again.Args[at] = fmt.Sprint(inv.Args[at]) + " " + envelope
	return again
}

func grantChanged() error {
	return &tollgate.Error{Code: tollgate.CodeTokenInvalid, Message: "The access token's grant has been changed or revoked."}
}

// Milli is a moment in Unix milliseconds; empty for none.
func Milli(i tollgate.Instant) string {
	if i == 0 {
		return ""
	}
	return strconv.FormatInt(int64(i), 10)
}
