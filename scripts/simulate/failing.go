package simulate

import (
	"slices"
	"strings"
	"time"

	"tollgate/scripts/simulate/story"
)

// crash has Redis go on with a beginning of what it has done: all that anybody may know
// of, and some of what nobody does. With back it goes back further.
func (w *wire) crash(f story.Fault) {
	count := len(w.redis.effects)
	if unknown := count - w.known; unknown > 0 {
		count -= int(w.chance.Of("crash", uint64(f.At)) % uint64(unknown+1))
	}
	if f.Back > 0 {
		count = min(count, max(w.safe, w.known-f.Back))
	}
	w.tell("redis crashes after %d changes and has %d of them", len(w.redis.effects), count)
	w.goBack(count)
}

// goBack has another Redis take the place of this one, with so many of its changes.
func (w *wire) goBack(count int) {
	w.cutAll(nil)
	before, known := w.redis, w.known
	w.redis = before.prefix(count)
	w.known = min(w.known, count)
	if tellers := w.unaware(count); known > count {
		w.back(before.effects[count].at.Add(-w.trouble.redisAhead), tellers)
	}
	w.trouble.redisAhead = 0 // it is another machine
	if w.lost != nil {
		w.lost.close()
	}
	w.lost = before // a process with a bug may be told what it had
}

// unaware are the processes that know of an event behind so many changes, which is lost.
func (w *wire) unaware(count int) (tellers []*process) {
	for p, n := range w.knows {
		if n > count && !p.ended {
			tellers = append(tellers, p)
		}
		w.knows[p] = min(n, count)
	}
	slices.SortFunc(tellers, func(a, b *process) int { return strings.Compare(a.name, b.name) })
	return tellers
}

// empty has Redis lose all it has, with its connections if it starts again, else with
// FLUSHALL. It reports false where it has nothing.
func (w *wire) empty(f story.Fault) bool {
	if w.copy.emptied || w.safe == 0 {
		return false
	}
	w.copy = backup{emptied: true, at: time.Now(), safe: w.safe, changes: max(w.safe, len(w.redis.effects)-f.Back)}
	w.tell("redis is emptied after %d changes", len(w.redis.effects))
	if f.Text == "restart" {
		w.cutAll(nil)
		w.redis.forget()
	}
	w.back(w.redis.effects[0].at.Add(-w.trouble.redisAhead), w.unaware(0))
	w.redis.run(newSession(), []string{"FLUSHALL"})
	w.safe = len(w.redis.effects)
	w.known = w.safe
	return true
}

// backup is a copy of what Redis had before it was emptied.
type backup struct {
	emptied bool
	at      time.Time
	safe    int // of before
	changes int
}

// restore puts the copy back.
func (w *wire) restore() {
	w.tell("an operator puts a copy back that has the first %d changes", w.copy.changes)
	w.safe = w.copy.safe
	w.goBack(w.copy.changes)
	w.copy = backup{}
}

// emptied says whether Redis is empty, and since when.
func (w *wire) emptied() (since time.Time, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.copy.at, w.copy.emptied
}
