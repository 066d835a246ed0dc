package rediskv_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/checks"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/packs"
	"tollgate/rediskv/packs/shelf/s3/s3test"
	"tollgate/rediskv/record"
	"tollgate/rediskv/testkit"
)

// lists are all lists of transactions that Redis has of the organization.
func (f *fixture) lists(t testing.TB) map[string][]redis.Z {
	t.Helper()
	raw := rawClient(t, f.URL)
	k := f.Space(f.Caller.Organization)
	all := map[string][]redis.Z{}
	for _, pattern := range []string{k.Transactions(), k.Transactions() + ":*", k.Object("ma_*:pay:*")} {
		for _, key := range scanKeys(t, raw, strings.NewReplacer("{", `\{`, "}", `\}`).Replace(pattern)) {
			entries, err := raw.ZRangeWithScores(t.Context(), key, 0, -1).Result()
			must(t, err)
			all[key] = entries
		}
	}
	return all
}

func (a *archived) spans(t testing.TB) []ledger.Span {
	t.Helper()
	hash, err := a.Redis.HGetAll(t.Context(), ledger.ArchivedKey(a.Space(a.Caller.Organization))).Result()
	must(t, err)
	return ledger.SpansIn(hash)
}

// holdsListsOf holds that the lists of Redis have transactions of payments that Redis has, and
// of no others.
func (a *archived) holdsListsOf(t testing.TB) {
	t.Helper()
	k := a.Space(a.Caller.Organization)
	for key, entries := range a.lists(t) {
		for _, z := range entries {
			m := ledger.MemberAt(fmt.Sprint(z.Member), int64(z.Score))
			if n, err := a.Redis.Exists(t.Context(), m.Place(k).Key).Result(); err != nil || n == 0 {
				t.Errorf("%s has %s, and Redis does not, %v", key, m.ID, err)
			}
		}
	}
}

// Lists have what they had before it was archived, and Redis has none of it: whichever part
// of a list is asked for, upwards or downwards.
func TestListsLeaveRedis(t *testing.T) {
	onShelves(t, func(t *testing.T, place place) {
		f := newFixture(t)
		a := f.archivedAt(t, place(t), archive.Options{Rows: 29})
		random := rand.New(rand.NewPCG(18, 31))
		ids := f.play(t, random, 90)
		f.settled(t)
		for _, id := range ids {
			must(t, f.ExpirePayment(t.Context(), f.Caller.Organization, id))
		}
		f.settled(t)
		f.days(120)
		before := f.lists(t)
		if moved := a.move(t); moved < 80 {
			t.Fatalf("%d were moved", moved)
		}
		a.holdsListsOf(t)
		k, after, spans := f.Space(f.Caller.Organization), f.lists(t), a.spans(t)
		if len(spans) < 3 || len(before) < 6 {
			t.Fatalf("%d spans, %d lists", len(spans), len(before))
		}
		for range 300 {
			keys := []string{pick(random, before), pick(random, before)}[:1+random.IntN(2)]
			slices.Sort(keys)
			keys = slices.Compact(keys)
			low, high := random.Int64N(4000), random.Int64N(4000)
			l := ledger.Listing{Lists: keys, Between: [][2]int64{{min(low, high), max(low, high)}}, Descending: random.IntN(2) == 0, Most: random.IntN(12)}
			if random.IntN(3) == 0 {
				l.Between = append(l.Between, [2]int64{max(low, high) + 5, max(low, high) + 80})
				l.Most = 0
			}
			is, err := a.archive.Lists(t.Context(), k, spans, l)
			must(t, err)
			for _, key := range keys {
				is = append(is, within(after[key], l)...)
			}
			var want []ledger.Indexed
			for _, key := range keys {
				want = append(want, within(before[key], l)...)
			}
			if is, want = l.Cut(is), l.Cut(want); !slices.Equal(is, want) {
				t.Fatalf("%+v: %v\nwant %v", l, is, want)
			}
		}
	})
}

// within are the entries of a list that are asked for.
func within(entries []redis.Z, l ledger.Listing) (members []ledger.Indexed) {
	for _, z := range entries {
		if slices.ContainsFunc(l.Between, func(b [2]int64) bool { return int64(z.Score) >= b[0] && int64(z.Score) <= b[1] }) {
			members = append(members, ledger.MemberAt(fmt.Sprint(z.Member), int64(z.Score)))
		}
	}
	slices.SortFunc(members, func(a, b ledger.Indexed) int { return cmp.Compare(a.Position, b.Position) })
	return members
}

func pick[T any](random *rand.Rand, m map[string]T) string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys[random.IntN(len(keys))]
}

// Lists of thousands of entries, in several pieces and frames, are read from any place.
func TestLongLists(t *testing.T) {
	f := newFixture(t)
	a := f.archived(t, archive.Options{Rows: 3000})
	for range 2200 {
		p := f.Pay(t, eur(1000), tollgate.CaptureManual)
		must(t, f.Move(t.Context(), p.ID, tollgate.TriggerCancel))
		f.Clock.Advance(time.Second)
	}
	f.days(120)
	before := f.lists(t)
	if n := a.move(t); n != 2200 {
		t.Fatalf("%d were moved", n)
	}
	random, k, spans := rand.New(rand.NewPCG(18, 32)), f.Space(f.Caller.Organization), a.spans(t)
	for range 200 {
		key := pick(random, before)
		low := random.Int64N(80_000)
		l := ledger.Listing{Lists: []string{key}, Between: [][2]int64{{low, low + random.Int64N(30_000)}}, Descending: random.IntN(2) == 0, Most: 1 + random.IntN(1000)}
		is, err := a.archive.Lists(t.Context(), k, spans, l)
		must(t, err)
		want := within(before[key], l)
		if is, want = l.Cut(is), l.Cut(want); !slices.Equal(is, want) {
			t.Fatalf("%+v: %d entries, want %d", l, len(is), len(want))
		}
	}
	lines, _, err := a.archive.Manifest(t.Context(), f.Partition(f.Caller.Organization))
	must(t, err)
	if each := lines[0].Lists.Size / lines[0].Payments.Rows; each > 120 {
		t.Errorf("lists take %d bytes a payment", each)
	}
}

// A payment that is put back is in the lists of Redis again, and leaves them when it is
// archived once more; no answer changes, whichever pack has an older state of it.
func TestListsOfALateRefund(t *testing.T) {
	f := newFixture(t)
	a, ids := f.movedPayments(t, 3, directory(t), "")
	f.post(t)
	must(t, f.GiveBack(t.Context(), ids[1], 300, false))
	a.holdsListsOf(t)
	k := f.Space(f.Caller.Organization)
	for key, want := range map[string]int64{k.Transactions(): 0, k.TransactionsOf(f.Config.MerchantAccounts[0].ID): 6, k.TransactionsIn("captured"): 1, k.TransactionsIn("settled"): 2} { // a payout, and what belongs to the payment
		if n, err := f.Redis.ZCard(t.Context(), key).Result(); err != nil || n != want {
			t.Errorf("%s has %d, want %d, %v", key, n, want, err)
		}
	}
	testkit.Consistent(t, f.Store)
	f.Pay(t, eur(1000), tollgate.CaptureAutomatic) // with which the refund is settled
	f.settled(t)
	f.days(120)
	before := f.answers(t, ids)
	if n := a.move(t); n != 2 {
		t.Errorf("%d were moved", n)
	}
	a.holdsListsOf(t)
	sameAnswers(t, "moved again", before, f.answers(t, ids))
	testkit.Consistent(t, f.Store)
}

// What Redis says of the lists in the archive is compared with these, and put right.
func TestSpansAreChecked(t *testing.T) {
	f := newFixture(t)
	a, ids := f.movedPayments(t, 3, directory(t), "")
	before := f.answers(t, ids)
	key := ledger.ArchivedKey(f.Space(f.Caller.Organization))
	for what, spoil := range map[string]func() error{
		"lost":    func() error { return f.Redis.HDel(t.Context(), key, "1").Err() },
		"narrow":  func() error { return f.Redis.HSet(t.Context(), key, "1", "16-16").Err() },
		"no span": func() error { return f.Redis.HSet(t.Context(), key, "1", "?").Err() },
	} {
		must(t, spoil())
		found := slices.DeleteFunc(testkit.Findings(t, f.Store), func(w checks.Finding) bool { return w.Object != "organization" })
		if len(found) != 1 || !strings.Contains(found[0].Message, "line 1 of the archive has places") || found[0].Repair == "" {
			t.Fatalf("%s: %v", what, found)
		}
		must(t, f.Repair(t.Context(), found[0]))
		testkit.Consistent(t, f.Store)
		other := &archived{fixture: f.with(t, rediskv.Options{}), at: a.at}
		other.open(t, archive.Options{})
		sameAnswers(t, what, before, other.answers(t, ids))
	}
}

// Lists that are not on any shelf are made again of the payments.
func TestListsAreMadeAgain(t *testing.T) {
	onShelves(t, func(t *testing.T, place place) {
		f := newFixture(t)
		a, ids := f.movedPayments(t, 3, place(t), place(t))
		before := f.answers(t, ids)
		lines, _, err := a.archive.Manifest(t.Context(), f.Partition(f.Caller.Organization))
		must(t, err)
		name := archivedPack(lines[0], *lines[0].Lists)
		spoilFile(t, a.shelves[0], name, func(text []byte) { text[20] ^= 1 })
		must(t, a.shelves[1].Remove(t.Context(), name))
		a.open(t, archive.Options{})
		if _, _, _, err := f.Payments(t.Context(), f.Caller, ledger.TransactionQuery{Limit: 2}); testkit.Code(err) != "archive_unavailable" {
			t.Errorf("without its lists: %v", err)
		}
		if _, _, err := f.Payment(t.Context(), f.Caller, ids[0]); err != nil {
			t.Errorf("a payment by its identifier: %v", err)
		}
		if found := a.findings(t); len(found) != 2 || found[0].Healed || found[1].Healed {
			t.Errorf("found %+v", found)
		}
		if _, err := a.archive.Check(t.Context(), lines[0].Partition, true, func(f archive.Finding) {
			if !f.Healed || f.File != name {
				t.Errorf("%+v", f)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if found := a.findings(t); len(found) != 0 {
			t.Errorf("healed: %+v", found)
		}
		sameAnswers(t, "healed", before, f.answers(t, ids))
	})
}

// Lists are compared by what they have, and not by how they were compressed: what is right for
// one release is for the next.
func TestListsAreCompared(t *testing.T) {
	for _, wrong := range []bool{false, true} {
		f := newFixture(t)
		a, _ := f.movedPayments(t, 3, directory(t), "")
		partition := f.Partition(f.Caller.Organization)
		lines, _, err := a.archive.Manifest(t.Context(), partition)
		must(t, err)
		rows := a.rows(t, archivedPack(lines[0], *lines[0].Lists))
		if wrong {
			rows[0] = strings.Replace(rows[0], `"places":[`, `"places":[16,`, 1)
			rows[0] = strings.Replace(rows[0], `"members":[`, `"members":["01m7yzmhg0e7z3a1sv0sc07s00+",`, 1)
		}
		file, sum := packedOtherwise(t, partition, rows)
		lay(t, a.shelves[0], archivedPack(lines[0], sum), file)
		text, err := json.Marshal(sum, json.Deterministic(true))
		must(t, err)
		was := lines[0].Text()
		begin := strings.Index(was, `"lists":{`) + len(`"lists":`)
		end := begin + strings.Index(was[begin:], "}") + 1
		line, err := archive.ParseLine(was[:begin] + string(text) + was[end:])
		must(t, err)
		lay(t, a.shelves[0], line.Name(), line.Text())
		key := rediskv.ArchiveKey(partition)
		must(t, f.Redis.HSet(t.Context(), key, "1", record.EnvelopedJSON(key+":1", line.Text())).Err())
		a.open(t, archive.Options{})
		found := slices.DeleteFunc(a.findings(t), func(f archive.Finding) bool { return f.Orphan }) // of the line before
		if wrong != (len(found) == 1) || wrong && !strings.Contains(found[0].Message, "are not those of its payments") {
			t.Errorf("wrong: %v; found %+v", wrong, found)
		}
	}
}

// rows are those of a pack.
func (a *archived) rows(t testing.TB, name string) (rows []string) {
	t.Helper()
	object, err := a.shelves[0].Read(t.Context(), name)
	must(t, err)
	defer object.Close()
	pack, err := packs.Open(t.Context(), object, object.Size())
	must(t, err)
	for n := range pack.Index().Frames {
		frame, err := pack.Frame(t.Context(), n)
		must(t, err)
		for _, row := range frame.Rows() {
			rows = append(rows, string(row))
		}
	}
	return rows
}

// packedOtherwise is a pack of lists whose index says that it is another kind: another file
// with the same rows.
func packedOtherwise(t testing.TB, partition int, rows []string) (file string, sum packs.Summary) {
	t.Helper()
	var to strings.Builder
	w := packs.NewWriter(&to, "lists_otherwise", partition)
	for _, row := range rows {
		id, _, _ := strings.Cut(strings.TrimPrefix(row, `{"id":"`), `"`)
		must(t, w.Add(id, []byte(row)))
	}
	sum, err := w.Close()
	must(t, err)
	return to.String(), sum
}

// A line of the first format has no lists: Redis keeps its own, and they are read beside those
// of later lines.
func TestLinesWithoutLists(t *testing.T) {
	f := newFixture(t)
	a := f.archived(t, archive.Options{})
	var ids []string
	for range 3 {
		ids = append(ids, f.Pay(t, eur(1000), tollgate.CaptureAutomatic).ID)
	}
	f.settled(t)
	f.days(120)
	lists := f.lists(t)
	if n := a.move(t); n != 3 {
		t.Fatalf("%d were moved", n)
	}
	partition := f.Partition(f.Caller.Organization)
	key, k := rediskv.ArchiveKey(partition), f.Space(f.Caller.Organization)
	lines, _, err := a.archive.Manifest(t.Context(), partition)
	must(t, err)
	// As the release before wrote it.
	text := lines[0].Text()
	begin := strings.Index(text, `,"lists":{`)
	end := begin + strings.Index(text[begin:], "}") + 1
	text = strings.Replace(text[:begin]+text[end:], "tollgate-archive/2", "tollgate-archive/1", 1)
	first, err := archive.ParseLine(text)
	must(t, err)
	lay(t, a.shelves[0], first.Name(), text)
	for _, wrong := range []string{strings.Replace(text, "archive/1", "archive/2", 1), strings.Replace(lines[0].Text(), "archive/2", "archive/1", 1), strings.Replace(text, "archive/1", "archive/3", 1)} {
		if _, err := archive.ParseLine(wrong); err == nil {
			t.Errorf("%s is read", wrong)
		}
	}
	must(t, f.Redis.HSet(t.Context(), key, "1", record.EnvelopedJSON(key+":1", text)).Err())
	must(t, f.Redis.HDel(t.Context(), ledger.ArchivedKey(k), "1").Err())
	for list, entries := range lists {
		must(t, f.Redis.ZAdd(t.Context(), list, entries...).Err())
	}
	a.open(t, archive.Options{})
	for range 2 {
		p := f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
		ids = append(ids, p.ID)
	}
	f.settled(t)
	f.days(120)
	before := f.answers(t, ids)
	if n := a.move(t); n != 2 {
		t.Errorf("%d were moved", n)
	}
	sameAnswers(t, "beside a line with lists", before, f.answers(t, ids))
	testkit.Consistent(t, f.Store)
	if n := len(f.lists(t)[k.TransactionsOf(f.Config.MerchantAccounts[0].ID)]); n < 6 {
		t.Errorf("the list of Redis has %d entries", n)
	}
}

// A preview reaches back further than payments have to stay in Redis.
func TestPreviewOfArchived(t *testing.T) {
	f := newFixture(t)
	a, _ := f.movedPayments(t, 3, directory(t), "")
	from := f.Now().Add(-200 * 24 * time.Hour)
	if all := f.captured(t, from, f.Now()); len(all) != 3 || all[0].Net == 0 {
		t.Errorf("captured: %+v", all)
	}
	lose(t, a.shelves[0], "packs/")
	a.open(t, archive.Options{})
	err := f.Captured(t.Context(), f.Caller, f.MerchantAccount(t).ID, tollgate.PreviewWindow{From: from, To: f.Now()}, func(tollgate.CapturedAmount) error { return nil })
	if testkit.Code(err) != "archive_unavailable" {
		t.Errorf("without the archive: %v", err)
	}
}

// A page of an archive in a bucket reads each part of a file once, however many of its
// payments are read at the same time, and its parts at the same time.
func TestPagesFromABucket(t *testing.T) {
	f, server := newFixture(t), s3test.New(t)
	a := f.archivedAt(t, server.At(""), archive.Options{})
	const many = 2200
	for range many {
		p := f.Pay(t, eur(1000), tollgate.CaptureManual)
		must(t, f.Move(t.Context(), p.ID, tollgate.TriggerCancel))
		f.Clock.Advance(time.Second)
	}
	f.days(120)
	if n := a.move(t); n != many {
		t.Fatalf("%d were moved", n)
	}
	lines, _, err := a.archive.Manifest(t.Context(), f.Partition(f.Caller.Organization))
	must(t, err)
	a.open(t, archive.Options{})
	var asked sync.Map // ranges of bytes: what fails is asked for again
	var ranges atomic.Int64
	var once sync.Once
	second, alone := make(chan struct{}), false
	server.Fail(func(w http.ResponseWriter, r *http.Request, right http.Handler) {
		if strings.HasSuffix(r.URL.Path, archivedPack(lines[0], lines[0].Payments)) {
			n := ranges.Load()
			if _, again := asked.LoadOrStore(r.Header.Get("Range"), true); !again {
				n = ranges.Add(1)
			}
			switch n {
			case 2: // behind the end of the file, which has the index: a frame, which waits for another one
				select {
				case <-second:
				case <-time.After(time.Minute):
					alone = true
				}
			case 3:
				once.Do(func() { close(second) })
			}
		}
		right.ServeHTTP(w, r)
	})
	server.Requests()
	var first []string
	for range 2 {
		rows, _, more, err := f.Payments(t.Context(), f.Caller, ledger.TransactionQuery{Limit: 100, After: 16 * 20, Types: []tollgate.TransactionType{tollgate.TransactionAuthorization}})
		if err != nil || len(rows) != 100 || !more {
			t.Fatalf("%d payments, %v, %v", len(rows), more, err)
		}
		if asked := server.Requests(); first == nil {
			first = asked
		} else if len(asked) != 0 {
			t.Errorf("the same page again takes %q", asked)
		}
	}
	// Lists: the end of the file, which has all of it. Payments: the end with the index, and the
	// five or six frames that 100 of them take.
	if n := len(first); n < 7 || n > 8 || alone {
		t.Errorf("the requests are %q, one frame behind the other: %v", first, alone)
	}
}
