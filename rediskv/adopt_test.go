package rediskv_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/history"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/testkit"
)

// restored empties Redis, puts back what it had, in a new history as a restore does, and
// returns what another process has of it.
func (a *archived) restored(t testing.TB, copied map[string]any) *archived {
	t.Helper()
	ctx := t.Context()
	raw := rawClient(t, a.URL)
	for _, key := range scanKeys(t, raw, "*") {
		must(t, raw.Del(ctx, key).Err())
	}
	for key, one := range copied {
		if strings.HasPrefix(key, "tollgate:instance") || strings.Contains(key, "heartbeat") {
			continue
		}
		kind, is, expires := one.([]any)[0].(string), one.([]any)[1], one.([]any)[2].(int64)
		switch kind {
		case "string":
			must(t, raw.Set(ctx, key, is, 0).Err())
		case "hash":
			must(t, raw.HSet(ctx, key, is.(map[string]string)).Err())
		case "list":
			must(t, raw.RPush(ctx, key, is.([]string)).Err())
		case "set":
			must(t, raw.SAdd(ctx, key, is.([]string)).Err())
		case "zset":
			must(t, raw.ZAdd(ctx, key, is.([]redis.Z)...).Err())
		case "stream":
			for _, entry := range is.([]any)[0].([]any) {
				must(t, raw.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: entry.([]any)[0].(string), Values: entry.([]any)[1]}).Err())
			}
		}
		if expires > 0 {
			must(t, raw.PExpireAt(ctx, key, time.UnixMilli(expires)).Err())
		}
	}
	for p := range a.Partitions() {
		key := rediskv.HistoryKey(p)
		if was, ok := history.RecordOf(key, raw.HGetAll(ctx, key).Val()); ok {
			must(t, history.Put(ctx, raw, key, was.Restored(a.NewID(tollgate.PrefixHistory), a.Now(), a.Now(), true)))
		}
	}
	b := &archived{fixture: a.with(t, rediskv.Options{}), at: a.at, copied: a.copied}
	b.open(t, archive.Options{})
	return b
}

// adopt takes back what there is in all partitions.
func (a *archived) adopt(ctx context.Context, found func(archive.Finding)) (all archive.Adopted, err error) {
	for p := range a.Partitions() {
		n, failed := a.archive.Adopt(ctx, p, found)
		all.Lines, all.Payments, all.Removed = all.Lines+n.Lines, all.Payments+n.Payments, all.Removed+n.Removed
		all.Kept, all.Unlisted = all.Kept+n.Kept, all.Unlisted+n.Unlisted
		if failed != nil {
			return all, failed
		}
	}
	return all, nil
}

// lost is an archive that has gone on since Redis was copied, in every way in which a payment
// can have.
type lost struct {
	*archived
	copied map[string]any
	before map[string]string // what was answered then
	same   []string          // hot then, and moved as they were
	other  string            // hot then, and refunded before it was moved
	put    string            // in a pack then, refunded since, and moved again
	cold   string            // in a pack then
	fresh  []string          // made since; the second was moved twice
	after  map[string]string // what was answered of these
}

func loseArchive(t *testing.T, o archive.Options) *lost {
	t.Helper()
	l := &lost{archived: &archived{fixture: newFixture(t), at: directory(t)}}
	return l.play(t, o)
}

func (l *lost) play(t *testing.T, o archive.Options) *lost {
	t.Helper()
	l.open(t, o)
	pay := func() string {
		p := l.Pay(t, eur(1000), tollgate.CaptureAutomatic)
		l.Clock.Advance(time.Second)
		return p.ID
	}
	moved := func(want int) {
		t.Helper()
		l.Pay(t, eur(5000), tollgate.CaptureAutomatic) // with which refunds are settled
		l.settled(t)
		l.days(120)
		if n := l.move(t); n < want {
			t.Fatalf("%d were moved, and not %d", n, want)
		}
	}
	l.put, l.cold = pay(), pay()
	moved(2)
	l.same, l.other = []string{pay(), pay(), pay()}, pay()
	l.settled(t)
	l.copied = testkit.State(t, rawClient(t, l.URL))
	l.before = l.answers(t, l.known())
	maps.DeleteFunc(l.before, func(what, _ string) bool { return strings.Contains(what, ", before,") }) // another moment than later
	l.fresh = []string{pay(), pay()}
	must(t, l.GiveBack(t.Context(), l.other, 100, false))
	must(t, l.GiveBack(t.Context(), l.put, 200, false))
	moved(7)
	must(t, l.GiveBack(t.Context(), l.fresh[1], 300, false))
	moved(1)
	l.after = map[string]string{}
	for _, id := range l.fresh {
		l.after[id] = l.text(t, id)
	}
	return l
}

func (l *lost) known() []string { return append([]string{l.other, l.put, l.cold}, l.same...) }

// is compares all that is answered with what was answered when Redis was copied.
func (l *lost) is(t *testing.T, when string, a *archived) {
	t.Helper()
	sameAnswers(t, when, l.before, a.answers(t, l.known()))
	testkit.Consistent(t, a.Store)
}

// taken compares what there is once all has been taken back.
func (l *lost) taken(t *testing.T, when string, a *archived) {
	t.Helper()
	l.is(t, when, a)
	for id, was := range l.after {
		if is := a.text(t, id); is != was {
			t.Errorf("%s: %s was\n%s\nand is\n%s", when, id, was, is)
		}
	}
	if a.hot(t, l.same) != 0 || a.hot(t, []string{l.other, l.put}) != 2 || a.hot(t, append([]string{l.cold}, l.fresh...)) != 0 {
		t.Errorf("%s: Redis has %d, %d, %d of them", when, a.hot(t, l.same), a.hot(t, []string{l.other, l.put}), a.hot(t, l.fresh))
	}
	n, err := a.adopt(t.Context(), func(f archive.Finding) { t.Errorf("%s, again: %+v", when, f) })
	if err != nil || n != (archive.Adopted{}) {
		t.Errorf("%s, again: %+v, %v", when, n, err)
	}
}

// What was moved since a copy was made is taken back from the archive. Every answer stays as
// the copy has it; what was made since is read again by its identifier.
func TestAdopt(t *testing.T) {
	l := loseArchive(t, archive.Options{Rows: 4})
	lines, _, err := l.archive.Manifest(t.Context(), l.Partition(l.Caller.Organization))
	must(t, err)
	a := l.restored(t, l.copied)
	l.is(t, "restored", a)
	found := a.findings(t)
	for _, f := range found {
		if !f.Orphan || !strings.Contains(f.Message, "--adopt' takes") {
			t.Errorf("%+v", f)
		}
	}
	if had, _, _ := a.archive.Manifest(t.Context(), l.Partition(l.Caller.Organization)); len(found) != 4*(len(lines)-len(had)) || len(had) == len(lines) {
		t.Errorf("%d findings of %d lines, and Redis has %d", len(found), len(lines), len(had))
	}
	named := map[string]bool{}
	unlisted := false
	n, err := a.adopt(t.Context(), func(f archive.Finding) {
		named[f.Payment] = true
		unlisted = unlisted || strings.Contains(f.Message, "are not in the lists of Redis")
		if !f.Note {
			t.Errorf("%+v", f)
		}
	})
	must(t, err)
	if n.Lines < 2 || n.Removed != 3 || n.Kept != 2 || n.Unlisted < 2 || !named[l.other] || !named[l.put] || !unlisted || len(named) != 3 {
		t.Errorf("%+v, named %v", n, named)
	}
	for _, f := range a.findings(t) {
		t.Errorf("afterwards: %+v", f)
	}
	a.open(t, archive.Options{})
	l.taken(t, "taken back", a)
	rows, _, _, err := a.Payments(t.Context(), a.Caller, ledger.TransactionQuery{Limit: 100})
	must(t, err)
	if slices.ContainsFunc(rows, func(p tollgate.Payment) bool { return slices.Contains(l.fresh, p.ID) }) {
		t.Error("a list has what was made after the copy")
	}
	if err := a.GiveBack(t.Context(), l.fresh[0], 100, false); testkit.Code(err) != "payment_state_invalid" {
		t.Errorf("a refund of what no list has: %v", err)
	}
	l.taken(t, "refunded", a)
	a.days(200)
	if m := a.move(t); m < 2 {
		t.Errorf("a worker moved %d", m)
	}
	l.is(t, "moved again", a)
}

// Whoever takes lines back may die behind any step. Whether somebody else goes on with it,
// or a worker makes its turns, every answer is as before.
func TestAdopterDies(t *testing.T) {
	l := loseArchive(t, archive.Options{Rows: 4})
	for _, worker := range []bool{false, true} {
		for dies := 1; ; dies++ {
			a := l.restored(t, l.copied)
			ctx, die := context.WithCancel(t.Context())
			steps, dead := 0, ""
			a.open(t, archive.Options{Step: func(_ int, step string) {
				if steps++; steps == dies {
					dead = step
					die()
				}
			}})
			_, err := a.adopt(ctx, func(archive.Finding) {})
			if die(); (err != nil) != (dead != "") {
				t.Fatalf("dead behind %q: %v", dead, err)
			}
			a.open(t, archive.Options{})
			l.is(t, "dead behind "+dead, a)
			if worker {
				if _, err := a.archive.Archive(t.Context(), a.Partition(a.Caller.Organization), 1000*24*time.Hour); err != nil {
					t.Fatal(err)
				}
				l.is(t, "a worker behind "+dead, a)
			}
			_, err = a.adopt(t.Context(), func(archive.Finding) {})
			must(t, err)
			l.taken(t, "after "+dead, a)
			if t.Failed() {
				return
			}
			if dead == "" {
				t.Logf("it can die behind %d steps", steps)
				break
			}
		}
	}
}

// Where a worker makes its turns meanwhile, the one or the other takes lines back.
func TestAdoptBesideAWorker(t *testing.T) {
	for _, step := range []string{"compared", "added", "removed"} {
		l := loseArchive(t, archive.Options{Rows: 4})
		a := l.restored(t, l.copied)
		b := &archived{fixture: a.fixture, at: l.at}
		b.open(t, archive.Options{})
		a.stepped(t, step, func() { b.catchUp(t) })
		_, err := a.adopt(t.Context(), func(archive.Finding) {})
		if err != nil && !strings.Contains(err.Error(), "stop every 'tollgate work'") {
			t.Errorf("%s: %v", step, err)
		}
		a.open(t, archive.Options{})
		l.taken(t, step, a)
		for _, f := range a.findings(t) {
			t.Errorf("%s: %+v", step, f)
		}
	}
}

// catchUp makes turns in which nothing is old enough to be moved.
func (a *archived) catchUp(t *testing.T) (moved int) {
	t.Helper()
	for p := range a.Partitions() {
		n, err := a.archive.Archive(t.Context(), p, 1000*24*time.Hour)
		must(t, err)
		moved += n
	}
	return moved
}

// A worker takes lines back before it makes one of its own: of histories that Redis has had,
// and not if it cannot be read.
func TestWorkerCatchesUp(t *testing.T) {
	l := loseArchive(t, archive.Options{Rows: 4})
	a := l.restored(t, l.copied)
	if n := a.catchUp(t); n != len(l.same) {
		t.Errorf("%d were removed from Redis", n)
	}
	l.taken(t, "a worker", a)
	if n := a.catchUp(t); n != 0 {
		t.Errorf("%d were removed again", n)
	}

	a = l.restored(t, l.copied)
	line := l.behind(t, a)[0]
	broken := filepath.Join(pathOf(l.at), line.Name())
	must(t, os.WriteFile(broken, []byte("{}"), 0o600))
	for p := range a.Partitions() {
		_, err := a.archive.Archive(t.Context(), p, archiveAfter)
		if p == line.Partition && testkit.Code(err) != "archive_unavailable" || p != line.Partition && err != nil {
			t.Errorf("with a damaged line: %v", err)
		}
	}
	l.is(t, "a damaged line", a)
	must(t, os.WriteFile(broken, []byte(line.Text()), 0o600))
	a.catchUp(t)
	l.taken(t, "put back", a)

	a = l.restored(t, l.copied)
	for _, line := range l.behind(t, a) {
		must(t, os.Remove(filepath.Join(pathOf(l.at), line.Name())))
	}
	a.beside(t, line, func(line *archive.Line) { line.HistoryID = "his_01jd8m2r5k0000000000000000" })
	if n := a.catchUp(t); n != 0 {
		t.Errorf("%d of another history were removed", n)
	}
	l.is(t, "another history", a)
}

// It looks for them before each pack.
func TestWorkerCatchesUpBeforeAPack(t *testing.T) {
	l := loseArchive(t, archive.Options{Rows: 4})
	a := l.restored(t, l.copied)
	lines := l.behind(t, a)
	for _, line := range lines {
		must(t, os.Remove(filepath.Join(pathOf(l.at), line.Name())))
	}
	a.catchUp(t) // its first turns, at which there is nothing
	for _, line := range lines {
		must(t, os.WriteFile(filepath.Join(pathOf(l.at), line.Name()), []byte(line.Text()), 0o600))
	}
	a.move(t)
	l.is(t, "before a pack", a)
	for id, was := range l.after {
		if is := a.text(t, id); is != was {
			t.Errorf("%s was\n%s\nand is\n%s", id, was, is)
		}
	}
}

// behind are the lines that the shelf has and Redis does not.
func (l *lost) behind(t *testing.T, a *archived) (lines []*archive.Line) {
	t.Helper()
	p := a.Partition(a.Caller.Organization)
	had, _, err := a.archive.Manifest(t.Context(), p)
	must(t, err)
	files, err := a.shelves[0].List(t.Context(), fmt.Sprintf("manifest/p%02d/", p))
	must(t, err)
	for _, file := range files[len(had):] {
		text, err := a.shelves[0].Text(t.Context(), file.Name)
		must(t, err)
		line, err := archive.ParseLine(string(text))
		must(t, err)
		lines = append(lines, line)
	}
	return lines
}

// beside puts a line on the shelf that is another one with the same number.
func (a *archived) beside(t *testing.T, line *archive.Line, change func(*archive.Line)) *archive.Line {
	t.Helper()
	other, err := archive.ParseLine(line.Text())
	must(t, err)
	change(other)
	text, err := json.Marshal(other, json.Deterministic(true))
	must(t, err)
	other, err = archive.ParseLine(string(text))
	must(t, err)
	must(t, a.shelves[0].Put(t.Context(), other.Name(), int64(len(text)), strings.NewReader(string(text))))
	return other
}

// Lines are taken back up to the first that cannot be, which is named. What was done before
// stays, and the rest follows once the file is put back.
func TestAdoptBrokenChain(t *testing.T) {
	for name, file := range map[string]func(*archive.Line) string{
		"its text": func(line *archive.Line) string { return line.Name() },
		"its pack": func(line *archive.Line) string {
			return fmt.Sprintf("packs/p%02d/%s.pack", line.Partition, line.Payments.SHA256)
		},
	} {
		for what, breaks := range map[string]func(string) error{
			"gone": os.Remove,
			"damaged": func(name string) error {
				text, err := os.ReadFile(name)
				if at := bytes.Index(text, []byte(`"sealed_at":"`)); at > 0 {
					text[at+len(`"sealed_at":"`)] = '3' // it can be read, and says another year
				} else {
					text[len(text)/3] ^= 1
				}
				return errors.Join(err, os.Chmod(name, 0o600), os.WriteFile(name, text, 0o600))
			},
		} {
			when := name + " is " + what
			l := loseArchive(t, archive.Options{Rows: 4})
			a := l.restored(t, l.copied)
			lines := l.behind(t, a)
			if len(lines) < 3 {
				t.Fatalf("%d lines", len(lines))
			}
			broken := filepath.Join(pathOf(l.at), file(lines[1]))
			whole, err := os.ReadFile(broken)
			must(t, err)
			must(t, breaks(broken))
			n, err := a.adopt(t.Context(), func(f archive.Finding) {
				if !f.Note {
					t.Errorf("%s: %+v", when, f)
				}
			})
			if err != nil || n.Lines != 1 {
				t.Errorf("%s: %+v, %v", when, n, err)
			}
			l.is(t, when, a)
			wrong := 0
			for _, f := range a.findings(t) {
				if !f.Orphan {
					wrong++
				}
			}
			if (wrong == 0) != (when == "its text is gone") { // nothing says then that there was a line
				t.Errorf("%s: %d are wrong: %+v", when, wrong, a.findings(t))
			}
			must(t, os.RemoveAll(broken))
			must(t, os.WriteFile(broken, whole, 0o400))
			a.open(t, archive.Options{})
			_, err = a.adopt(t.Context(), func(archive.Finding) {})
			must(t, err)
			l.taken(t, when+", and was put back", a)
		}
	}
}

// With a copy, a file that only one of both has is put into the other one before its line is
// taken back.
func TestAdoptFromTheCopy(t *testing.T) {
	l := &lost{archived: &archived{fixture: newFixture(t), at: directory(t), copied: directory(t)}}
	l.play(t, archive.Options{Rows: 4})
	a := l.restored(t, l.copied)
	lines := l.behind(t, a)
	pack := fmt.Sprintf("packs/p%02d/%s.pack", lines[0].Partition, lines[0].Payments.SHA256)
	must(t, os.Remove(filepath.Join(pathOf(l.at), lines[0].Name())))
	must(t, os.Remove(filepath.Join(pathOf(l.at), pack)))
	must(t, os.Remove(filepath.Join(pathOf(l.archived.copied), lines[1].Name())))
	var healed []string
	_, err := a.adopt(t.Context(), func(f archive.Finding) {
		if f.Healed {
			healed = append(healed, f.File)
		}
	})
	must(t, err)
	if !slices.Equal(healed, []string{lines[0].Name(), pack, lines[1].Name()}) {
		t.Errorf("healed %q", healed)
	}
	l.taken(t, "from both", a)
}

// Of two lines with one number that one is taken back which others follow. Where neither is
// followed, or both are, none is, and both are named.
func TestAdoptFork(t *testing.T) {
	later := func(line *archive.Line) { line.SealedAt++ }
	for name, c := range map[string]struct {
		fork  func(*archived, []*archive.Line)
		lines int64 // that are taken back
		wrong int
	}{
		"one is followed": {func(a *archived, lines []*archive.Line) { a.beside(t, lines[0], later) }, 3, 0},
		"neither is":      {func(a *archived, lines []*archive.Line) { a.beside(t, lines[2], later) }, 2, 2},
		"both are": {func(a *archived, lines []*archive.Line) {
			other := a.beside(t, lines[0], later)
			a.beside(t, lines[1], func(line *archive.Line) { line.Previous = digest(other) })
		}, 0, 2},
		"of another history": {func(a *archived, lines []*archive.Line) {
			a.beside(t, lines[0], func(line *archive.Line) { line.Previous = strings.Repeat("0", 64) })
		}, 3, 0},
	} {
		l := loseArchive(t, archive.Options{Rows: 4})
		a := l.restored(t, l.copied)
		lines := l.behind(t, a)
		c.fork(a, lines[:3])
		for _, line := range lines[3:] {
			must(t, os.Remove(filepath.Join(pathOf(l.at), line.Name())))
		}
		n, err := a.adopt(t.Context(), func(archive.Finding) {})
		if err != nil || n.Lines != c.lines {
			t.Errorf("%s: %+v, %v", name, n, err)
		}
		l.is(t, name, a)
		wrong := 0
		for _, f := range a.findings(t) {
			if !f.Orphan {
				wrong++
			}
		}
		if wrong != c.wrong {
			t.Errorf("%s: %d are wrong: %+v", name, wrong, a.findings(t))
		}
	}
}

func digest(line *archive.Line) string {
	sum := sha256.Sum256([]byte(line.Text()))
	return hex.EncodeToString(sum[:])
}

// The first line is taken back of a history alone that Redis has had: nothing else tells
// another Redis' archive from its own.
func TestAdoptAnothersArchive(t *testing.T) {
	f := newFixture(t)
	a := f.archived(t, archive.Options{})
	p := f.Pay(t, eur(1000), tollgate.CaptureManual)
	must(t, f.Move(t.Context(), p.ID, tollgate.TriggerCancel))
	copied := testkit.State(t, rawClient(t, f.URL))
	f.days(120)
	a.move(t)
	b := a.restored(t, copied)
	n, err := b.adopt(t.Context(), func(archive.Finding) {})
	if err != nil || n.Lines != 1 || n.Removed != 1 {
		t.Errorf("its own: %+v, %v", n, err)
	}
	b = a.restored(t, copied)
	lines := (&lost{archived: a}).behind(t, b)
	b.beside(t, lines[0], func(line *archive.Line) { line.HistoryID = "his_00000000000000000000000000" })
	must(t, os.Remove(filepath.Join(pathOf(a.at), lines[0].Name())))
	n, err = b.adopt(t.Context(), func(archive.Finding) {})
	if err != nil || n != (archive.Adopted{}) || b.hot(t, []string{p.ID}) != 1 {
		t.Errorf("another's: %+v, %v", n, err)
	}
	if !slices.ContainsFunc(b.findings(t), func(f archive.Finding) bool { return f.Orphan && strings.Contains(f.Message, "has not had") }) {
		t.Errorf("%+v", b.findings(t))
	}
}

// Where writes have stopped, nothing is taken back.
func TestAdoptWhileNothingIsWritten(t *testing.T) {
	l := loseArchive(t, archive.Options{})
	a := l.restored(t, l.copied)
	key, raw := rediskv.HistoryKey(a.Partition(a.Caller.Organization)), rawClient(t, a.URL)
	closed := a.historyRecord(t, raw).Restored(a.NewID(tollgate.PrefixHistory), a.Now(), a.Now(), true)
	closed.Open = false
	must(t, history.Put(t.Context(), raw, key, closed))
	n, err := a.adopt(t.Context(), func(archive.Finding) {})
	if n != (archive.Adopted{}) || err == nil || !strings.Contains(err.Error(), "history accept") {
		t.Errorf("%+v, %v", n, err)
	}
}
