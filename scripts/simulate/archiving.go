package simulate

import (
	"os"
	"slices"
	"strings"
	"time"

	"tollgate/rediskv/archive"
	"tollgate/rediskv/archive/logs"
	"tollgate/rediskv/packs/shelf"
	"tollgate/rediskv/store"
	"tollgate/scripts/simulate/draw"
	"tollgate/scripts/simulate/ledger"
	"tollgate/scripts/simulate/story"
)

// archiveAfter is how long payments have been finished that are moved to the archive.
const archiveAfter = 40 * 24 * time.Hour

// prepareArchive makes the directory that all processes share.
func (x *world) prepareArchive() (err error) {
	if x.archive, err = os.MkdirTemp("", "story-*"); err == nil {
		x.shelves = make([]shelf.Shelf, 1)
		x.shelves[0], err = shelf.Open("file://" + x.archive)
	}
	return err
}

// archiveOf is the archive as a process has it.
func (p *process) archiveOf(s *store.Store) *archive.Store {
	a := archive.New(s.DB, archive.Options{Shelves: p.world.shelves, Scratch: p.world.archive})
	s.UseArchive(a)
	s.UseLogs(logs.New(s.DB, logs.Options{Shelves: p.world.shelves, Scratch: p.world.archive}))
	return a
}

// monthsLater has everybody sleep until what is finished is moved to the archive, while
// things go wrong with those who do that, and holds what is said then to what was said before.
func (x *world) monthsLater(before *ledger.Ledger) {
	x.wire.leap(archiveAfter + 20*24*time.Hour)
	for i := range uint64(3) {
		n := x.wire.chance.Of("archiving", i)
		x.wire.at(time.Now().Add(draw.Between(n>>16, 0, 30*time.Second)), i, func() {
			x.befall(story.Fault{Kind: []string{"kill", "lose", "double", "cut"}[n%4], Who: story.Places[2+n>>8%2], For: draw.Between(n>>16, time.Second, 20*time.Second)})
		})
	}
	pause(x.ctx, 2*time.Minute)
	after, err := x.read(&client{world: x, name: "archivist"})
	if err != nil {
		x.judge.wrong("months later: %v", err)
		return
	}
	after.HoldSame(before, x.judge.wrong)
	x.judgeAudit()
	x.wire.mu.Lock()
	defer x.wire.mu.Unlock()
	keys := x.wire.redis.mini.Keys()
	for _, p := range after.Payments {
		if (p.Status == "canceled" || p.Status == "expired" || p.Status == "declined") && slices.ContainsFunc(keys, func(key string) bool { return strings.HasSuffix(key, ":"+p.ID) }) {
			x.judge.wrong("payment %s has been %s for months, and is not in the archive", p.ID, p.Status)
		}
	}
}
