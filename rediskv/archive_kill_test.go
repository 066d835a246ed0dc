package rediskv_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

const (
	archivistVariable = "TOLLGATE_TEST_CHILD" // "<URL> <shelf> <partition> <Unix milliseconds>"
	killsVariable     = "TOLLGATE_TEST_FAULTS_COUNT"
	killsUsual        = 12
	killedAfter       = 40 * 24 * time.Hour // a thousand kills are to be over before the clock's time is
)

// A worker that archives is killed at any moment, again and again, or Redis is, and the
// worker once that is back. Nothing is lost and nothing is double: what is not done the next
// one does.
func TestArchiveKilled(t *testing.T) {
	server := redistest.Single(t)
	f := newFixtureAt(t, server.URL)
	a := f.archived(t, archive.Options{})
	kills := killsUsual
	if text := os.Getenv(killsVariable); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(18, 8))
	p := f.Partition(f.Caller.Organization)
	var ids []string
	before := map[string]string{}
	within, redisKilled := map[string]int{}, 0
	for range kills {
		var fresh []string
		for range 1 + random.IntN(40) {
			payment := f.Pay(t, eur(int64(100+random.IntN(10_000))), tollgate.CaptureManual)
			fresh = append(fresh, payment.ID)
			must(t, f.Move(t.Context(), payment.ID, tollgate.TriggerCancel))
			f.Clock.Advance(time.Second)
		}
		ids = append(ids, fresh...)
		for _, id := range fresh {
			before[id] = f.text(t, id)
		}
		f.days(45)
		var ends []func()
		if random.IntN(3) == 0 {
			ends = append(ends, func() {
				server.Kill()
				server.Restart()
			})
			redisKilled++
		}
		within[killArchivist(t, server.URL, a.at, p, f.Clock, random, ends...)]++
	}
	t.Logf("killed behind %v; Redis before it %d times", within, redisKilled)
	f.days(120)
	a.open(t, archive.Options{})
	a.move(t)
	for _, id := range ids {
		if is := f.text(t, id); is != before[id] {
			t.Errorf("%s was\n%s\nand is\n%s", id, before[id], is)
		}
	}
	if hot := a.hot(t, ids); hot != 0 {
		t.Errorf("%d of %d payments were not moved", hot, len(ids))
	}
	for _, found := range a.findings(t) {
		if !found.Orphan {
			t.Errorf("%+v", found)
		}
	}
	lines, _, err := a.archive.Manifest(t.Context(), p)
	must(t, err)
	rows := int64(0)
	for _, l := range lines {
		rows += l.Payments.Rows
	}
	if rows != int64(len(ids)) {
		t.Errorf("%d payments are in packs %d times", len(ids), rows)
	}
	testkit.Consistent(t, f.Store)
}

// text is all that is answered about a payment.
func (f *fixture) text(t *testing.T, id string) string {
	t.Helper()
	payment, ticket := f.Read(t, id)
	text, err := json.Marshal([]any{payment, ticket}, json.Deterministic(true))
	must(t, err)
	return string(text)
}

// killArchivist has another process make turns, has things happen after a while each, and
// kills it then. It returns the last step that was done.
func killArchivist(t *testing.T, url, shelf string, partition int, clock *testkit.Clock, random *rand.Rand, happens ...func()) (step string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Patience)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestArchivist$")
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d %d", archivistVariable, url, shelf, partition, clock.Now().UnixMilli()))
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	said := bufio.NewScanner(out)
	if !said.Scan() || said.Text() != "begins" {
		text := said.Text()
		for said.Scan() {
			text += "\n" + said.Text()
		}
		t.Fatalf("the archivist says %s", text)
	}
	last := make(chan string)
	go func() {
		step := "nothing"
		for said.Scan() {
			step, _, _ = strings.Cut(said.Text(), "/")
		}
		last <- step
	}()
	for _, happen := range append(happens, func() { _ = child.Process.Kill() }) {
		time.Sleep(time.Duration(random.Int64N(int64(40 * time.Millisecond))))
		happen()
	}
	if step = <-last; strings.HasPrefix(step, "fails") {
		t.Error(step)
	}
	_ = child.Wait()
	return step
}

// TestArchivist is the process that TestArchiveKilled kills.
func TestArchivist(t *testing.T) {
	var at redisAt
	if n, _ := fmt.Sscan(os.Getenv(archivistVariable), &at.url, &at.shelf, &at.partition, &at.milli); n != 4 {
		t.Skip("runs as a child only")
	}
	clock := testkit.NewClock()
	clock.Set(time.UnixMilli(at.milli).UTC())
	f := &fixture{Shop: &testkit.Shop{Store: open(t, at.url, clock), Clock: clock}}
	a := f.archivedAt(t, at.shelf, archive.Options{Rows: 25, Step: func(_ int, step string) { fmt.Println(step) }})
	fmt.Println("begins")
	for {
		n, err := a.archive.Archive(t.Context(), at.partition, killedAfter)
		switch {
		case rediskv.Away(err):
			time.Sleep(time.Millisecond)
		case err != nil:
			fmt.Println("fails:", err)
			t.FailNow()
		case n == 0:
			fmt.Println("all of it")
			time.Sleep(time.Minute) // its end comes from outside
		}
	}
}

type redisAt struct {
	url, shelf string
	partition  int
	milli      int64
}
