package worker_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/handlers/worker/export"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/exports"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// exportChildVariable makes the test binary a worker that makes exports in very
// small steps.
const exportChildVariable = "TOLLGATE_TEST_EXPORT_WORKER"

// exportDiesVariable is after which operation such a worker kills itself, and
// how many of them: "append_export 60".
const exportDiesVariable = "TOLLGATE_TEST_EXPORT_WORKER_DIES"

// TestExportChildWorks is the worker that TestExportWorkerKilled starts.
func TestExportChildWorks(t *testing.T) {
	last, times, _ := strings.Cut(os.Getenv(exportDiesVariable), " ")
	dies, _ := strconv.ParseInt(times, 10, 64)
	var made atomic.Int64
	observe := func(operation string, _ time.Duration, _ error) {
		if operation == last && made.Add(1) == dies {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	workAsChild(t, exportChildVariable, worker.Config{Interval: 20 * time.Millisecond, ExportLease: 300 * time.Millisecond, ExportChunk: 700}, observe)
}

// Workers are killed at seven points of an export; each goes on where the one
// before was. The file is, byte for byte, that of an export nobody disturbed.
func TestExportWorkerKilled(t *testing.T) {
	if redistest.Kind(t) == redistest.Miniredis {
		t.Skip("processes of their own need a server of its own")
	}
	server := redistest.Fresh(t)
	s := newShop(t, server.URL)
	s.Clock.Set(time.Now()) // the children have real time
	const payments = 1500
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for range payments / 4 {
				s.pay(t, 1000)
			}
		})
	}
	writers.Wait()
	undisturbed := s.export(t, tollgate.DatasetPayments, tollgate.FormatCSV, tollgate.ExportFilter{})
	stop := s.works(t, worker.Config{})
	want := s.file(t, s.finished(t, undisturbed))
	stop()

	id := s.export(t, tollgate.DatasetPayments, tollgate.FormatCSV, tollgate.ExportFilter{})
	// Three rows are appended at once, and a hundred read: none comes to the end.
	var killed []int64
	for i := range 7 {
		dies := "append_export 60"
		if i%2 == 1 {
			dies = "export_payments 3"
		}
		cmd, _ := childOf(t, "TestExportChildWorks", exportChildVariable+"="+server.URL, exportDiesVariable+"="+dies)
		tooLong := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") || !tooLong.Stop() {
			t.Fatalf("the worker did not die after %s: %v", dies, err)
		}
		e := s.readExport(t, id)
		if killed = append(killed, e.Progress.RowsDone); e.Status != tollgate.ExportStatusRunning {
			t.Fatalf("it is %s before the last worker came: %v", e.Status, killed)
		}
	}
	childOf(t, "TestExportChildWorks", exportChildVariable+"="+server.URL)
	if got := s.file(t, s.finished(t, id)); !bytes.Equal(got, want) {
		t.Errorf("killed at rows %v: %d bytes, undisturbed %d", killed, len(got), len(want))
	}
	t.Logf("killed at rows %v of %d", killed, payments)
}

// A worker that is stopped gives its export back, wherever it is with it: the
// next one goes on at once, however long the lease is. Stopping counts as no try
// that failed.
func TestExportWorkerStopped(t *testing.T) {
	url := redistest.URL(t)
	s := newShop(t, url)
	s.trade(t, 150)
	id := s.export(t, tollgate.DatasetTickets, tollgate.FormatNDJSON, tollgate.ExportFilter{})
	const lease = time.Hour
	taken := func() *exports.ExportJob {
		t.Helper()
		for p := range partitions {
			j, err := s.NextExport(t.Context(), p, "test", lease, nil)
			if err != nil {
				t.Fatal(err)
			}
			if j != nil {
				return j
			}
		}
		return nil
	}
	steps := []string{"next_export", "begin_export", "append_export"}
	// It looks at the partitions, takes the export and appends rows, unless it
	// spends the steps on looking for a second one.
	for stopAfter := int64(0); stopAfter < partitions+12 || (stopAfter < partitions+100 && s.readExport(t, id).Progress.RowsDone == 0); stopAfter++ {
		ctx, stop := context.WithCancel(t.Context())
		var made atomic.Int64
		store := openWith(t, rediskv.Options{URL: url, Clock: s.Clock.Now, Observe: func(operation string, _ time.Duration, _ error) {
			if slices.Contains(steps, operation) && made.Add(1) > stopAfter {
				stop()
			}
		}})
		newWorker(t, worker.Config{Store: store, Clock: s.Clock.Now, Interval: time.Millisecond, ExportLease: lease, ExportChunk: 1}).Run(ctx)
		j := taken()
		if j == nil {
			t.Fatalf("stopped after %d steps it has not given the export back: %+v", stopAfter+1, s.readExport(t, id))
		}
		if j.Tries != 1 {
			t.Errorf("stopped after %d steps, the next try is number %d", stopAfter+1, j.Tries)
		}
		if err := s.LeaveExport(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	if e := s.readExport(t, id); e.Status != tollgate.ExportStatusRunning || e.Progress.RowsDone == 0 {
		t.Fatalf("before the last worker comes it is %s at %+v", e.Status, e.Progress)
	}
	s.works(t, worker.Config{ExportLease: lease})
	if got, want := string(s.file(t, s.finished(t, id))), join(s.listed(t, tollgate.DatasetTickets)); got != want {
		t.Errorf("the file has %d bytes, want %d", len(got), len(want))
	}
}

// finish ends an export as its worker does.
func (s *shop) finish(t testing.TB, j *exports.ExportJob) error {
	t.Helper()
	ch, err := tollgate.FinishExport(s.NewID, s.Origin(s.Caller), j.Export, j.File())
	if err != nil {
		t.Fatal(err)
	}
	return s.EndJob(t.Context(), j, ch)
}

// A worker that was thought dead and comes back appends nothing: what it had
// read is another's.
func TestExportFencing(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	for range 30 {
		s.pay(t, 1000)
	}
	id := s.export(t, tollgate.DatasetTransactions, tollgate.FormatNDJSON, tollgate.ExportFilter{})
	next := func(consumer string) *exports.ExportJob {
		t.Helper()
		for p := range partitions {
			j, err := s.NextExport(t.Context(), p, consumer, 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			if j != nil {
				return j
			}
		}
		t.Fatal("there is no export to take")
		return nil
	}
	step := func(j *exports.ExportJob, most int) error {
		t.Helper()
		rows, err := s.ExportRows(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		var chunk []byte
		for _, r := range rows[:min(most, len(rows))] {
			if chunk, err = export.AppendRow(chunk, &j.Export, r.Row); err != nil {
				t.Fatal(err)
			}
			if err := j.Pass(r); err != nil {
				t.Fatal(err)
			}
		}
		return s.AppendExport(t.Context(), j, chunk)
	}
	first := next("a")
	if err := step(first, 10); err != nil {
		t.Fatal(err)
	}
	second := next("b")
	if err := step(first, 10); !errors.Is(err, exports.ErrExportLost) {
		t.Errorf("the first worker appends after it was taken over: %v", err)
	}
	if err := s.finish(t, first); !errors.Is(err, exports.ErrExportLost) {
		t.Errorf("the first worker ends it: %v", err)
	}
	if err := step(second, 100); err != nil {
		t.Fatal(err)
	}
	if err := s.finish(t, second); err != nil {
		t.Fatal(err)
	}
	if got, want := string(s.file(t, s.readExport(t, id))), join(s.listed(t, tollgate.DatasetTransactions)); got != want {
		t.Errorf("the file has %d bytes, want %d", len(got), len(want))
	}
	for p := range partitions {
		if j, err := s.NextExport(t.Context(), p, "c", 0, nil); j != nil || err != nil {
			t.Errorf("there is something to take after the end: %v, %v", j, err)
		}
	}
}

func join(lines []string) (text string) {
	for _, l := range lines {
		text += l + "\n"
	}
	return text
}

// Ten writers write while exports are made: each has every payment that was
// acknowledged before it, none that was begun after it, and none twice.
func TestExportCut(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	s.works(t, worker.Config{ExportChunk: 20_000})
	var mu sync.Mutex
	paid := map[string]bool{}
	stop := make(chan struct{})
	pause := 10 * time.Millisecond // load, not flood
	if redistest.RaceDetector {
		pause = 200 * time.Millisecond
	}
	var writers sync.WaitGroup
	for range 10 {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				id := s.pay(t, 1000)
				mu.Lock()
				paid[id] = true
				mu.Unlock()
				time.Sleep(pause)
			}
		})
	}
	type cut struct {
		id     string
		before []string
		rows   map[string]bool
	}
	var cuts []*cut
	for range 6 {
		c := &cut{}
		until(t, "payments", func() bool {
			mu.Lock()
			defer mu.Unlock()
			c.before = slices.Collect(maps.Keys(paid))
			return len(c.before) > 30*len(cuts)
		})
		c.id = s.export(t, tollgate.DatasetPayments, tollgate.FormatCSV, tollgate.ExportFilter{})
		cuts = append(cuts, c)
		after := s.pay(t, 1000)
		c.rows = ids(t, s.file(t, s.finished(t, c.id)))
		for _, id := range c.before {
			if !c.rows[id] {
				t.Errorf("%s was paid before the export and is not in it", id)
			}
		}
		if c.rows[after] {
			t.Errorf("%s was paid after the export and is in it", after)
		}
	}
	close(stop)
	writers.Wait()
	order := map[string]int{}
	for i, id := range orderOf(t, s) {
		order[id] = i
	}
	for _, c := range cuts {
		last := 0
		for id := range c.rows {
			last = max(last, order[id])
		}
		if last+1 != len(c.rows) { // the first ones in the order of commit, without a gap
			t.Errorf("%d rows, the last one is number %d", len(c.rows), last+1)
		}
	}
}

// ids are the first column of a file; one that is there twice fails the test.
func ids(t *testing.T, file []byte) map[string]bool {
	t.Helper()
	records, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, r := range records[1:] {
		if found[r[0]] {
			t.Errorf("%s is there twice", r[0])
		}
		found[r[0]] = true
	}
	return found
}

// orderOf are the payments in the order of commit.
func orderOf(t *testing.T, s *shop) (ids []string) {
	t.Helper()
	q := ledger.TransactionQuery{Limit: 100, Types: []tollgate.TransactionType{tollgate.TransactionAuthorization}}
	for {
		page, next, more, err := s.Transactions(t.Context(), s.Caller, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range page {
			ids = append(ids, *x.PaymentID)
		}
		if q.After = next; !more {
			return ids
		}
	}
}

// While Redis is away an export waits; then it goes on by itself.
func TestExportOutage(t *testing.T) {
	server := redistest.Single(t)
	s := newShop(t, server.URL)
	for range 120 {
		s.pay(t, 1000)
	}
	wire := redistest.Proxy(t, server.Addr)
	id := s.export(t, tollgate.DatasetTickets, tollgate.FormatNDJSON, tollgate.ExportFilter{})
	s.works(t, worker.Config{Store: away(t, wire.URL, s.Clock), ExportChunk: 1})
	for i := range int64(3) {
		until(t, "progress", func() bool { return s.readExport(t, id).Progress.RowsDone > 10*(i+1) })
		wire.Refuse()
		until(t, "a standstill", func() bool {
			before := s.readExport(t, id).Progress.RowsDone
			time.Sleep(20 * time.Millisecond)
			return s.readExport(t, id).Progress.RowsDone == before
		})
		wire.Accept()
	}
	if got, want := string(s.file(t, s.finished(t, id))), join(s.listed(t, tollgate.DatasetTickets)); got != want {
		t.Errorf("the file has %d bytes, want %d", len(got), len(want))
	}
}

// An export that cannot be made fails after some tries and holds up no other.
func TestExportPoisoned(t *testing.T) {
	server := redistest.Fresh(t)
	s := newShop(t, server.URL)
	s.pay(t, 1000)
	poisoned := s.export(t, tollgate.DatasetTransactions, tollgate.FormatCSV, tollgate.ExportFilter{})
	for p := range partitions {
		_ = server.Command("HSET", fmt.Sprintf("{p%02d}:%s:%s", p, s.Caller.Organization, poisoned), "cut", "nowhere", "e", "1")
	}
	s.works(t, worker.Config{Exports: 1})
	e := s.finished(t, poisoned)
	if e.Status != tollgate.ExportStatusFailed || e.Error == nil || e.Error.Code != tollgate.CodeInternal {
		t.Errorf("%+v, %+v", e, e.Error)
	}
	s.file(t, s.finished(t, s.export(t, tollgate.DatasetTransactions, tollgate.FormatCSV, tollgate.ExportFilter{})))
	failed := s.exportEvents(t, tollgate.ExportFailedEvent)
	if !slices.Equal(failed, []string{poisoned}) {
		t.Errorf("export.failed: %v", failed)
	}
}

// An export whose file has no room fails at once and says why; what it had
// written is gone.
func TestExportWithoutRoom(t *testing.T) {
	at := redistest.URL(t)
	s := newShop(t, at)
	s.trade(t, 20)
	s.works(t, worker.Config{ExportChunk: 1, Store: openWith(t, rediskv.Options{URL: at, Clock: s.Clock.Now, ExportBytes: 3000})})
	full := func() *tollgate.Export {
		e := s.finished(t, s.export(t, tollgate.DatasetTickets, tollgate.FormatNDJSON, tollgate.ExportFilter{}))
		if e.Status != tollgate.ExportStatusFailed || e.Error == nil || e.Error.Code != tollgate.CodeRateLimited {
			t.Fatalf("%+v, %+v", e, e.Error)
		}
		return e
	}
	first := full()
	if first.Progress.RowsDone == 0 {
		t.Error("nothing fits into all of the room")
	}
	until(t, "the same room again", func() bool { // a file is removed after its export has failed
		return full().Progress.RowsDone == first.Progress.RowsDone
	})
}

// exportEvents are the exports of events of a type.
func (s *shop) exportEvents(t testing.TB, kind tollgate.EventType) (ids []string) {
	t.Helper()
	page, _, _, err := s.Events(t.Context(), s.Caller, eventlog.EventQuery{Types: tollgate.TypeFilter{string(kind)}, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page {
		_, id, _ := bytes.Cut(e, []byte(`"export_id":"`))
		id, _, _ = bytes.Cut(id, []byte(`"`))
		ids = append(ids, string(id))
	}
	return ids
}

// Canceled while it is being made, an export is given up and leaves nothing of
// its file.
func TestExportCanceled(t *testing.T) {
	server := redistest.Fresh(t)
	s := newShop(t, server.URL)
	for range 150 {
		s.pay(t, 1000)
	}
	var appended atomic.Int64
	reached, canceled := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(canceled) })
	store := openWith(t, rediskv.Options{URL: server.URL, Clock: s.Clock.Now, Observe: func(operation string, _ time.Duration, _ error) {
		if operation == "append_export" && appended.Add(1) == 6 {
			close(reached)
			<-canceled
		}
	}})
	stop := s.works(t, worker.Config{Store: store, ExportChunk: 1})
	t.Cleanup(goOn)
	id := s.export(t, tollgate.DatasetTickets, tollgate.FormatCSV, tollgate.ExportFilter{})
	<-reached
	e := s.storedExport(t, id)
	ch, err := tollgate.DeleteExport(s.Origin(s.Caller), e.Export)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.EndExport(t.Context(), s.Caller, e, ch); err != nil {
		t.Fatal(err)
	}
	goOn()
	stop()
	after := s.readExport(t, id)
	if after.Status != tollgate.ExportStatusCanceled || after.Progress.RowsDone >= 150 {
		t.Errorf("%+v", after)
	}
	if err := s.EndExport(t.Context(), s.Caller, e, ch); !errors.Is(err, rediskv.ErrConflict) {
		t.Errorf("canceled twice: %v", err)
	}
	if _, err := s.ExportFile(t.Context(), s.Caller, after); testkit.Code(err) != string(tollgate.CodeExportExpired) {
		t.Errorf("its file: %v", err)
	}
	for p := range partitions {
		key := fmt.Sprintf("{p%02d}:%s:%s", p, s.Caller.Organization, id)
		for _, k := range []string{key + ":ends", key + ":c:0", key + ":c:5"} {
			if err := server.Command("RENAME", k, k); err == nil { // refused for what is not there
				t.Errorf("%s is left", k)
			}
		}
	}
	if got := s.exportEvents(t, "export.succeeded"); len(got) != 0 {
		t.Errorf("export.succeeded: %v", got)
	}
}

// An organization with many exports holds up none in another partition.
func TestExportsTakeTurns(t *testing.T) {
	server := redistest.Fresh(t)
	partition := func(s *shop) (found int) {
		for p := range partitions {
			key := fmt.Sprintf("{p%02d}:%s", p, s.Caller.Organization)
			if server.Command("RENAME", key, key) == nil { // refused for what is not there
				return p
			}
		}
		t.Fatal("an organization without a partition")
		return 0
	}
	many, few := newShop(t, server.URL), newShop(t, server.URL)
	for partition(few) <= partition(many) { // the worker comes to the many first
		many, few = newShop(t, server.URL), newShop(t, server.URL)
	}
	for range 60 {
		many.pay(t, 1000)
	}
	few.pay(t, 1000)
	var ids []string
	for range tollgate.MaxExports {
		ids = append(ids, many.export(t, tollgate.DatasetTickets, tollgate.FormatCSV, tollgate.ExportFilter{}))
	}
	one := few.export(t, tollgate.DatasetTickets, tollgate.FormatCSV, tollgate.ExportFilter{})
	var calls atomic.Int64
	later := func() time.Time { // each time is another, so that what happens has an order
		return many.Clock.Now().Add(time.Duration(calls.Add(1)) * time.Millisecond)
	}
	many.works(t, worker.Config{Store: openWith(t, rediskv.Options{URL: server.URL, Clock: later}), Exports: 1, ExportChunk: 1})
	had := few.finished(t, one)
	few.file(t, had)
	waited := 0
	for _, id := range ids {
		if many.finished(t, id).FinishedAt > had.FinishedAt {
			waited++
		}
	}
	if waited < len(ids)/2 {
		t.Errorf("only %d of %d exports waited when the other organization had its own", waited, len(ids))
	}
}
