package rediskv_test

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/redistest"
)

// BenchmarkArchive moves payments, each captured and settled, to the archive. It reports the
// processor time of each, and its bytes in packs.
func BenchmarkArchive(b *testing.B) {
	server := redistest.Single(b)
	f := newFixtureAt(b, server.URL)
	a := f.archived(b, archive.Options{})
	random := rand.New(rand.NewPCG(18, 3))
	for range b.N {
		f.Pay(b, eur(int64(100+random.IntN(100_000))), tollgate.CaptureAutomatic)
		f.Clock.Advance(time.Duration(random.IntN(20)) * time.Second)
	}
	f.settled(b)
	f.settled(b)
	f.days(120)
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
			bytes += l.Payments.Size + l.Parts.Size
		}
	}
	b.ReportMetric(float64(bytes)/float64(b.N), "bytes/payment")
}
