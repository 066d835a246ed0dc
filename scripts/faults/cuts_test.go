package faults

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tollgate/rediskv/redistest"
	"tollgate/scripts/simulate/ledger"
)

// TestCuts: the power goes. Of the append-only file only a part is on the disk, which ends
// anywhere.
func TestCuts(t *testing.T) {
	p := planned(t, "cuts", 400)
	redis := redistest.Started(t, redistest.Real)
	w := newWorld(t, p, newSite(t, redis.URL, 2), 1, 1)
	unwritten(t, redis)
	from := size(t, redis.Files())
	w.load(6)
	// Copies of the file while it grows, for those who come up with what is left of it.
	var copies []string
	for range min(p.count, 8) {
		time.Sleep(1500 * time.Millisecond)
		to := t.TempDir()
		must(t, os.CopyFS(to, os.DirFS(redis.Files())))
		copies = append(copies, to)
	}
	told := 0
	for range max(1, p.count/10) {
		if w.cutUnder(redis, from) {
			told++
		}
	}
	w.rest()
	r := w.remains()
	for n := range p.count {
		r.cut(copies[n%len(copies)], from)
	}
	w.judge()
	t.Logf("cut %d times under living processes, of which %d lost something that was acknowledged and was told; %d starts on what was left, of %d changes on average",
		max(1, p.count/10), told, p.count, r.payments/max(1, p.count))
}

// unwritten has Redis write its file on and on: a cut is of the end of one.
func unwritten(t testing.TB, server *redistest.Server) {
	t.Helper()
	must(t, server.Command("CONFIG", "SET", "auto-aof-rewrite-percentage", "0"))
}

// cutUnder takes the end off the file of a Redis that its processes live through, of all
// that was written since from. They tell of the loss, and go on when somebody has accepted
// it.
func (w *world) cutUnder(redis *redistest.Server, from int64) (told bool) {
	w.t.Helper()
	time.Sleep(time.Duration(500+w.plan.IntN(1500)) * time.Millisecond)
	last := w.lastMade()
	redis.Kill()
	w.forgive()
	now := size(w.t, redis.Files())
	redis.CutFile(1 + w.plan.Int64N(max(1, min(now-from, 200_000))))
	redis.Restart()
	unwritten(w.t, redis)
	for o, a := range last {
		said, known := w.send(o, "GET", "/v1/payments/"+a.ID, "", "")
		if !known || said.status != 404 {
			continue
		}
		told = true
		w.await("the loss of "+a.ID+" is told", func() bool {
			said, err := w.once(o, "http://"+w.serves[0].addr, "POST", "/v1/payments", a.body, "again-"+a.Name)
			if err == nil && said.status < 300 {
				w.fail("%s is lost, and payments of its organization are taken: %d %s", a.ID, said.status, said.text)
				return true
			}
			return err == nil && said.status == 503 && said.at("code") == "history_lost"
		})
	}
	if told {
		if code, stdout, _ := program.Try(w.t, w.env, "history", "show"); !strings.Contains(stdout, "his_") {
			w.fail("tollgate history show: %d %s", code, stdout)
		}
	}
	// Each process finds the loss when it connects, so there can be more to accept later.
	w.await("payments are taken again", func() bool {
		program.Run(w.t, w.env, "history", "accept")
		return len(w.lastMade()) == len(w.orgs)
	})
	return told
}

// lastMade is the last payment of each organization that was acknowledged.
func (w *world) lastMade() map[*org]*ask {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := map[*org]*ask{}
	for o, asks := range w.asks {
		for _, a := range asks {
			if a.Kind == "create" && a.Made() {
				last[o] = a
			}
		}
	}
	return last
}

// await waits for what processes do by themselves.
func (w *world) await(what string, done func() bool) {
	w.t.Helper()
	for until := time.Now().Add(time.Minute); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(until) {
			w.fail("not within a minute: %s", what)
			return
		}
	}
}

// remains is a Redis of its own that starts with what is left.
type remains struct {
	*world
	redis    *redistest.Server
	asked    map[*org][]ledger.Asked
	payments int
}

func (w *world) remains() *remains {
	r := &remains{world: w, redis: redistest.Started(w.t, redistest.Real), asked: map[*org][]ledger.Asked{}}
	for o, asks := range w.asks {
		for _, a := range asks {
			maybe := a.Asked
			maybe.Known = false
			r.asked[o] = append(r.asked[o], maybe)
		}
	}
	return r
}

// cut starts Redis on a copy that ends anywhere, and looks whether what is there is whole.
func (r *remains) cut(files string, from int64) {
	r.t.Helper()
	r.redis.Kill()
	must(r.t, os.RemoveAll(r.redis.Files()))
	must(r.t, os.CopyFS(r.redis.Files(), os.DirFS(files)))
	now := size(r.t, r.redis.Files())
	end := from + r.plan.Int64N(max(1, now-from))
	r.redis.CutFile(now - end)
	r.redis.Restart()
	env := append(append([]string(nil), r.env...), "TOLLGATE_REDIS_URL="+r.redis.URL)
	say := func(format string, args ...any) {
		r.fail("cut at %d of %d bytes: %s", end, now, fmt.Sprintf(format, args...))
	}
	if code, stdout, stderr := program.Try(r.t, env, "check"); code != 0 {
		say("tollgate check: exit code %d\n%s%s", code, stdout, stderr)
	}
	serve := newPlace(r.t, "serve", env)
	defer serve.kill()
	for _, o := range r.orgs {
		reading := &org{id: o.id, client: o.client} // with a token of its own
		l, err := ledger.Read(func(path string) ([]byte, error) {
			said, err := r.once(reading, "http://"+serve.addr, "GET", path, "", "")
			if err == nil && said.status != 200 {
				err = fmt.Errorf("%d %s", said.status, said.text)
			}
			return []byte(said.text), err
		}, o.perimeter)
		if err != nil {
			say("%v", err)
			continue
		}
		l.HoldPayments(r.asked[o], say)
		l.HoldChanges(r.asked[o], say)
		l.HoldEvents(say)
		l.HoldBudget(o.accounts[0], budget, say)
		r.payments += len(l.Transactions)
	}
}

// size is that of the increment of an append-only file.
func size(t *testing.T, files string) int64 {
	t.Helper()
	found, err := fs.Glob(os.DirFS(files), "*.incr.aof")
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("%d increments in %s", len(found), files)
	}
	info, err := os.Stat(filepath.Join(files, found[0]))
	must(t, err)
	return info.Size()
}
