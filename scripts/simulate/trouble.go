package simulate

import (
	"strings"
	"time"

	"tollgate/scripts/simulate/draw"
)

// trouble is what goes wrong at the moment. The wire's lock is held by who asks.
type trouble struct {
	redisAhead time.Duration         // of its clock
	error      string                // that Redis answers with
	slow       map[*process]slowness // who is far away
	away       map[*process]bool     // who cannot connect
	lose       map[*process]bool     // who does not get each answer
	double     map[*process]bool     // whose requests come twice
}

// slowness is the longest time that what is said takes.
type slowness time.Duration

func newTrouble() trouble {
	return trouble{slow: map[*process]slowness{}, away: map[*process]bool{}, lose: map[*process]bool{}, double: map[*process]bool{}}
}

// travel is how long what is said takes in one direction.
func (t *trouble) travel(w *wire, p *process, tie uint64) time.Duration {
	longest := 800 * time.Microsecond
	if s := t.slow[p]; s > 0 {
		longest = time.Duration(s)
	}
	wait := max(0, time.Until(p.thaws()))
	return wait + draw.Between(w.chance.Of("travel", tie), 50*time.Microsecond, longest)
}

func (t *trouble) refuses(p *process) bool { return t.away[p] }

// late says whether what was sent over a connection that ended meanwhile arrives.
func (t *trouble) late(w *wire, tie uint64) bool { return w.chance.Of("late", tie)%2 == 0 }

// loses says whether the answer to a packet that has changed something is lost.
func (t *trouble) loses(w *wire, p *process, tie uint64) bool {
	return t.lose[p] && w.chance.Of("lose", tie)%3 == 0
}

// doubles says whether a packet that has changed something is carried out twice: at once,
// or some time later. A proxy may do that, and a client that sends again what was only
// slow.
func (t *trouble) doubles(w *wire, p *process, tie uint64) (twice bool, later time.Duration) {
	n := w.chance.Of("double", tie)
	if !t.double[p] || n%3 != 0 {
		return false, 0
	}
	if n>>8%2 == 0 {
		return true, 0
	}
	return true, draw.Between(n>>16, time.Millisecond, patience)
}

// refusal is what Redis answers instead of carrying out a command, or nothing.
func (t *trouble) refusal(_ *wire, _ *process, name string) string {
	switch kind, _, _ := strings.Cut(t.error, " "); {
	case kind == "":
		return ""
	case kind == "LOADING":
		return t.error
	case kind == "MOVED" && !keyless[name]:
		return t.error
	case harmless[name]:
		return ""
	default:
		return t.error
	}
}

// keyless are the commands that a node of a cluster carries out whoever has the slots.
var keyless = map[string]bool{"PING": true, "INFO": true, "CONFIG": true, "SCRIPT": true, "TIME": true, "SCAN": true, "PUBLISH": true}

// harmless are the commands that Redis carries out while it takes nothing more.
var harmless = map[string]bool{
	"PING": true, "INFO": true, "CONFIG": true, "SCRIPT": true, "GET": true, "MGET": true, "HGET": true, "HMGET": true, "HGETALL": true,
	"ZRANGE": true, "ZSCORE": true, "ZCOUNT": true, "ZCARD": true, "ZRANGEBYSCORE": true, "ZREVRANGEBYSCORE": true, "SMEMBERS": true, "SSCAN": true, "SCAN": true,
	"XRANGE": true, "XREVRANGE": true, "XLEN": true, "TIME": true, "EXISTS": true, "TTL": true, "PTTL": true, "EVAL_RO": true, "EVALSHA_RO": true,
}
