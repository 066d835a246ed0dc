package rediskv_test

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/archive/logs"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/packs/shelf/s3/s3test"
	"tollgate/rediskv/redistest"
)

// longAgo makes payments, each captured and settled, and has months pass.
func (f *fixture) longAgo(b *testing.B, random *rand.Rand, n int) (ids []string) {
	b.Helper()
	for range n {
		ids = append(ids, f.Pay(b, eur(int64(100+random.IntN(100_000))), tollgate.CaptureAutomatic).ID)
		f.Clock.Advance(time.Duration(random.IntN(20)) * time.Second)
	}
	f.settled(b)
	f.settled(b)
	f.days(120)
	return ids
}

// BenchmarkArchive moves payments, each captured and settled, to the archive. It reports the
// processor time of each, and its bytes in packs.
func BenchmarkArchive(b *testing.B) {
	server := redistest.Single(b)
	f := newFixtureAt(b, server.URL)
	a := f.archived(b, archive.Options{})
	f.longAgo(b, rand.New(rand.NewPCG(18, 3)), b.N)
	own := func() float64 {
		var used syscall.Rusage
		must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
		return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e3
	}
	before, redis := own(), redistest.CPU(b, server.URL)
	b.ResetTimer()
	if n := a.move(b); n != b.N {
		b.Fatalf("%d of %d were moved", n, b.N)
	}
	b.StopTimer()
	b.ReportMetric((own()-before)/float64(b.N), "worker-µs/payment")
	b.ReportMetric((redistest.CPU(b, server.URL)-redis)/float64(b.N), "redis-µs/payment")
	var bytes int64
	for p := range a.Partitions() {
		lines, _, err := a.archive.Manifest(b.Context(), p)
		if err != nil {
			b.Fatal(err)
		}
		for _, l := range lines {
			bytes += l.Size()
		}
	}
	b.ReportMetric(float64(bytes)/float64(b.N), "bytes/payment")
}

// BenchmarkReadArchived reads payments in Redis, and the same in the archive: one by its
// identifier, whose frame is unpacked each time or kept, and pages of 20.
func BenchmarkReadArchived(b *testing.B) {
	server := redistest.Single(b)
	f := newFixtureAt(b, server.URL)
	a := f.archived(b, archive.Options{})
	random := rand.New(rand.NewPCG(18, 6))
	const many = 3000
	ids := f.longAgo(b, random, many)
	reads := func(b *testing.B) {
		b.Run("id", func(b *testing.B) {
			took := make([]time.Duration, 0, b.N)
			for b.Loop() {
				start := time.Now()
				f.Read(b, ids[random.IntN(many)])
				took = append(took, time.Since(start))
			}
			percentiles(b, took)
		})
		b.Run("page", func(b *testing.B) {
			took := make([]time.Duration, 0, b.N)
			for b.Loop() {
				start := time.Now()
				rows, _, _, err := f.Payments(b.Context(), f.Caller, ledger.TransactionQuery{Limit: 20, After: 16 * (1 + random.Int64N(many-50)), Types: []tollgate.TransactionType{tollgate.TransactionAuthorization}})
				if took = append(took, time.Since(start)); err != nil || len(rows) != 20 {
					b.Fatal(len(rows), err)
				}
			}
			percentiles(b, took)
		})
	}
	b.Run("redis", reads)
	if n := a.move(b); n != many {
		b.Fatalf("%d were moved", n)
	}
	b.Run("archive", reads)
	a.open(b, archive.Options{CacheBytes: 1})
	b.Run("uncached", reads)
}

// BenchmarkReadFromABucket reads payments from a bucket that takes 30 ms to answer: by an
// instance that has just started, and by one that has read others before.
func BenchmarkReadFromABucket(b *testing.B) {
	bucket := s3test.New(b)
	f := newFixtureAt(b, redistest.Single(b).URL)
	a := f.archivedAt(b, bucket.At(""), archive.Options{Rows: 1000})
	random := rand.New(rand.NewPCG(18, 7))
	const many = 3000
	ids := f.longAgo(b, random, many)
	if n := a.move(b); n != many {
		b.Fatalf("%d were moved", n)
	}
	bucket.Fail(func(w http.ResponseWriter, r *http.Request, right http.Handler) {
		time.Sleep(30 * time.Millisecond)
		right.ServeHTTP(w, r)
	})
	reads := map[string]func(){
		"id": func() { f.Read(b, ids[random.IntN(many)]) },
		"page": func() {
			q := ledger.TransactionQuery{Limit: 20, After: 16 * (1 + random.Int64N(many-50)), Types: []tollgate.TransactionType{tollgate.TransactionAuthorization}}
			if rows, _, _, err := f.Payments(b.Context(), f.Caller, q); err != nil || len(rows) != 20 {
				b.Fatal(len(rows), err)
			}
		},
	}
	for _, what := range []string{"id", "page"} {
		for _, when := range []string{"started", "running"} {
			b.Run(what+"/"+when, func(b *testing.B) {
				a.open(b, archive.Options{})
				took := make([]time.Duration, 0, b.N)
				for b.Loop() {
					if when == "started" {
						a.open(b, archive.Options{})
					}
					start := time.Now()
					reads[what]()
					took = append(took, time.Since(start))
				}
				percentiles(b, took)
			})
		}
	}
}

// BenchmarkSearchABucket searches for a payee whom nobody has paid, which reads all packs of
// posting lists, of a bucket that takes 30 ms to answer: by an instance that has just started, and
// by one that has searched before.
func BenchmarkSearchABucket(b *testing.B) {
	bucket := s3test.New(b)
	f := newFixtureAt(b, redistest.Single(b).URL)
	a := f.packing(b, logs.Options{}, bucket.At(""))
	const packs = 60 // of five years
	for range packs {
		for range 520 {
			f.Pay(b, eur(100), tollgate.CaptureAutomatic)
		}
		f.post(b)
		f.cool(b)
	}
	if _, c := a.findings(b, false); c.Packs < packs-2 {
		b.Fatalf("%+v", c)
	}
	bucket.Fail(func(w http.ResponseWriter, r *http.Request, right http.Handler) {
		time.Sleep(30 * time.Millisecond)
		right.ServeHTTP(w, r)
	})
	for _, when := range []string{"started", "running"} {
		b.Run(when, func(b *testing.B) {
			took := make([]time.Duration, 0, b.N)
			for n := 0; b.Loop(); n++ {
				if when == "started" {
					f.UseLogs(logs.New(f.DB, a.logs.Options))
				}
				start := time.Now()
				rows, _, more, err := f.Transactions(b.Context(), f.Caller, ledger.TransactionQuery{Payee: "p" + strconv.Itoa(n) + ".example", Limit: 20})
				if took = append(took, time.Since(start)); err != nil || more || len(rows) > 0 {
					b.Fatal(rows, more, err)
				}
			}
			percentiles(b, took)
		})
	}
}

func percentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkCreateWhileArchiving makes payments while a worker moves others to the archive,
// as politely as a real one, and while it is stopped: the two in turn, each for 300 ms.
func BenchmarkCreateWhileArchiving(b *testing.B) {
	f := newFixtureAt(b, redistest.Single(b).URL)
	f.DB.Wall = time.Now
	var gate sync.Mutex
	var stopped atomic.Bool
	a := f.archived(b, archive.Options{Rows: 1000, Rest: archive.Rest, Step: func(int, string) {
		stopped.Store(true)
		gate.Lock()
		stopped.Store(false)
		gate.Unlock()
	}})
	f.longAgo(b, rand.New(rand.NewPCG(18, 9)), b.N)
	live := &fixture{Shop: f.Another(b, nil)}
	var worker sync.WaitGroup
	done := make(chan struct{})
	worker.Go(func() {
		defer close(done)
		a.move(b)
	})
	var took [2][]time.Duration // while it is stopped, and while it works
	create := func() {
		at, key := live.MerchantAccount(b), live.Key(live.NewID(""))
		ch, ans := live.Draft(b, at, eur(1000), "shop.example", tollgate.CaptureManual)
		works, start := !stopped.Load(), time.Now()
		_, err := live.CreatePayment(b.Context(), live.Caller, key, at, ch, ans)
		d := time.Since(start)
		must(b, err)
		switch stopped.Load() {
		case works: // neither the one nor the other
		case true:
			took[0] = append(took[0], d)
		default:
			took[1] = append(took[1], d)
		}
		time.Sleep(500 * time.Microsecond)
	}
	b.ResetTimer()
	for works := true; ; {
		for turn := time.Now(); time.Since(turn) < 300*time.Millisecond; {
			create()
		}
		select {
		case <-done:
			worker.Wait()
			for i, when := range []string{"stopped", "working"} {
				if slices.Sort(took[i]); len(took[i]) == 0 {
					continue
				}
				b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds()), when+"-p50-µs")
				b.ReportMetric(float64(took[i][len(took[i])*99/100].Microseconds()), when+"-p99-µs")
			}
			return
		default:
		}
		if works = !works; works {
			gate.Unlock()
		} else {
			gate.Lock()
		}
	}
}
