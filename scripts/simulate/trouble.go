package simulate

import (
	"strings"
	"time"
)

// trouble is what goes wrong at the moment. The wire's lock is held by who asks.
type trouble struct {
	redisAhead time.Duration         // of its clock
	error      string                // that Redis answers with
	slow       map[*process]slowness // who is far away
	away       map[*process]bool     // who cannot connect
	lose       map[*process]bool     // who does not get each answer
}

// slowness is the longest time that what is said takes.
type slowness time.Duration

func newTrouble() trouble {
	return trouble{slow: map[*process]slowness{}, away: map[*process]bool{}, lose: map[*process]bool{}}
}

// travel is how long what is said takes in one direction.
func (t *trouble) travel(w *wire, p *process, tie uint64) time.Duration {
	longest := 800 * time.Microsecond
	if s := t.slow[p]; s > 0 {
		longest = time.Duration(s)
	}
	wait := max(0, time.Until(p.thaws()))
	return wait + between(w.chance.of("travel", tie), 50*time.Microsecond, longest)
}

func (t *trouble) refuses(p *process) bool { return t.away[p] }

// late says whether what was sent over a connection that ended meanwhile arrives.
func (t *trouble) late(w *wire, tie uint64) bool { return w.chance.of("late", tie)%2 == 0 }

// loses says whether the answer to a packet that has changed something is lost.
func (t *trouble) loses(w *wire, p *process, tie uint64) bool {
	return t.lose[p] && w.chance.of("lose", tie)%3 == 0
}

// refusal is what Redis answers instead of carrying out a command, or nothing.
func (t *trouble) refusal(_ *wire, _ *process, name string) string {
	switch kind, _, _ := strings.Cut(t.error, " "); {
	case kind == "":
		return ""
	case kind == "LOADING":
		return t.error
	case harmless[name]:
		return ""
	default:
		return t.error
	}
}

// harmless are the commands that Redis carries out while it takes nothing more.
var harmless = map[string]bool{
	"PING": true, "INFO": true, "CONFIG": true, "SCRIPT": true, "GET": true, "MGET": true, "HGET": true, "HMGET": true, "HGETALL": true,
	"ZRANGE": true, "ZSCORE": true, "ZCOUNT": true, "ZCARD": true, "ZRANGEBYSCORE": true, "ZREVRANGEBYSCORE": true, "SMEMBERS": true, "SSCAN": true, "SCAN": true,
	"XRANGE": true, "XREVRANGE": true, "XLEN": true, "TIME": true, "EXISTS": true, "TTL": true, "PTTL": true, "EVAL_RO": true, "EVALSHA_RO": true,
}
