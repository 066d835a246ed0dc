package health

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
	"tollgate/rediskv/peer"
	"tollgate/rediskv/script"
)

// Write is what became of a heartbeat: whether Redis takes writes now.
type Write string

// What can become of one. The worst of all masters counts.
const (
	Written        Write = "ok"
	Unreachable    Write = "unreachable"      // no answer, or the last heartbeat is too old
	ReadOnly       Write = "read_only"        // the server is a replica
	OutOfMemory    Write = "out_of_memory"    // maxmemory is used up
	TooFewReplicas Write = "too_few_replicas" // than min-replicas-to-write, or than TOLLGATE_REDIS_WAIT_REPLICAS
	RefusesWrites  Write = "refuses_writes"   // as when its disk is full
	Loading        Write = "loading"          // it reads its file after a start
	NotAdmitted    Write = "access_refused"   // of the user or the password
)

const (
	// beatEvery is how often a heartbeat is written.
	beatEvery = time.Second
	// beatStale is after how long the last one says nothing any more.
	beatStale = 3 * time.Second
	// beatLifetime is after how long without instances nothing is left of it.
	beatLifetime = time.Hour
)

// pulse is the last heartbeat.
type pulse struct {
	at    time.Time // zero: none yet
	write Write
	err   error // what Redis said, where it took none
}

// replies are the beginnings of what a server says instead of writing.
var replies = []struct {
	prefix string
	write  Write
}{
	{"OOM", OutOfMemory},
	{"READONLY", ReadOnly},
	{"MISCONF", RefusesWrites},
	{"NOREPLICAS", TooFewReplicas},
	{"LOADING", Loading},
	{"NOAUTH", NotAdmitted},
	{"WRONGPASS", NotAdmitted},
	{"NOPERM", NotAdmitted},
	{"MASTERDOWN", Unreachable},
	{"CLUSTERDOWN", Unreachable},
}

// writeOf is what an error of a heartbeat means.
func writeOf(err error) Write {
	reply, isReply := peer.ReplyOf(err)
	switch {
	case err == nil:
		return Written
	case errors.Is(err, rediskv.ErrTooFewReplicas):
		return TooFewReplicas
	case !isReply:
		return Unreachable
	}
	for _, r := range replies {
		if strings.HasPrefix(reply, r.prefix) {
			return r.write
		}
	}
	return RefusesWrites
}

type (
	heartbeatKeys struct{ Heartbeat string }
	heartbeatArgs struct{ Lifetime int64 }
)

var scriptHeartbeat = script.NewOpen[heartbeatKeys, heartbeatArgs](lua, "heartbeat")

// master is one that this process uses, and the key of its heartbeat.
type master struct {
	key    string
	client redis.Cmdable
}

// masters are all that have a partition.
func (s *Store) masters(ctx context.Context) ([]master, error) {
	if !s.db.Clustered() {
		return []master{{rediskv.HeartbeatKey, s.db.Redis}}, nil
	}
	var all []master
	seen := map[string]bool{}
	for p := range s.db.Partitions() {
		key := rediskv.BeatKey(p)
		address, node, err := s.db.Master(ctx, key)
		if err != nil {
			return nil, err
		}
		if !seen[address] {
			seen[address] = true
			all = append(all, master{key, node})
		}
	}
	return all, nil
}

// Beat writes a heartbeat on every master, and reads their clocks.
func (s *Store) Beat(ctx context.Context) Write {
	if s.db.IsOffline() {
		return Unreachable
	}
	all, err := s.masters(ctx)
	beats := make([]beat, len(all))
	var waiting []func(*error)
	for i, m := range all {
		waiting = append(waiting, rediskv.Beside(func() error {
			beats[i] = s.beat(ctx, m)
			return nil
		}))
	}
	for _, done := range waiting {
		done(&err)
	}
	now := pulse{at: s.now(), write: writeOf(err), err: err}
	var worst *reading
	for _, b := range beats {
		if b.err != nil && now.err == nil {
			now.write, now.err = writeOf(b.err), b.err
		}
		if b.clock != nil && (worst == nil || b.clock.off() > worst.off()) {
			worst = b.clock
		}
	}
	s.note(ctx, now, worst)
	return now.write
}

// LookForLoss compares what every master has with what it acknowledged, where it has been a
// replica since that was done last. What cannot be said now can be with the next heartbeat.
func (s *Store) LookForLoss(ctx context.Context) {
	all, _ := s.masters(ctx)
	for _, m := range all {
		_ = s.db.Timed(ctx, "look_for_loss", func(ctx context.Context) error { return s.db.Histories.Look(ctx, m.client) })
	}
}

// note keeps what a heartbeat has shown, and says what has changed.
func (s *Store) note(ctx context.Context, now pulse, clock *reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.last
	if ctx.Err() != nil { // it was broken off
		return
	}
	s.last = now
	if clock != nil {
		s.clock = *clock
		s.judgeClock()
	}
	switch {
	case now.write == was.write, now.write == Written && was.at.IsZero():
	case now.write == Written:
		s.db.Log.Info("redis takes writes again")
	default:
		s.db.Log.Error("redis takes no writes", "heartbeat", now.write, "error", now.err)
	}
}

// beat is what one master said.
type beat struct {
	err   error
	clock *reading // nil: it did not say
}

// beat writes the heartbeat of a master. One that takes none says what time it is all
// the same.
func (s *Store) beat(ctx context.Context, m master) (b beat) {
	asked := s.now()
	_, rest, err := s.db.Run(ctx, scriptHeartbeat.With(heartbeatKeys{m.key}, heartbeatArgs{beatLifetime.Milliseconds()}))
	b.err = err
	var theirs time.Time
	if err == nil {
		theirs, b.err = timeOf(rest)
		err = b.err
	} else if peer.IsReply(err) || errors.Is(err, rediskv.ErrTooFewReplicas) {
		asked = s.now()
		err = s.db.Timed(ctx, "time", func(ctx context.Context) (err error) {
			theirs, err = m.client.Time(ctx).Result()
			return err
		})
	}
	if err == nil && s.db.Wall != nil {
		b.clock = &reading{}
		*b.clock = read(asked, s.now(), theirs)
	}
	return b
}

// timeOf reads the answer to TIME in a script.
func timeOf(rest []any) (time.Time, error) {
	if len(rest) == 2 {
		seconds, _ := rest[0].(string)
		micros, _ := rest[1].(string)
		s, err := strconv.ParseInt(seconds, 10, 64)
		us, err2 := strconv.ParseInt(micros, 10, 64)
		if err == nil && err2 == nil {
			return time.Unix(s, us*1000), nil
		}
	}
	return time.Time{}, fmt.Errorf("redis heartbeat: TIME is %q", rest)
}

// now is the machine's clock, or the only one there is.
func (s *Store) now() time.Time {
	if s.db.Wall != nil {
		return s.db.Wall()
	}
	return s.db.Clock()
}

// Writes says whether Redis takes writes, as the last heartbeat has shown, and what it
// said where it does not.
func (s *Store) Writes() (Write, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.last.at.IsZero():
		return Unreachable, nil
	case s.now().Sub(s.last.at) > beatStale:
		return Unreachable, fmt.Errorf("the last heartbeat is of %s", s.last.at.UTC().Format(time.RFC3339))
	}
	return s.last.write, s.last.err
}
