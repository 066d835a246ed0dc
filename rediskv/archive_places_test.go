package rediskv_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/packs/shelf"
	"tollgate/rediskv/packs/shelf/s3"
	"tollgate/rediskv/packs/shelf/s3/s3test"
	"tollgate/rediskv/testkit"
)

// place makes a place for an archive, which is empty, and returns its URL.
type place func(t testing.TB) string

func directory(t testing.TB) string { return "file://" + t.TempDir() }

// pathOf is the path of a directory.
func pathOf(at string) string { return strings.TrimPrefix(at, "file://") }

func bucket(t testing.TB) string { return s3test.New(t).At("/archive") }

// onShelves plays a test on each kind of shelf.
func onShelves(t *testing.T, test func(t *testing.T, p place)) {
	t.Run("directory", func(t *testing.T) { test(t, directory) })
	t.Run("bucket", func(t *testing.T) { test(t, bucket) })
}

func openShelf(t testing.TB, at string) shelf.Shelf {
	t.Helper()
	var on shelf.Shelf
	var err error
	if strings.HasPrefix(at, "s3:") {
		on, err = s3.Open(at, s3.Options{Credentials: &s3.Credentials{AccessKey: s3test.AccessKey, SecretKey: s3test.SecretKey}})
	} else {
		on, err = shelf.Open(at)
	}
	must(t, err)
	return on
}

// lose removes all files that begin with a prefix.
func lose(t testing.TB, on shelf.Shelf, prefix string) {
	t.Helper()
	all, err := on.List(t.Context(), prefix)
	must(t, err)
	for _, item := range all {
		must(t, on.Remove(t.Context(), item.Name))
	}
}

// spoilFile changes a file.
func spoilFile(t testing.TB, on shelf.Shelf, name string, change func(text []byte)) {
	t.Helper()
	o, err := on.Read(t.Context(), name)
	must(t, err)
	defer o.Close()
	text := make([]byte, o.Size())
	must(t, o.ReadAt(t.Context(), text, 0))
	change(text)
	must(t, on.Remove(t.Context(), name))
	lay(t, on, name, string(text))
}

func lay(t testing.TB, on shelf.Shelf, name, text string) {
	t.Helper()
	must(t, on.Put(t.Context(), name, int64(len(text)), strings.NewReader(text)))
}

// movedPayments are some that were moved to an archive.
func (f *fixture) movedPayments(t *testing.T, n int, at, copied string) (a *archived, ids []string) {
	t.Helper()
	a = &archived{fixture: f, at: at, copied: copied}
	a.open(t, archive.Options{})
	for range n {
		p := f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
		ids = append(ids, p.ID)
	}
	f.settled(t)
	f.days(120)
	if moved := a.move(t); moved != n {
		t.Fatalf("%d of %d were moved", moved, n)
	}
	return a, ids
}

// Without the archive everything goes on, but for what reads archived payments; and nothing
// is moved.
func TestArchiveAway(t *testing.T) {
	server := s3test.New(t)
	for name, dies := range map[string]func(){
		"broken": func() {
			server.Fail(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
				s3test.Refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable")
			})
		},
		"refused": func() {
			server.Fail(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
				s3test.Refuse(w, http.StatusForbidden, "AccessDenied")
			})
		},
		"dead": server.Close,
	} {
		if name == "dead" {
			continue // the last
		}
		t.Run(name, func(t *testing.T) { archiveAway(t, server, dies) })
	}
	t.Run("dead", func(t *testing.T) { archiveAway(t, server, server.Close) })
}

func archiveAway(t *testing.T, server *s3test.Server, dies func()) {
	server.Fail(nil)
	f := newFixture(t)
	a, ids := f.movedPayments(t, 2, server.At("/"+strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))), "")
	hot := f.Pay(t, eur(500), tollgate.CaptureManual)
	dies()
	a.open(t, archive.Options{})
	server.Requests()
	fresh := f.Pay(t, eur(700), tollgate.CaptureManual)
	must(t, f.Capture(t.Context(), fresh.ID, 300, false))
	must(t, f.Capture(t.Context(), hot.ID, 500, true))
	must(t, f.Move(t.Context(), f.Pay(t, eur(100), tollgate.CaptureManual).ID, tollgate.TriggerCancel))
	if now, ticket := f.Read(t, hot.ID); now.AmountCaptured != eur(500) || ticket == nil {
		t.Errorf("a payment that is in Redis: %+v", now)
	}
	rows, _, more, err := f.Payments(t.Context(), f.Caller, ledger.TransactionQuery{Limit: 2, Descending: true}) // whether there is more is in Redis, too
	if err != nil || len(rows) != 2 || !more {
		t.Errorf("a page of what is in Redis: %d, %v, %v", len(rows), more, err)
	}
	if asked := server.Requests(); len(asked) != 0 {
		t.Errorf("the archive was asked %d times", len(asked))
	}
	if _, _, err := f.Payment(t.Context(), f.Caller, ids[0]); testkit.Code(err) != "archive_unavailable" {
		t.Errorf("an archived payment: %v", err)
	}
	if err := f.GiveBack(t.Context(), ids[0], 100, false); testkit.Code(err) != "archive_unavailable" {
		t.Errorf("a refund of it: %v", err)
	}
	if _, _, _, err := f.Payments(t.Context(), f.Caller, ledger.TransactionQuery{Limit: 100}); testkit.Code(err) != "archive_unavailable" {
		t.Errorf("a page that has some: %v", err)
	}
	must(t, f.Move(t.Context(), fresh.ID, tollgate.TriggerCancel))
	f.settled(t)
	f.days(120)
	for p := range a.Partitions() {
		if n, err := a.archive.Archive(t.Context(), p, archiveAfter); n != 0 || err == nil && p == f.Partition(f.Caller.Organization) {
			t.Errorf("%d were moved, %v", n, err)
		}
	}
	if n := a.hot(t, []string{hot.ID, fresh.ID}); n != 2 {
		t.Errorf("Redis has %d of 2", n)
	}
}

// A shelf that hangs keeps nobody from reading the copy.
func TestArchiveCopyBesideOneThatHangs(t *testing.T) {
	f, server := newFixture(t), s3test.New(t)
	a, ids := f.movedPayments(t, 2, server.At(""), directory(t))
	hangs := make(chan struct{})
	defer close(hangs)
	server.Fail(func(http.ResponseWriter, *http.Request, http.Handler) {
		<-hangs
		panic(http.ErrAbortHandler)
	})
	a.open(t, archive.Options{})
	ctx, end := context.WithTimeout(t.Context(), 10*time.Second) // as each request has
	defer end()
	if p, _, err := f.Payment(ctx, f.Caller, ids[0]); err != nil || p.ID != ids[0] {
		t.Errorf("it says %v", err)
	}
}

// A payment takes two requests from a pack that is not open, one from a pack that is, and
// none from a frame that is known, however far away S3 is.
func TestArchiveRequests(t *testing.T) {
	f, server := newFixture(t), s3test.New(t)
	a := f.archivedAt(t, server.At(""), archive.Options{})
	var ids []string
	for range 2_200 {
		p := f.Pay(t, eur(1000), tollgate.CaptureManual)
		must(t, f.Move(t.Context(), p.ID, tollgate.TriggerCancel))
		ids = append(ids, p.ID)
		f.Clock.Advance(time.Second)
	}
	f.days(120)
	server.Requests()
	if n := a.move(t); n != len(ids) {
		t.Fatalf("%d were moved", n)
	}
	pack, line := []string{"GET", "PUT", "GET range", "GET range"}, []string{"GET", "PUT"}                                  // each is looked for, put, and a pack is read back
	next := []string{"GET range"}                                                                                           // turn, which looks whether the archive is there
	looks := []string{"GET", "GET"}                                                                                         // for lines that Redis does not have: at first, and before a pack
	if want, is := slices.Concat(looks, pack, pack[:3], pack[:3], line, next), server.Requests(); !slices.Equal(is, want) { // parts and lists come with their opening
		t.Errorf("moving: the requests are %q, want %q", is, want)
	}
	server.Fail(func(w http.ResponseWriter, r *http.Request, right http.Handler) {
		time.Sleep(30 * time.Millisecond)
		right.ServeHTTP(w, r)
	})
	a.open(t, archive.Options{})
	server.Requests()
	for _, c := range []struct {
		what, id string
		want     int
	}{
		{"the first of a pack", ids[0], 2},
		{"the same", ids[0], 0},
		{"its neighbour", ids[1], 0},
		{"one of another frame", ids[100], 1},
		{"one at the end, which came with the index", ids[len(ids)-1], 0},
		{"one that is nowhere", "pay_00000000000000000000000000", 0},
	} {
		if _, _, err := f.Payment(t.Context(), f.Caller, c.id); err != nil && testkit.Code(err) != "not_found" {
			t.Errorf("%s: %v", c.what, err)
		}
		if is := server.Requests(); len(is) != c.want {
			t.Errorf("%s: the requests are %q, want %d", c.what, is, c.want)
		}
	}
}

// What is healed by one process is read by another that had it open when it was damaged.
func TestHealedWhileItIsOpen(t *testing.T) {
	onShelves(t, func(t *testing.T, p place) {
		f := newFixture(t)
		a, ids := f.movedPayments(t, 1, p(t), p(t))
		lines, _, err := a.archive.Manifest(t.Context(), f.Partition(f.Caller.Organization))
		must(t, err)
		pack := archivedPack(lines[0], lines[0].Payments)
		spoilFile(t, a.shelves[0], pack, func(text []byte) { text[20] ^= 1 })
		reader := &archived{fixture: f, at: a.at}
		reader.open(t, archive.Options{CacheBytes: 1})
		for range 2 {
			if _, _, err := f.Payment(t.Context(), f.Caller, ids[0]); testkit.Code(err) != "record_damaged" {
				t.Fatalf("while it is damaged: %v", err)
			}
		}
		if _, err := a.archive.Check(t.Context(), lines[0].Partition, true, func(archive.Finding) {}); err != nil {
			t.Fatal(err)
		}
		if got, _, err := f.Payment(t.Context(), f.Caller, ids[0]); err != nil || got.ID != ids[0] {
			t.Errorf("once it is healed: %v", err)
		}
	})
}

// What is read back from a shelf decides, and not that it was put there.
func TestArchiveReadsBack(t *testing.T) {
	f, server := newFixture(t), s3test.New(t)
	a := &archived{fixture: f, at: server.At("")}
	a.open(t, archive.Options{})
	p := f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	f.settled(t)
	f.days(120)
	server.Fail(func(w http.ResponseWriter, r *http.Request, right http.Handler) {
		if r.Method != http.MethodPut {
			right.ServeHTTP(w, r)
			return
		}
		all, err := io.ReadAll(r.Body)
		if err != nil || len(all) < 50 {
			t.Error(err)
		}
		all[30] ^= 1
		server.Lay(t, strings.TrimPrefix(r.URL.Path, "/"+s3test.Name+"/"), string(all)) // and says that all is well
	})
	if n, err := a.archive.Archive(t.Context(), f.Partition(f.Caller.Organization), archiveAfter); n != 0 || err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("%d were moved, %v", n, err)
	}
	if a.hot(t, []string{p.ID}) != 1 {
		t.Error("Redis does not have it any more")
	}
}
