package rediskv_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/erase"
	"tollgate/rediskv/packs"
	"tollgate/rediskv/payments"
	"tollgate/rediskv/testkit"
)

const jane = "jane-doe.example"

// payTo makes payments to a payee that are captured at once.
func (f *fixture) payTo(t testing.TB, payee string, n int) (ids []string) {
	t.Helper()
	for range n {
		ch, ans := f.Draft(t, f.MerchantAccount(t), eur(1000), payee, tollgate.CaptureAutomatic)
		_, err := f.CreatePayment(t.Context(), f.Caller, f.Key(ch.Payment.ID), f.MerchantAccount(t), ch, ans)
		must(t, err)
		ids = append(ids, ch.Payment.ID)
	}
	return ids
}

// inPacks says which files on the shelves have a text.
func (a *archived) inPacks(t testing.TB, text string) (names []string) {
	t.Helper()
	for i, on := range a.shelves {
		list, err := on.List(t.Context(), "packs/")
		must(t, err)
		for _, file := range list {
			object, err := on.Read(t.Context(), file.Name)
			must(t, err)
			pack, err := packs.Open(t.Context(), object, object.Size())
			must(t, err)
			for n := range pack.Index().Frames {
				f, err := pack.Frame(t.Context(), n)
				must(t, err)
				for _, row := range f.Rows() {
					if name := fmt.Sprintf("%d %s", i, file.Name); strings.Contains(string(row), text) && !slices.Contains(names, name) {
						names = append(names, name)
					}
				}
			}
			must(t, object.Close())
		}
	}
	return names
}

// janes is an archive with payments to a payee, some of whom are in two packs, or in Redis again.
func janes(t *testing.T, at, copied string) (a *archived, to, all []string) {
	t.Helper()
	f := newFixture(t)
	a = &archived{fixture: f, at: at, copied: copied}
	a.open(t, archive.Options{Rows: 9})
	for range 2 {
		all = append(all, f.play(t, rand.New(rand.NewPCG(18, 6)), 12)...)
		to = append(to, f.payTo(t, jane, 5)...)
	}
	f.settled(t)
	f.days(200)
	if a.move(t) == 0 {
		t.Fatal("nothing was moved")
	}
	must(t, f.GiveBack(t.Context(), to[0], 100, false)) // it is in a pack, and in Redis as it was since
	f.settled(t)
	f.days(200)
	a.move(t)
	must(t, f.GiveBack(t.Context(), to[1], 100, false))
	to = append(to, f.payTo(t, jane, 3)...)
	return a, to, append(all, to...)
}

func (a *archived) erase(ctx context.Context, to []string, step func(string)) error {
	s := erase.New(a.Store, a.archive, nil)
	s.Step = step
	return s.Erase(ctx, a.Caller.Organization, to)
}

// nowhere fails where a payee is left.
func (a *archived) nowhere(t *testing.T, to []string) {
	t.Helper()
	for key, value := range keyspace(t, rawClient(t, a.URL)) {
		if strings.Contains(value, jane) {
			t.Errorf("%s has it: %s", key, value)
		}
	}
	if names := a.inPacks(t, jane); len(names) > 0 {
		t.Errorf("packs have it: %v", names)
	}
	for _, f := range a.findings(t) {
		if !f.Orphan {
			t.Errorf("%+v", f)
		}
	}
	for _, id := range to {
		p, ticket, err := a.Payment(t.Context(), a.Caller, id)
		if err != nil || p.Payee != "" || p.ErasedAt == 0 || ticket.ErasedAt == 0 {
			t.Errorf("%s: %+v, %v", id, p, err)
		}
	}
	testkit.Consistent(t, a.Store)
}

// No pack on any shelf has the payee of an erased payment, and what else was moved is answered
// as before.
func TestErasedInPacks(t *testing.T) {
	onShelves(t, func(t *testing.T, place place) {
		a, to, all := janes(t, place(t), place(t))
		others := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(to, id) })
		before := a.told(t, others)
		if len(a.inPacks(t, jane)) < 4 {
			t.Fatal("too few packs have it")
		}
		must(t, a.erase(t.Context(), to, nil))
		a.open(t, archive.Options{})
		sameAnswers(t, "erased", before, a.told(t, others))
		a.nowhere(t, to)
		_, err := a.DB.Redis.HGet(t.Context(), rediskv.ArchiveKey(a.Partition(a.Caller.Organization)), "n").Result()
		must(t, err)
		if code(a.GiveBack(t.Context(), to[2], 100, false)) != string(tollgate.CodePaymentStateInvalid) {
			t.Error("an erased payment can be refunded")
		}
		// It goes on: the worker moves what is in Redis, and nothing comes back.
		a.settled(t)
		a.days(200)
		a.move(t)
		a.nowhere(t, to)
	})
}

// told are payments and their tickets as they are answered.
func (a *archived) told(t testing.TB, ids []string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, id := range ids {
		p, ticket, err := a.Payment(t.Context(), a.Caller, id)
		all[id] = fmt.Sprintf("%+v %+v %v", p, ticket, err)
		if p != nil && ticket != nil {
			all[id] = string(answer(t, 200, p).Body) + string(answer(t, 200, ticket).Body)
		}
	}
	return all
}

// A run can die behind any step: the next one ends what it began, and nothing is lost.
func TestEraserDies(t *testing.T) {
	for dies := 1; ; dies++ {
		a, to, all := janes(t, directory(t), "")
		others := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(to, id) })
		before := a.told(t, others)
		ctx, die := context.WithCancel(t.Context())
		steps, dead := 0, ""
		step := func(step string) {
			if steps++; steps == dies {
				dead = step
				die()
			}
		}
		a.open(t, archive.Options{Step: func(_ int, s string) { step(s) }})
		if err := a.erase(ctx, to, step); err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		die()
		a.open(t, archive.Options{})
		sameAnswers(t, "dead behind "+dead, before, a.told(t, others))
		must(t, a.erase(t.Context(), nil, nil))
		sameAnswers(t, "after "+dead, before, a.told(t, others))
		a.nowhere(t, to)
		if t.Failed() {
			t.Fatalf("dead behind step %d, %s", dies, dead)
		}
		if dead == "" {
			t.Logf("it can die behind %d steps", steps)
			return
		}
		dies += 2 // a few steps are many of one kind
	}
}

// What somebody has read before it was erased is not written again, and a worker who has
// packed it takes that away.
func TestReadBeforeErased(t *testing.T) {
	for _, at := range []string{"written", "put packs/", "put manifest/"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			readBeforeErased(t, at)
		})
	}
}

func readBeforeErased(t *testing.T, at string) {
	a, to, _ := janes(t, directory(t), "")
	k := a.Space(a.Caller.Organization)
	// A refund that was computed from the payment as it was.
	p, ticket, err := a.Payment(t.Context(), a.Caller, to[len(to)-1])
	must(t, err)
	account := a.MerchantAccount(t)
	refund, err := tollgate.RefundPayment(a.NewID, a.Origin(a.Caller), p, ticket, tollgate.RefundRequest{
		Amount: eur(100), Account: account.Status, SalesDay: account.Cutoffs.SalesDay(a.Now(), account.Closed),
	}, a.Price(eur(100), 0))
	must(t, err)
	// A payment that is put back into Redis as the pack has had it.
	must(t, a.archive.Return(t.Context(), k, to[3], rediskv.ErrConflict))
	// A worker that has packed it.
	a.settled(t)
	a.days(200)
	var failed error
	a.open(t, archive.Options{Rows: 9, Step: func(_ int, step string) {
		if strings.HasPrefix(step, at) && failed == nil {
			other := &archived{fixture: a.fixture, at: a.at}
			failed = rediskv.ErrStale
			other.archive = archive.New(a.DB, archive.Options{Shelves: a.shelves, Scratch: t.TempDir()})
			if err := other.erase(t.Context(), to, nil); err != nil {
				failed = err
			}
		}
	}})
	moved, err := a.archive.Archive(t.Context(), k.Partition, archiveAfter)
	if at == "put manifest/" { // then the line is taken back, and another one stands in for it
		moved = 0
	}
	if err != nil && at != "put packs/" || moved != 0 || failed != rediskv.ErrStale { // the pack may be gone before it is read back
		t.Fatalf("%d moved, %v, %v", moved, err, failed)
	}
	if _, err = a.Transition(t.Context(), a.Caller, nil, account, refund, rediskv.Answer{Status: 200, Body: []byte("{}")}); err == nil {
		t.Error("a refund was made of what was read before")
	}
	if names := a.inPacks(t, jane); len(names) > 0 {
		t.Errorf("packs have it: %v", names)
	}
	a.move(t)
	a.open(t, archive.Options{})
	a.move(t)
	if names := a.inPacks(t, jane); len(names) > 0 {
		t.Errorf("packs have it: %v", names)
	}
	for _, id := range to {
		row, _, err := a.archive.Row(t.Context(), id)
		must(t, err)
		if strings.Contains(string(row), jane) {
			t.Errorf("%s", row)
		}
	}
	for key, value := range keyspace(t, rawClient(t, a.URL)) {
		if strings.Contains(value, jane) {
			t.Errorf("%s has it: %s", key, value)
		}
	}
	testkit.Consistent(t, a.Store)
}

var eraseResends = []resend{
	{"erase_records", "a payment, and it is refused another refund", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		id := f.payTo(t, jane, 1)[0]
		return func(through *fixture) error {
			return erase.New(through.Store, nil, nil).Erase(t.Context(), f.Caller.Organization, []string{id})
		}, func() { _ = f.GiveBack(t.Context(), id, 100, false) }
	}},
	{"rewrite_entries", "its event, and another one follows", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		id := f.payTo(t, jane, 1)[0]
		return func(through *fixture) error {
			return erase.New(through.Store, nil, nil).Erase(t.Context(), f.Caller.Organization, []string{id})
		}, func() { f.payTo(t, "other.example", 1) }
	}},
}

// Packs that no line of Redis names are removed if they have one of the payments, unless lines
// name them that might be taken back: then they are told.
func TestOrphansErased(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		f := newFixture(t)
		a := &archived{fixture: f, at: directory(t), copied: directory(t)}
		to := f.payTo(t, jane, 3)
		f.settled(t)
		f.days(200)
		ctx, die := context.WithCancel(t.Context())
		last := map[bool]string{false: "put packs/", true: "put manifest/"}[foreign]
		a.open(t, archive.Options{Step: func(_ int, step string) {
			if strings.HasPrefix(step, last) {
				die()
			}
		}})
		k := a.Space(a.Caller.Organization)
		if moved, err := a.archive.Archive(ctx, k.Partition, archiveAfter); moved > 0 || err == nil {
			t.Fatal(moved, err)
		}
		a.open(t, archive.Options{})
		packs := a.inPacks(t, jane)
		if foreign {
			name := ""
			for _, on := range a.shelves {
				list, err := on.List(t.Context(), "manifest/")
				must(t, err)
				for _, file := range list {
					text, err := on.Text(t.Context(), file.Name)
					must(t, err)
					l, err := archive.ParseLine(strings.Replace(string(text), `"history_id":"`, `"history_id":"other_`, 1))
					must(t, err)
					lose(t, on, file.Name)
					name = l.Name()
					lay(t, on, name, l.Text())
				}
			}
			if name == "" {
				t.Fatal("there is no line")
			}
		}
		var left []string
		s := erase.New(a.Store, a.archive, nil)
		s.Left = func(file string) { left = append(left, file) }
		must(t, s.Erase(t.Context(), a.Caller.Organization, to))
		if is := a.inPacks(t, jane); len(packs) == 0 || foreign != (len(is) == len(packs)) || foreign != (len(left) == 1) {
			t.Errorf("foreign %t: packs had it: %v, have it: %v, and told are %v", foreign, packs, is, left)
		}
		a.move(t)
		for _, id := range to {
			if row, _, err := a.archive.Row(t.Context(), id); err != nil || row == nil || strings.Contains(string(row), jane) {
				t.Errorf("%s, %v", row, err)
			}
		}
		testkit.Consistent(t, a.Store)
	}
}

// exportedIDs are the payments that 'archive export' prints, none of which has a text.
func (a *archived) exportedIDs(t testing.TB, text string) (ids []string) {
	t.Helper()
	_, err := a.archive.Export(t.Context(), archive.ExportQuery{}, func(row []byte) error {
		r, err := payments.ReadArchived(row)
		if err == nil {
			ids = append(ids, r.ID)
		}
		if strings.Contains(string(row), text) {
			t.Errorf("exported: %s", row)
		}
		return err
	}, func(f archive.Finding) { t.Errorf("%+v", f) })
	must(t, err)
	return ids
}

// Packs can be written anew again, and a Redis that is put back from a copy of before takes back
// the lines that stand in for its own. Lists, searches and exports have each payment once.
func TestPacksErasedBeforeARestore(t *testing.T) {
	a, to, all := janes(t, directory(t), directory(t))
	others := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(to, id) })
	before, printed := a.told(t, others), a.exportedIDs(t, "no such text")
	state := testkit.State(t, rawClient(t, a.URL))
	must(t, a.erase(t.Context(), to[:2], nil))
	must(t, a.erase(t.Context(), to, nil))
	a.nowhere(t, to)
	if is := a.exportedIDs(t, jane); !slices.Equal(is, printed) {
		t.Errorf("erased: %v are printed, and %v were", is, printed)
	}
	a = a.restored(t, state)
	sameAnswers(t, "put back", before, a.told(t, others))
	a.move(t)
	sameAnswers(t, "taken back", before, a.told(t, others))
	for _, f := range a.findings(t) {
		t.Errorf("%+v", f)
	}
	testkit.Consistent(t, a.Store)
	must(t, a.erase(t.Context(), to, nil))
	a.nowhere(t, to)
	sameAnswers(t, "erased again", before, a.told(t, others))
	if is := a.exportedIDs(t, jane); !slices.Equal(is, printed) {
		t.Errorf("erased again: %v are printed, and %v were", is, printed)
	}
}

// A pack that another line stands in for and that is still there is named, and removed where the
// check is to heal.
func TestLeftPacks(t *testing.T) {
	a, to, _ := janes(t, directory(t), directory(t))
	_, name, _ := strings.Cut(a.inPacks(t, jane)[0], " ")
	object, err := a.shelves[0].Read(t.Context(), name)
	must(t, err)
	text := make([]byte, object.Size())
	must(t, object.ReadAt(t.Context(), text, 0))
	must(t, object.Close())
	must(t, a.erase(t.Context(), to, nil))
	lay(t, a.shelves[1], name, string(text))
	found := a.findings(t)
	if len(found) != 1 || !found[0].Copy || found[0].Orphan || found[0].File != name || !strings.Contains(found[0].Message, "what was erased is still in it") {
		t.Errorf("%+v", found)
	}
	for p := range a.Partitions() {
		_, err := a.archive.Check(t.Context(), p, true, func(archive.Finding) {})
		must(t, err)
	}
	a.nowhere(t, to)
}
