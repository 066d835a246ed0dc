package rediskv_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/archive/logs"
	"tollgate/rediskv/erase"
	"tollgate/rediskv/packs"
	"tollgate/rediskv/packs/shelf"
	"tollgate/rediskv/testkit"
)

// inFiles says which files on shelves have a text, packs as they are read.
func inFiles(t testing.TB, on []shelf.Shelf, text string) (names []string) {
	t.Helper()
	for i, on := range on {
		list, err := on.List(t.Context(), "")
		must(t, err)
		for _, file := range list {
			object, err := on.Read(t.Context(), file.Name)
			must(t, err)
			all := make([]byte, object.Size())
			must(t, object.ReadAt(t.Context(), all, 0))
			if strings.HasSuffix(file.Name, ".pack") {
				pack, err := packs.Open(t.Context(), object, object.Size())
				must(t, err)
				for n := range pack.Index().Frames {
					f, err := pack.Frame(t.Context(), n)
					must(t, err)
					for _, row := range f.Rows() {
						all = append(append(all, row...), '\n')
					}
				}
			}
			if strings.Contains(string(all), text) {
				names = append(names, fmt.Sprintf("%d %s", i, file.Name))
			}
			must(t, object.Close())
		}
	}
	return names
}

// janesEvents has events of payments to a payee in several packs, and in Redis alone.
func janesEvents(t *testing.T, at, copied string) (a *packing, to []string) {
	t.Helper()
	f := newFixture(t)
	a = f.packing(t, logs.Options{Rows: 6}, at, copied)
	for range 3 {
		f.shopping(t, 2)
		to = append(to, f.payTo(t, jane, 2)...)
		f.NextMilli(t)
	}
	f.shopping(t, 2)
	f.trimNow(t)
	f.NextMilli(t)
	to = append(to, f.payTo(t, jane, 1)...)
	f.shopping(t, 1)
	return a, to
}

// erasing is as 'tollgate erase' has it.
func (a *packing) erasing(t testing.TB, to []string, step func(string)) *erase.Store {
	t.Helper()
	s := erase.New(a.Store, archive.New(a.DB, archive.Options{Shelves: a.shelves, Scratch: t.TempDir()}), a.logs)
	s.Step = step
	return s
}

func (a *packing) erase(t testing.TB, to []string) error {
	t.Helper()
	return a.erasing(t, to, nil).Erase(t.Context(), a.Caller.Organization, to)
}

// withoutJane are answers as they are to be once she is erased.
func withoutJane(before map[string]string) map[string]string {
	after := map[string]string{}
	for what, text := range before {
		after[what] = strings.ReplaceAll(text, `"payee":"`+jane+`"`, `"payee":null`)
	}
	return after
}

// nowhere fails where she is left, or where something else is wrong.
func (a *packing) nowhere(t *testing.T, when string) {
	t.Helper()
	if names := inFiles(t, a.shelves, jane); len(names) > 0 {
		t.Errorf("%s: files have it: %v", when, names)
	}
	for key, value := range keyspace(t, rawClient(t, a.URL)) {
		if strings.Contains(value, jane) {
			t.Errorf("%s: %s has it: %s", when, key, value)
		}
	}
	found, _ := a.findings(t, false)
	for _, one := range found {
		if !one.Orphan {
			t.Errorf("%s: %+v", when, one)
		}
	}
	testkit.Consistent(t, a.Store)
}

// Packs of events are written anew without whom payments were for. All else is answered as
// before, each event once, and another run finds nothing to do.
func TestErasedInPacksOfEvents(t *testing.T) {
	onShelves(t, func(t *testing.T, place place) {
		at, copied := place(t), place(t)
		a, to := janesEvents(t, at, copied)
		before := a.briefly(t, 1)
		if n := len(inFiles(t, a.shelves, jane)); n < 6 {
			t.Fatalf("%d files have it", n)
		}
		_, was := a.findings(t, false)
		must(t, a.erase(t, to))
		sameAnswers(t, "erased", withoutJane(before), a.briefly(t, 1))
		other := a.packing(t, logs.Options{}, at, copied)
		sameAnswers(t, "read by another process", withoutJane(before), a.briefly(t, 1))
		other.nowhere(t, "erased")
		if _, is := other.findings(t, false); is.Packs != was.Packs || is.Entries != was.Entries || is.Lines <= was.Lines {
			t.Errorf("%+v was %+v", is, was)
		}
		keys := keyspace(t, rawClient(t, a.URL))
		must(t, other.erase(t, to))
		for key, value := range keyspace(t, rawClient(t, a.URL)) {
			if keys[key] != value && !strings.Contains(key, "audit") && !strings.Contains(key, "seq") && !strings.HasSuffix(key, ":postings") { // it is noted again
				t.Errorf("erased twice: %s is %s and was %s", key, value, keys[key])
			}
		}
		// It goes on.
		a.trimNow(t)
		a.shopping(t, 2)
		other.nowhere(t, "trimmed again")
	})
}

// A run can die behind any step of it. What is read is as it was, but for what is erased, and
// the next run ends what it began.
func TestEraserOfEventsDies(t *testing.T) {
	for dies := 1; ; dies++ {
		at, copied := directory(t), directory(t)
		a, to := janesEvents(t, at, copied)
		before := a.briefly(t, 3)
		ctx, die := context.WithCancel(t.Context())
		steps, dead := 0, ""
		step := func(step string) {
			if steps++; steps == dies {
				dead = step
				die()
			}
		}
		a = a.packing(t, logs.Options{Step: func(_ int, s string) { step(s) }}, at, copied)
		if err := a.erasing(t, to, step).Erase(ctx, a.Caller.Organization, to); err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		die()
		a = a.packing(t, logs.Options{}, at, copied)
		sameAnswers(t, "dead behind "+dead, withoutJane(before), withoutJane(a.briefly(t, 3)))
		must(t, a.erase(t, nil))
		sameAnswers(t, "after "+dead, withoutJane(before), a.briefly(t, 3))
		a.nowhere(t, "after "+dead)
		if t.Failed() {
			t.Fatalf("dead behind step %d, %s", dies, dead)
		}
		if dead == "" {
			t.Logf("it can die behind %d steps", steps)
			return
		}
	}
}

// A worker that has read events before they were erased is refused its line, and takes its
// pack away again; so it is where it dies before that.
func TestEventsReadBeforeErased(t *testing.T) {
	for _, at := range []string{"written", "put logs/packs/", "put logs/manifest/"} {
		for _, dies := range []bool{false, true} {
			f := newFixture(t)
			place := directory(t)
			to := f.payTo(t, jane, 3)
			f.NextMilli(t)
			f.shopping(t, 3)
			before := f.briefly(t, 1)
			a := f.packing(t, logs.Options{}, place)
			ctx, die := context.WithCancel(t.Context())
			failed := rediskv.ErrStale
			f.packing(t, logs.Options{Step: func(_ int, step string) {
				if !strings.HasPrefix(step, at) || failed != rediskv.ErrStale {
					return
				}
				if dies {
					die()
				}
				if failed = a.erase(t, to); failed == nil && !dies {
					failed = a.erase(t, nil) // the second time there is nothing left
				}
			}}, place)
			removed, err := f.TrimEvents(ctx, f.Partition(f.Caller.Organization), tollgate.At(time.Now().Add(time.Hour)))
			if err != nil && !dies && at == "written" || failed != nil || removed != 0 {
				t.Errorf("%s: %v, %v, %d are trimmed", at, err, failed, removed)
			}
			die()
			a = f.packing(t, logs.Options{}, place)
			a.nowhere(t, "at "+at)
			sameAnswers(t, "at "+at, withoutJane(before), f.briefly(t, 1))
			f.trimNow(t)
			a.nowhere(t, "trimmed, at "+at)
			sameAnswers(t, "trimmed, at "+at, withoutJane(before), f.briefly(t, 1))
		}
	}
}

// A Redis that is put back from a copy of before names packs that are gone. What stands in for
// them is read, and another run erases what the copy had.
func TestErasedBeforeARestore(t *testing.T) {
	at, copied := directory(t), directory(t)
	a, to := janesEvents(t, at, copied)
	before := a.briefly(t, 1)
	state := testkit.State(t, rawClient(t, a.URL))
	must(t, a.erase(t, to[:3]))
	must(t, a.erase(t, to))
	f := a.archived(t, archive.Options{}).restored(t, state).fixture
	a = f.packing(t, logs.Options{}, at, copied)
	sameAnswers(t, "put back", withoutJane(before), withoutJane(f.briefly(t, 1)))
	if found, _ := a.findings(t, false); slices.ContainsFunc(found, func(one logs.Finding) bool { return !one.Orphan }) {
		t.Errorf("%+v", found)
	}
	must(t, a.erase(t, to))
	sameAnswers(t, "erased again", withoutJane(before), f.briefly(t, 1))
	a.nowhere(t, "erased again")
	f.trimNow(t)
	a.nowhere(t, "trimmed again")
}

// A pack that was not removed is named, and removed where the check is to heal; what is damaged
// ends a run before it has written anything in its place.
func TestLeftPacksOfEvents(t *testing.T) {
	at, copied := directory(t), directory(t)
	a, to := janesEvents(t, at, copied)
	_, name, _ := strings.Cut(inFiles(t, a.shelves, jane)[0], " ")
	object, err := a.shelves[1].Read(t.Context(), name)
	must(t, err)
	text := make([]byte, object.Size())
	must(t, object.ReadAt(t.Context(), text, 0))
	must(t, object.Close())
	flip := func(text []byte) { text[100] ^= 4 }
	spoilFile(t, a.shelves[0], name, flip)
	spoilFile(t, a.shelves[1], name, flip)
	a = a.packing(t, logs.Options{}, at, copied)
	if err := a.erase(t, to); testkit.Code(err) != "archive_unavailable" {
		t.Errorf("of a damaged pack: %v", err)
	}
	for _, on := range a.shelves {
		lose(t, on, name)
		lay(t, on, name, string(text))
	}
	a = a.packing(t, logs.Options{}, at, copied)
	must(t, a.erase(t, nil))
	a.nowhere(t, "once it is whole")
	lay(t, a.shelves[1], name, string(text))
	a = a.packing(t, logs.Options{}, at, copied)
	found, _ := a.findings(t, false)
	found = slices.DeleteFunc(found, func(one logs.Finding) bool { return one.Orphan })
	if len(found) != 1 || !found[0].Copy || found[0].File != name || !strings.Contains(found[0].Message, "what was erased is still in it") {
		t.Errorf("%+v", found)
	}
	a.findings(t, true)
	a.nowhere(t, "healed")
}
