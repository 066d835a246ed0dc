package rediskv_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/checks"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/packs"
	"tollgate/rediskv/packs/shelf"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

const archiveAfter = 90 * 24 * time.Hour

// archived is a fixture with an archive.
type archived struct {
	*fixture
	archive *archive.Store
	at      string // its URL
	copied  string // the URL of a copy; empty: there is none
	shelves []shelf.Shelf
}

func (f *fixture) archived(t testing.TB, o archive.Options) *archived {
	t.Helper()
	return f.archivedAt(t, directory(t), o)
}

func (f *fixture) archivedAt(t testing.TB, at string, o archive.Options) *archived {
	t.Helper()
	a := &archived{fixture: f, at: at}
	a.open(t, o)
	return a
}

// open opens the archive anew, as another process would.
func (a *archived) open(t testing.TB, o archive.Options) {
	t.Helper()
	for _, at := range []string{a.at, a.copied} {
		if at != "" {
			o.Shelves = append(o.Shelves, openShelf(t, at))
		}
	}
	o.Scratch, a.shelves = t.TempDir(), o.Shelves
	a.archive = archive.New(a.DB, o)
	a.UseArchive(a.archive)
}

// move makes turns in all partitions until nothing is left to be moved.
func (a *archived) move(t testing.TB) (moved int) {
	t.Helper()
	for p := range a.Partitions() {
		for {
			n, err := a.archive.Archive(t.Context(), p, archiveAfter)
			if err != nil {
				t.Fatal(err)
			}
			if moved += n; n == 0 {
				break
			}
		}
	}
	return moved
}

// hot is how many of some payments Redis has.
func (a *archived) hot(t testing.TB, ids []string) (n int) {
	t.Helper()
	k := a.Space(a.Caller.Organization)
	for _, id := range ids {
		there, err := a.Redis.Exists(t.Context(), k.Object(id), k.Object(tollgate.TicketOf(id)), k.Parts(id)).Result()
		if err != nil {
			t.Fatal(err)
		}
		if there != 0 && there != 3 {
			t.Errorf("of %s Redis has %d records", id, there)
		}
		if there == 3 {
			n++
		}
	}
	return n
}

// play makes payments of all kinds, and brings some of them to an end.
func (f *fixture) play(t testing.TB, random *rand.Rand, n int) (ids []string) {
	t.Helper()
	for range n {
		method := tollgate.CaptureManual
		if random.IntN(3) == 0 {
			method = tollgate.CaptureAutomatic
		}
		p := f.Pay(t, eur(int64(100+random.IntN(10_000))), method)
		ids = append(ids, p.ID)
		f.Clock.Advance(time.Duration(random.IntN(90)) * time.Minute)
		for range random.IntN(4) {
			var err error
			switch random.IntN(4) {
			case 0, 1:
				err = f.Capture(t.Context(), p.ID, 1+random.Int64N(80), random.IntN(2) == 0)
			case 2:
				err = f.GiveBack(t.Context(), p.ID, 1+random.Int64N(30), false)
			case 3:
				err = f.Move(t.Context(), p.ID, tollgate.TriggerCancel)
			}
			if err != nil && testkit.Code(err) == "" {
				t.Fatal(err)
			}
			f.Clock.Advance(time.Duration(random.IntN(30)) * time.Minute)
		}
	}
	return ids
}

// answers is everything that clients are answered about some payments, by what they ask.
func (f *fixture) answers(t testing.TB, ids []string) map[string]string {
	t.Helper()
	all := map[string]string{}
	say := func(what string, v any, err error) {
		t.Helper()
		text, failed := json.Marshal(v, json.Deterministic(true))
		if failed != nil {
			t.Fatal(failed)
		}
		all[what] = fmt.Sprintf("%s %v", text, err)
	}
	for _, id := range ids {
		p, ticket, err := f.Payment(t.Context(), f.Caller, id)
		say("payment "+id, p, err)
		if p != nil {
			all["revision "+id] = fmt.Sprint(p.Revision, p.Captures, p.Refunds, p.Numbers, p.Counters)
		}
		say("its ticket "+id, ticket, err)
		ticket, err = f.Ticket(t.Context(), f.Caller, tollgate.TicketOf(id))
		say("ticket "+id, ticket, err)
		refunds, err := f.Refunds(t.Context(), f.Caller, id)
		say("refunds "+id, refunds, err)
		for _, one := range refunds {
			r, err := f.Refund(t.Context(), f.Caller, one.ID)
			say("refund "+one.ID, r, err)
		}
		say("transactions "+id, f.allTransactions(t, ledger.TransactionQuery{PaymentID: id, Limit: 3}), nil)
	}
	for name, q := range map[string]ledger.TransactionQuery{
		"all": {}, "newest first": {Descending: true}, "captures": {Types: []tollgate.TransactionType{tollgate.TransactionCapture}},
		"captured": {Statuses: []string{"captured"}}, "settled": {Statuses: []string{"settled"}, Descending: true},
		"of the account": {Accounts: []string{f.Config.MerchantAccounts[0].ID}}, "of the payee": {Payee: "shop.example"}, "in EUR": {Currency: "EUR", Descending: true},
		"before": {CreatedBefore: f.Now().Add(-100 * 24 * time.Hour)},
	} {
		for _, limit := range []int{7, 100} {
			q.Limit = limit
			say(fmt.Sprintf("transactions, %s, %d", name, limit), f.allTransactions(t, q), nil)
			of := q
			var rows []tollgate.Payment
			for more := true; more && len(q.Types) == 0 && name != "settled"; {
				page, next, has, err := f.Payments(t.Context(), f.Caller, of)
				if err != nil {
					t.Fatal(name, err)
				}
				rows, of.After, more = append(rows, page...), next, has
			}
			say(fmt.Sprintf("payments, %s, %d", name, limit), rows, nil)
		}
	}
	return all
}

// files are exports of all that is moved, by dataset.
func (f *fixture) files(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, d := range []tollgate.Dataset{tollgate.DatasetPayments, tollgate.DatasetTickets, tollgate.DatasetTransactions} {
		all[string(d)] = f.file(t, f.export(t, d, tollgate.FormatNDJSON, tollgate.ExportFilter{}))
	}
	return all
}

func sameAnswers(t testing.TB, when string, before, after map[string]string) {
	t.Helper()
	for _, what := range slices.Sorted(maps.Keys(before)) {
		if before[what] != after[what] {
			t.Errorf("%s: %s:\n%s\nwas\n%s", when, what, after[what], before[what])
		}
	}
}

// settled settles all that is due, some days later.
func (f *fixture) settled(t testing.TB) {
	t.Helper()
	f.days(8)
	if err := f.settle(t.Context(), paid); err != nil {
		t.Fatal(err)
	}
}

// Whatever is asked about payments, the answer is the same after they have been moved.
func TestNobodyNotices(t *testing.T) {
	onShelves(t, func(t *testing.T, place place) {
		f := newFixture(t)
		a := f.archivedAt(t, place(t), archive.Options{Rows: 17})
		ids := f.play(t, rand.New(rand.NewPCG(18, 2)), 60)
		f.settled(t)
		for _, id := range ids { // what is open ends by itself
			if err := f.ExpirePayment(t.Context(), f.Caller.Organization, id); err != nil {
				t.Fatal(err)
			}
		}
		open := f.Pay(t, eur(1000), tollgate.CaptureManual)
		f.settled(t)
		f.post(t)
		key := f.Key("repeated")
		account := f.MerchantAccount(t)
		ch, ans := f.Draft(t, account, eur(700), "shop.example", tollgate.CaptureManual)
		given, err := f.CreatePayment(t.Context(), f.Caller, key, account, ch, ans)
		must(t, err)
		repeated, err := f.CreatePayment(t.Context(), f.Caller, key, account, ch, ans)
		must(t, err)
		must(t, f.Move(t.Context(), ch.Payment.ID, tollgate.TriggerCancel))
		ids = append(ids, ch.Payment.ID)
		f.days(120)
		before, files := f.answers(t, append(ids, open.ID)), f.files(t)
		moved := a.move(t)
		if hot := a.hot(t, ids); hot+moved != len(ids) || moved < 50 {
			t.Errorf("%d payments of %d were moved, %d are in Redis", moved, len(ids), hot)
		}
		if a.hot(t, []string{open.ID}) != 1 {
			t.Error("a payment that is not at an end was moved")
		}
		sameAnswers(t, "moved", before, f.answers(t, append(ids, open.ID)))
		sameAnswers(t, "exported", files, f.files(t))
		if text, err := f.Given(t.Context(), repeated); err != nil || !repeated.Repeated || repeated.Shown == "" || string(text) != string(given.Body) {
			t.Errorf("made again: %s, %v; it was %s", text, err, given.Body)
		}
		a.open(t, archive.Options{CacheBytes: 1, Rows: 17})
		sameAnswers(t, "read by another process", before, f.answers(t, append(ids, open.ID)))
		testkit.Consistent(t, f.Store)
		if n := a.move(t); n != 0 {
			t.Errorf("%d more were moved", n)
		}
		for p := range a.Partitions() {
			if _, err := a.archive.Check(t.Context(), p, false, func(w archive.Finding) { t.Errorf("%+v", w) }); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range ids {
			row, _, err := a.archive.Row(t.Context(), id)
			if err != nil || a.hot(t, []string{id}) == 0 && !strings.HasPrefix(string(row), `{"id":"`+id+`"`) {
				t.Errorf("row of %s: %.60s, %v", id, row, err)
			}
		}
	})
}

// A payment that is moved while a page is read, between its authorization and itself, is not
// left out; nor are its refunds damaged.
func TestMovedWhileItIsRead(t *testing.T) {
	f := newFixture(t)
	a := f.archived(t, archive.Options{})
	p := f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	must(t, f.GiveBack(t.Context(), p.ID, 100, false))
	f.settled(t)
	f.days(120)
	before := f.answers(t, []string{p.ID})
	if n := a.move(t); n != 1 {
		t.Fatalf("%d were moved", n)
	}
	k := f.Space(f.Caller.Organization)
	raw, _ := f.raw(t)
	must(t, a.archive.Return(t.Context(), k, p.ID, nil))
	must(t, raw.Del(t.Context(), k.Object(p.ID)).Err())
	rows, _, _, err := f.Payments(t.Context(), f.Caller, ledger.TransactionQuery{Limit: 10})
	if err != nil || len(rows) != 1 || rows[0].ID != p.ID || rows[0].Damaged {
		t.Errorf("a page: %+v, %v", rows, err)
	}
	for field := range raw.HGetAll(t.Context(), k.Parts(p.ID)).Val() {
		if strings.Contains(field, rediskv.Document) {
			must(t, raw.HDel(t.Context(), k.Parts(p.ID), field).Err())
		}
	}
	refunds, err := f.Refunds(t.Context(), f.Caller, p.ID)
	if err != nil || len(refunds) != 1 || refunds[0].Damaged {
		t.Errorf("refunds: %+v, %v", refunds, err)
	}
	must(t, raw.Del(t.Context(), k.Parts(p.ID), k.Object(tollgate.TicketOf(p.ID))).Err())
	sameAnswers(t, "in the archive alone", before, f.answers(t, []string{p.ID}))
}

// Packs have payments of all organizations of a partition, and nobody is shown another's.
func TestArchivedOfAnother(t *testing.T) {
	shop := testkit.NewShop(t, rediskv.Options{URL: redistest.URL(t), Rules: []tollgate.RuleRef{testkit.CardFee}, Partitions: 1}, testkit.NewClock(), nil)
	f := &fixture{Shop: shop}
	other := &fixture{Shop: shop.Another(t, nil)}
	a := f.archived(t, archive.Options{})
	ids := map[*fixture]string{}
	for _, one := range []*fixture{f, other} {
		p := one.Pay(t, eur(1000), tollgate.CaptureManual)
		must(t, one.Move(t.Context(), p.ID, tollgate.TriggerCancel))
		ids[one] = p.ID
	}
	f.days(120)
	if n := a.move(t); n != 2 {
		t.Fatalf("%d were moved", n)
	}
	for one, id := range ids {
		if p, _, err := one.Payment(t.Context(), one.Caller, id); err != nil || p.ID != id {
			t.Errorf("its own: %v", err)
		}
		asks := f
		if one == f {
			asks = other
		}
		if p, _, err := asks.Payment(t.Context(), asks.Caller, id); testkit.Code(err) != "not_found" {
			t.Errorf("another's: %+v, %v", p, err)
		}
	}
}

// A payment that is refunded after it was moved is put back, goes on from where it was, and
// is moved again when its time has come; the older pack has it as it was, and nobody reads
// that.
func TestLateRefund(t *testing.T) {
	onShelves(t, func(t *testing.T, place place) {
		f := newFixture(t)
		a := f.archivedAt(t, place(t), archive.Options{})
		p := f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
		other := f.Pay(t, eur(500), tollgate.CaptureAutomatic)
		f.settled(t)
		f.days(120)
		if n := a.move(t); n != 2 {
			t.Fatalf("%d were moved", n)
		}
		if err := f.GiveBack(t.Context(), p.ID, 300, false); err != nil {
			t.Fatal(err)
		}
		if a.hot(t, []string{p.ID}) != 1 || a.hot(t, []string{other.ID}) != 0 {
			t.Error("the payment was not put back, or another one was")
		}
		now, _ := f.Read(t, p.ID)
		if now.AmountRefunded != eur(300) || now.Revision != p.Revision+1 {
			t.Errorf("refunded: %+v", now)
		}
		a.missed(t, p.ID)
		third := f.Pay(t, eur(1000), tollgate.CaptureAutomatic) // with which the refund is settled
		f.settled(t)
		testkit.Consistent(t, f.Store)
		f.days(60)
		if n := a.move(t); n != 0 {
			t.Errorf("%d were moved too early", n)
		}
		f.days(60)
		before := f.answers(t, []string{p.ID, other.ID, third.ID})
		if n := a.move(t); n != 2 {
			t.Errorf("%d were moved", n)
		}
		sameAnswers(t, "moved again", before, f.answers(t, []string{p.ID, other.ID, third.ID}))
		testkit.Consistent(t, f.Store)
		if left, err := f.Redis.ZCard(t.Context(), f.Space(f.Caller.Organization).Object("archive:returned")).Result(); err != nil || left != 0 {
			t.Errorf("%d are still to be moved, %v", left, err)
		}
	})
}

// missed loses the fields of each transaction of a payment that Redis has, and holds that a
// check says so, although the archive has it too.
func (a *archived) missed(t testing.TB, payment string) {
	t.Helper()
	parts := a.Space(a.Caller.Organization).Parts(payment)
	is, err := a.Redis.HGetAll(t.Context(), parts).Result()
	if err != nil {
		t.Fatal(err)
	}
	list := a.allTransactions(t, ledger.TransactionQuery{PaymentID: payment, Limit: 10})
	if len(list) < 3 {
		t.Fatalf("there are %d transactions", len(list))
	}
	for _, x := range list {
		_, number, _ := tollgate.NumberIn(x.ID)
		lost := map[string]string{}
		for name, text := range is {
			if strings.HasPrefix(name, number) {
				lost[name] = text
			}
		}
		if n, err := a.Redis.HDel(t.Context(), parts, slices.Collect(maps.Keys(lost))...).Result(); err != nil || n == 0 {
			t.Fatalf("%d fields of %s are lost, %v", n, x.ID, err)
		}
		if found := testkit.Findings(t, a.Store); !slices.ContainsFunc(found, func(f checks.Finding) bool { return f.ID == x.ID || f.ID == payment }) {
			t.Errorf("%s (%s) is lost, and the check says %v", x.ID, x.Type, found)
		}
		if err := a.Redis.HSet(t.Context(), parts, lost).Err(); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Consistent(t, a.Store)
}

// What is captured and not settled stays, and is moved once it is; younger ones do not wait
// for it.
func TestUnsettledStays(t *testing.T) {
	f := newFixture(t)
	a := f.archived(t, archive.Options{})
	waits := f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	f.days(8)
	if err := f.settle(t.Context(), func(*tollgate.Payout) tollgate.PayoutOutcome { return tollgate.PayoutOutcome{Failure: "closed"} }); err == nil {
		t.Log("the payout failed")
	}
	later := f.Pay(t, eur(1000), tollgate.CaptureManual)
	if err := f.Move(t.Context(), later.ID, tollgate.TriggerCancel); err != nil {
		t.Fatal(err)
	}
	f.days(110)
	a.move(t)
	if a.hot(t, []string{waits.ID}) != 1 || a.hot(t, []string{later.ID}) != 0 {
		t.Error("what is not settled was moved, or kept another one from it")
	}
	testkit.Consistent(t, f.Store)
	if err := f.settle(t.Context(), paid); err != nil {
		t.Fatal(err)
	}
	f.settled(t)
	f.days(120)
	a.move(t)
	if a.hot(t, []string{waits.ID}) != 0 {
		t.Error("it was not moved once it was settled")
	}
	testkit.Consistent(t, f.Store)
}

// An instance that does not know where the archive is says so instead of 404.
func TestArchiveUnknown(t *testing.T) {
	onShelves(t, func(t *testing.T, place place) {
		f := newFixture(t)
		a := f.archivedAt(t, place(t), archive.Options{})
		p := f.Pay(t, eur(1000), tollgate.CaptureManual)
		if err := f.Move(t.Context(), p.ID, tollgate.TriggerCancel); err != nil {
			t.Fatal(err)
		}
		f.days(120)
		other := f.with(t, rediskv.Options{})
		if _, _, err := other.Payment(t.Context(), f.Caller, "pay_00000000000000000000000000"); testkit.Code(err) != "not_found" {
			t.Errorf("nothing is archived yet: %v", err)
		}
		a.move(t)
		if _, _, err := other.Payment(t.Context(), f.Caller, p.ID); testkit.Code(err) != "archive_unavailable" {
			t.Errorf("it does not know the archive: %v", err)
		}
		lose(t, a.shelves[0], "packs/")
		a.open(t, archive.Options{})
		if _, _, err := f.Payment(t.Context(), f.Caller, p.ID); testkit.Code(err) != "archive_unavailable" {
			t.Errorf("the files are gone: %v", err)
		}
		fresh := f.Pay(t, eur(100), tollgate.CaptureManual)
		if now, _ := f.Read(t, fresh.ID); now.ID != fresh.ID {
			t.Error("a payment that is in Redis needs no archive")
		}
		if _, _, err := f.Payment(t.Context(), f.Caller, "pay_00000000000000000000000000"); testkit.Code(err) != "not_found" {
			t.Errorf("no pack can have it: %v", err)
		}
	})
}

// A worker may die behind any step. Another one goes on from there: everything is moved, and
// every answer is as before.
func TestArchiveWorkerDies(t *testing.T) {
	onShelves(t, func(t *testing.T, place place) {
		f := newFixture(t)
		a := f.archivedAt(t, place(t), archive.Options{})
		random := rand.New(rand.NewPCG(18, 4))
		var ids []string
		for dies := 1; ; dies++ {
			ids = append(ids, f.play(t, random, 3)...)
			ids = append(ids, f.Pay(t, eur(int64(100+dies)), tollgate.CaptureAutomatic).ID)
			f.settled(t)
			f.days(200)
			before := f.answers(t, ids)
			ctx, die := context.WithCancel(t.Context())
			steps, dead := 0, ""
			a.open(t, archive.Options{Rows: 60, Step: func(_ int, step string) {
				if steps++; steps == dies {
					dead = step
					die()
				}
			}})
			for p := range a.Partitions() {
				if _, err := a.archive.Archive(ctx, p, archiveAfter); err != nil && ctx.Err() == nil {
					t.Fatal(err)
				}
			}
			sameAnswers(t, "dead behind "+dead, before, f.answers(t, ids))
			a.open(t, archive.Options{})
			a.move(t)
			sameAnswers(t, "after "+dead, before, f.answers(t, ids))
			if lines, done, err := a.archive.Manifest(t.Context(), f.Partition(f.Caller.Organization)); err != nil || done != int64(len(lines)) {
				t.Errorf("dead behind %s: %d of %d packs are removed from Redis, %v", dead, done, len(lines), err)
			}
			if t.Failed() {
				break
			}
			if dead == "" {
				t.Logf("it can die behind %d steps", steps)
				break
			}
		}
		testkit.Consistent(t, f.Store)
		// Whoever repeats a step makes the same files.
		if found := a.findings(t); len(found) != 0 {
			t.Errorf("%+v", found)
		}
	})
}

// archivedPack is the name of a line's pack.
func archivedPack(l *archive.Line, sum packs.Summary) string {
	return fmt.Sprintf("packs/p%02d/%s", l.Partition, packs.FileName(sum.SHA256))
}

// findings are those of a check of the archive.
func (a *archived) findings(t testing.TB) (list []archive.Finding) {
	t.Helper()
	for p := range a.Partitions() {
		if _, err := a.archive.Check(t.Context(), p, false, func(f archive.Finding) { list = append(list, f) }); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// The check of an archive names what is missing, what is damaged, what another one has, and
// files that nothing refers to.
func TestArchiveCheck(t *testing.T) {
	onShelves(t, func(t *testing.T, place place) {
		f := newFixture(t)
		a := f.archivedAt(t, place(t), archive.Options{Rows: 2})
		var ids []string
		for range 8 {
			p := f.Pay(t, eur(1000), tollgate.CaptureManual)
			ids = append(ids, p.ID)
			must(t, f.Move(t.Context(), p.ID, tollgate.TriggerCancel))
			f.Clock.Advance(time.Second)
		}
		f.days(120)
		a.move(t)
		lines, _, err := a.archive.Manifest(t.Context(), f.Partition(f.Caller.Organization))
		if err != nil || len(lines) != 4 || len(a.findings(t)) != 0 {
			t.Fatalf("%d lines, %v, %v", len(lines), a.findings(t), err)
		}
		on := a.shelves[0]
		must(t, on.Remove(t.Context(), archivedPack(lines[0], lines[0].Payments)))
		spoilFile(t, on, archivedPack(lines[1], lines[1].Payments), func(text []byte) { text[len(text)/4] ^= 1 })
		must(t, on.Remove(t.Context(), lines[2].Name()))
		lay(t, on, archivedPack(lines[0], packs.Summary{SHA256: strings.Repeat("0", 64)}), "?")
		want := []struct {
			line   int64
			orphan bool
		}{{1, false}, {2, false}, {3, false}, {0, true}}
		found := a.findings(t)
		for i, w := range want {
			if len(found) != len(want) || found[i].Line != w.line || found[i].Orphan != w.orphan || found[i].File == "" || found[i].Message == "" {
				t.Fatalf("findings: %+v", found)
			}
		}
		a.open(t, archive.Options{})
		for i, want := range []string{"archive_unavailable", "archive_unavailable", "record_damaged", "record_damaged", "", "", "", ""} {
			if _, _, err := f.Payment(t.Context(), f.Caller, ids[i]); testkit.Code(err) != want {
				t.Errorf("payment %d: %v, and not %q", i, err, want)
			}
		}
		if _, _, _, err := f.Payments(t.Context(), f.Caller, ledger.TransactionQuery{Limit: 100, Descending: true}); testkit.Code(err) != "archive_unavailable" {
			t.Errorf("a page with a payment whose pack is missing: %v", err)
		}
		more := f.Pay(t, eur(1000), tollgate.CaptureManual)
		must(t, f.Move(t.Context(), more.ID, tollgate.TriggerCancel))
		f.days(120)
		elsewhere := f.archivedAt(t, place(t), archive.Options{})
		if _, err := elsewhere.archive.Archive(t.Context(), lines[0].Partition, archiveAfter); testkit.Code(err) != "archive_unavailable" {
			t.Errorf("the directory is empty, as one whose volume is not mounted: %v", err)
		}
		a.open(t, archive.Options{})
		if a.move(t) != 1 {
			t.Error("a worker that has the directory does not go on")
		}
		ids = append(ids, more.ID)
		rows, _, _, err := f.Payments(t.Context(), f.Caller, ledger.TransactionQuery{Limit: 7, Descending: true})
		if err != nil || len(rows) != 7 || rows[4].Damaged || !rows[5].Damaged || !rows[6].Damaged || rows[5].ID != ids[3] {
			t.Errorf("a page with two that are damaged: %+v, %v", rows, err)
		}
	})
}

// With a copy, each of two places has everything. What is missing or damaged in one is read in
// the other, and healed from there.
func TestArchiveCopy(t *testing.T) {
	onShelves(t, func(t *testing.T, place place) {
		f := newFixture(t)
		a := &archived{fixture: f, at: place(t), copied: place(t)}
		a.open(t, archive.Options{Rows: 20})
		ids := f.play(t, rand.New(rand.NewPCG(18, 7)), 50)
		f.settled(t)
		for _, id := range ids {
			must(t, f.ExpirePayment(t.Context(), f.Caller.Organization, id))
		}
		f.settled(t)
		f.days(120)
		before := f.answers(t, ids)
		a.move(t)
		lines, _, err := a.archive.Manifest(t.Context(), f.Partition(f.Caller.Organization))
		if err != nil || len(lines) < 2 || len(a.findings(t)) != 0 {
			t.Fatalf("%d lines, %v", len(lines), err)
		}
		turned := func(text []byte) {
			for at := range text {
				text[at] ^= 1
			}
		}
		must(t, a.shelves[0].Remove(t.Context(), archivedPack(lines[0], lines[0].Payments)))
		must(t, a.shelves[1].Remove(t.Context(), lines[1].Name()))
		spoilFile(t, a.shelves[0], archivedPack(lines[1], lines[1].Parts), turned)
		spoilFile(t, a.shelves[1], archivedPack(lines[1], lines[1].Payments), turned)
		a.open(t, archive.Options{Rows: 20})
		sameAnswers(t, "with half of each", before, f.answers(t, ids))
		count := func(heal, healed bool, want int) {
			t.Helper()
			n := 0
			for p := range a.Partitions() {
				_, err := a.archive.Check(t.Context(), p, heal, func(w archive.Finding) {
					if n++; w.Orphan || w.Healed != healed {
						t.Errorf("%+v", w)
					}
				})
				must(t, err)
			}
			if n != want {
				t.Errorf("%d findings", n)
			}
		}
		count(false, false, 4)
		count(true, true, 4)
		count(false, false, 0)
		for _, at := range []string{a.at, a.copied} {
			f.archivedAt(t, at, archive.Options{})
			sameAnswers(t, "from one alone", before, f.answers(t, ids))
		}
		// Nothing is removed from Redis that only one of them has.
		more := f.Pay(t, eur(1000), tollgate.CaptureManual)
		must(t, f.Move(t.Context(), more.ID, tollgate.TriggerCancel))
		f.days(120)
		there := a.copied
		a.copied = place(t)
		a.open(t, archive.Options{})
		if _, err := a.archive.Archive(t.Context(), lines[0].Partition, archiveAfter); testkit.Code(err) != "archive_unavailable" || a.hot(t, []string{more.ID}) != 1 {
			t.Errorf("without the copy: %v", err)
		}
		a.copied = there
		a.open(t, archive.Options{})
		if n := a.move(t); n != 1 {
			t.Errorf("with the copy %d were moved", n)
		}
	})
}

// stepped is an archive of the fixture of which something happens behind a step.
func (a *archived) stepped(t *testing.T, behind string, happens func()) {
	t.Helper()
	once := sync.OnceFunc(happens)
	a.open(t, archive.Options{Step: func(_ int, step string) {
		if strings.HasPrefix(step, behind) {
			once()
		}
	}})
}

// A payment that is refunded while it is being moved stays as it is then, and is moved later.
func TestRefundedWhileItIsMoved(t *testing.T) {
	onShelves(t, func(t *testing.T, place place) {
		for _, step := range []string{"written", "put manifest", "added"} {
			f := newFixture(t)
			a := f.archivedAt(t, place(t), archive.Options{})
			p, other := f.Pay(t, eur(1000), tollgate.CaptureAutomatic), f.Pay(t, eur(500), tollgate.CaptureAutomatic)
			f.settled(t)
			f.days(120)
			a.stepped(t, step, func() { must(t, f.GiveBack(t.Context(), p.ID, 300, false)) })
			if n := a.move(t); n != 1 || a.hot(t, []string{p.ID}) != 1 || a.hot(t, []string{other.ID}) != 0 {
				t.Errorf("%s: %d were moved", step, n)
			}
			if now, _ := f.Read(t, p.ID); now.AmountRefunded != eur(300) {
				t.Errorf("%s: %s are refunded", step, now.AmountRefunded)
			}
			// Who puts it back from the pack, late, changes nothing.
			must(t, a.archive.Return(t.Context(), f.Space(f.Caller.Organization), p.ID, nil))
			f.Pay(t, eur(2000), tollgate.CaptureAutomatic)
			f.settled(t)
			testkit.Consistent(t, f.Store)
			f.days(120)
			before := f.answers(t, []string{p.ID, other.ID})
			if n := a.move(t); n != 2 || a.hot(t, []string{p.ID}) != 0 {
				t.Errorf("%s: later %d were moved", step, n)
			}
			sameAnswers(t, step, before, f.answers(t, []string{p.ID, other.ID}))
		}
	})
}

// Of two workers that have made a pack of the same payments, the slower one adds none. Once
// its line is on the shelf, the faster one adds that.
func TestSlowerWorkerAddsNone(t *testing.T) {
	for step, orphans := range map[string]int{"read": 1, "put manifest": 0} {
		f := newFixture(t)
		a := f.archived(t, archive.Options{})
		p := f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
		f.settled(t)
		f.days(120)
		b := f.archivedAt(t, a.at, archive.Options{})
		a.stepped(t, step, func() {
			if n := b.move(t); n != 1 {
				t.Errorf("%s: the faster one moved %d", step, n)
			}
			f.Clock.Advance(time.Second) // so that their lines are not the same
		})
		if n := a.move(t); orphans > 0 && n != 0 {
			t.Errorf("%s: the slower one moved %d", step, n)
		}
		if lines, done, err := a.archive.Manifest(t.Context(), f.Partition(f.Caller.Organization)); err != nil || len(lines) != 1 || done != 1 {
			t.Errorf("%s: %d lines, %d done, %v", step, len(lines), done, err)
		}
		if now, _ := f.Read(t, p.ID); now.ID != p.ID || len(a.findings(t)) != orphans || orphans > 0 && !a.findings(t)[0].Orphan {
			t.Errorf("%s: findings: %+v", step, a.findings(t))
		}
	}
}

// A line is added behind the one before, or not at all.
func TestLinesHaveNoGaps(t *testing.T) {
	f := newFixture(t)
	a := f.archived(t, archive.Options{})
	f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	f.settled(t)
	f.days(120)
	raw, _ := f.raw(t)
	p := f.Partition(f.Caller.Organization)
	a.stepped(t, "put manifest", func() { must(t, raw.HSet(t.Context(), rediskv.ArchiveKey(p), "n", "7").Err()) })
	if n, err := a.archive.Archive(t.Context(), p, archiveAfter); n != 0 || err != nil {
		t.Errorf("%d were moved, %v", n, err)
	}
	if fields, err := raw.HGetAll(t.Context(), rediskv.ArchiveKey(p)).Result(); err != nil || len(fields) != 1 {
		t.Errorf("the manifest: %v, %v", fields, err)
	}
}

// Packs are not made for a few payments, until these have waited for a tenth longer than
// asked.
func TestPacksAreNotSmall(t *testing.T) {
	f := newFixture(t)
	used := map[int]bool{}
	for _, c := range []struct {
		rows, days, moved int
	}{{0, 89, 0}, {0, 95, 0}, {0, 100, 3}, {2, 95, 2}, {2, 89, 0}} {
		a := f.archived(t, archive.Options{Rows: c.rows})
		shop := &fixture{Shop: f.Another(t, nil)}
		for used[f.Partition(shop.Caller.Organization)] { // each is alone in its partition
			shop = &fixture{Shop: f.Another(t, nil)}
		}
		used[f.Partition(shop.Caller.Organization)] = true
		for range 3 {
			p := shop.Pay(t, eur(1000), tollgate.CaptureManual)
			must(t, shop.Move(t.Context(), p.ID, tollgate.TriggerCancel))
		}
		began := f.Clock.Now()
		f.days(c.days)
		n, err := a.archive.Archive(t.Context(), f.Partition(shop.Caller.Organization), archiveAfter)
		if err != nil || n != c.moved {
			t.Errorf("%d rows, after %d days: %d were moved, %v", c.rows, c.days, n, err)
		}
		f.Clock.Set(began)
	}
}

// Two workers at once move each payment once.
func TestTwoArchiveAtOnce(t *testing.T) {
	onShelves(t, func(t *testing.T, place place) {
		f := newFixture(t)
		a := f.archivedAt(t, place(t), archive.Options{Rows: 5})
		ids := f.play(t, rand.New(rand.NewPCG(18, 5)), 30)
		f.settled(t)
		for _, id := range ids {
			must(t, f.ExpirePayment(t.Context(), f.Caller.Organization, id))
		}
		f.settled(t)
		f.days(120)
		before := f.answers(t, ids)
		b := f.archivedAt(t, a.at, archive.Options{Rows: 7})
		p := f.Partition(f.Caller.Organization)
		var both sync.WaitGroup
		for _, one := range []*archived{a, b} {
			both.Go(func() {
				for range 20 {
					if _, err := one.archive.Archive(t.Context(), p, archiveAfter); err != nil {
						t.Error(err)
					}
				}
			})
		}
		both.Wait()
		sameAnswers(t, "moved by two", before, f.answers(t, ids))
		lines, done, err := a.archive.Manifest(t.Context(), p)
		if err != nil || len(lines) == 0 || done != int64(len(lines)) {
			t.Fatalf("%d lines, %d done, %v", len(lines), done, err)
		}
		rows := int64(0)
		for _, l := range lines {
			rows += l.Payments.Rows
		}
		if hot := a.hot(t, ids); int(rows)+hot != len(ids) {
			t.Errorf("%d payments are in packs and %d in Redis, of %d", rows, hot, len(ids))
		}
		testkit.Consistent(t, f.Store)
	})
}

// Whichever bit of the manifest is another one, nobody is told that a payment is not there,
// or anything else of it than before.
func TestBitsOfTheManifest(t *testing.T) {
	f := newFixture(t)
	a := f.archived(t, archive.Options{Rows: 1})
	for range 2 {
		p := f.Pay(t, eur(1000), tollgate.CaptureManual)
		must(t, f.Move(t.Context(), p.ID, tollgate.TriggerCancel))
	}
	last := f.Pay(t, eur(1000), tollgate.CaptureManual)
	must(t, f.Move(t.Context(), last.ID, tollgate.TriggerCancel))
	before, _ := f.Read(t, last.ID)
	f.days(120)
	if n := a.move(t); n != 3 {
		t.Fatalf("%d were moved", n)
	}
	raw, _ := f.raw(t)
	key := rediskv.ArchiveKey(f.Partition(f.Caller.Organization))
	fields, err := raw.HGetAll(t.Context(), key).Result()
	must(t, err)
	outcomes := map[string]int{}
	for name, text := range fields {
		bits(text, func(at int, turned string) {
			must(t, raw.HSet(t.Context(), key, name, turned).Err())
			a.UseArchive(archive.New(a.DB, archive.Options{Shelves: a.shelves}))
			p, _, err := f.Payment(t.Context(), f.Caller, last.ID)
			switch code := testkit.Code(err); {
			case err == nil && reflect.DeepEqual(p, before):
				outcomes["as before"]++
			case code == "archive_unavailable", code == "record_damaged":
				outcomes[code]++
			default:
				t.Errorf("%s: byte %d of %q is %q: %+v, %v", name, at, text, turned[at], p, err)
			}
		})
		must(t, raw.HSet(t.Context(), key, name, text).Err())
	}
	if outcomes["archive_unavailable"] == 0 || outcomes["as before"] == 0 {
		t.Errorf("outcomes: %v", outcomes)
	}
}

// finished is a payment that is to be moved, and a turn of a worker which does that.
func (f *fixture) finished(t *testing.T) (p *tollgate.Payment, turn func(through *fixture) error) {
	t.Helper()
	p = f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	f.settled(t)
	f.days(120)
	own := f.archived(t, archive.Options{})
	return p, func(through *fixture) error {
		a := through.archivedAt(t, own.at, archive.Options{})
		n, err := a.archive.Archive(t.Context(), through.Partition(through.Caller.Organization), archiveAfter)
		if err == nil && n < 1 {
			err = fmt.Errorf("%d payments were moved", n)
		}
		return err
	}
}

var archiveResends = []resend{
	{"add_pack", "somebody pays", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		_, turn := f.finished(t)
		return turn, func() { f.Pay(t, eur(100), tollgate.CaptureManual) }
	}},
	{"remove_payments", "one of them is refunded", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		p, turn := f.finished(t)
		return turn, func() { must(t, f.GiveBack(t.Context(), p.ID, 300, false)) }
	}},
	{"end_pack", "one of them is refunded", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		p, turn := f.finished(t)
		return turn, func() { must(t, f.GiveBack(t.Context(), p.ID, 300, false)) }
	}},
	{"return_payment", "somebody pays", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		p, turn := f.finished(t)
		must(t, turn(f))
		return func(through *fixture) error {
				_ = turn(through) // it knows the archive then
				by := *through.Shop
				by.Caller = rediskv.Caller{Organization: f.Caller.Organization} // who asks is compared by what comes after it
				return by.GiveBack(t.Context(), p.ID, 300, false)
			},
			func() { f.Pay(t, eur(100), tollgate.CaptureManual) }
	}},
}

// A payment that has nothing of what it may have is moved as well: no metadata, no captures,
// no counters.
func TestBarePaymentIsMoved(t *testing.T) {
	f := newFixture(t)
	a := f.archived(t, archive.Options{})
	for _, minor := range []int64{700, 701} {
		p := f.Pay(t, eur(minor), tollgate.CaptureManual)
		if (len(p.Metadata) == 0) != (minor == 700) {
			t.Fatalf("%d has metadata %v", minor, p.Metadata)
		}
		must(t, f.Move(t.Context(), p.ID, tollgate.TriggerCancel))
	}
	f.days(120)
	if n := a.move(t); n != 2 {
		t.Errorf("%d were moved", n)
	}
}
