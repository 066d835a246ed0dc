package share_test

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"tollgate/handlers/share"
)

// TestNoticed: whoever waits for something that has arrived is ready to run
// afterwards.
func TestNoticed(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	noticed := share.NewNetwork().Noticed
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer r.Close()
	var read atomic.Int64
	go func() {
		b := make([]byte, 1)
		for {
			if _, err := r.Read(b); err != nil {
				return
			}
			read.Add(1)
		}
	}()
	noticed() // and until then nobody has read
	const often = 100
	for n := range int64(often) {
		if _, err := w.Write([]byte{0}); err != nil {
			t.Fatal(err)
		}
		noticed()
		for yields := 0; read.Load() != n+1 && yields < 100; yields++ { // whoever is ready has run, also behind the collector
			runtime.Gosched()
		}
		if got := read.Load(); got != n+1 {
			t.Fatalf("%d of %d bytes are read", got, n+1)
		}
	}
}
