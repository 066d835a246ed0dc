package worker_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
)

// beside makes two organizations of one partition.
func beside(t *testing.T, url string) (one, other *shop) {
	t.Helper()
	one, other = apart(t, url)
	for p := one.partition(t); other.partition(t) != p; {
		other = newShop(t, url)
		other.sell(t, 1000)
		other.Clock.Advance(24 * time.Hour)
	}
	return one, other
}

func (s *shop) anExport(t *testing.T) string {
	t.Helper()
	return s.export(t, tollgate.DatasetTickets, tollgate.FormatCSV, tollgate.ExportFilter{})
}

// TestExportsGoRound: beside an organization that has asked for as many exports
// as it may, another one's is the next but one, in the same partition, too.
func TestExportsGoRound(t *testing.T) {
	url := redistest.URL(t)
	greedy, modest := beside(t, url)
	store := openWith(t, rediskv.Options{URL: url, Clock: greedy.Clock.Now})
	for range tollgate.MaxExports {
		greedy.anExport(t)
	}
	for range 2 {
		modest.anExport(t)
	}
	var turns []string
	for range tollgate.MaxExports + 2 {
		j, err := store.NextExport(t.Context(), greedy.partition(t), "c", time.Hour, nil)
		if err != nil || j == nil {
			t.Fatalf("%v, %v", j, err)
		}
		ch, err := tollgate.FailExport(store.NewID, store.Origin(rediskv.Caller{Organization: j.Organization}), j.Export, tollgate.ExportError{Code: tollgate.CodeInternal, Message: "Enough."})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.EndJob(t.Context(), j, ch); err != nil {
			t.Fatal(err)
		}
		turns = append(turns, j.Organization)
	}
	first, second := slices.Index(turns, modest.Caller.Organization), 0
	second = first + 1 + slices.Index(turns[first+1:], modest.Caller.Organization)
	if first > 1 || second != first+2 {
		t.Errorf("the modest one had turns %d and %d", first, second)
	}
}

// TestExportsLeaveRoom: an organization does not take every slot of a worker,
// so that another one's export begins while all of its are under way.
func TestExportsLeaveRoom(t *testing.T) {
	url := redistest.URL(t)
	greedy, modest := newShop(t, url), newShop(t, url)
	var ids []string
	for range 4 {
		ids = append(ids, greedy.anExport(t))
	}
	var looks atomic.Int64
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	store := openWith(t, rediskv.Options{
		URL: url, Clock: greedy.Clock.Now,
		Observe: func(operation string, _ time.Duration, _ error) {
			switch operation {
			case "append_export":
				<-held
			case "next_export":
				looks.Add(1)
			}
		},
	})
	greedy.works(t, worker.Config{Store: store, Exports: 2, Interval: time.Millisecond})
	t.Cleanup(release)
	running := func() (n int) {
		for _, id := range ids {
			if greedy.readExport(t, id).Status == tollgate.ExportStatusRunning {
				n++
			}
		}
		return n
	}
	until(t, "looks at all partitions, with one export under way", func() bool {
		return running() > 1 || (running() == 1 && looks.Load() > 5*partitions)
	})
	if n := running(); n != 1 {
		t.Errorf("%d exports of one organization are under way", n)
	}
	one := modest.anExport(t)
	until(t, "the other organization's export", func() bool {
		return modest.readExport(t, one).Status == tollgate.ExportStatusRunning
	})
	release()
	for i, id := range append(ids, one) {
		s := greedy
		if i == len(ids) {
			s = modest
		}
		if e := s.finished(t, id); e.Status != tollgate.ExportStatusSucceeded {
			t.Errorf("%+v", e)
		}
	}
}
