package share_test

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

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
	// The operating system may hold a reader in the middle of its read, where the
	// network cannot make it ready: that happens to a few. Without Noticed hardly
	// any is ready.
	const often = 100
	ready := 0
	for n := range int64(often) {
		if _, err := w.Write([]byte{0}); err != nil {
			t.Fatal(err)
		}
		noticed()
		for yields := 0; read.Load() != n+1 && yields < 4; yields++ {
			runtime.Gosched() // whoever is ready has run, behind the collector too
		}
		if read.Load() == n+1 {
			ready++
		}
		for read.Load() != n+1 {
			time.Sleep(time.Millisecond)
		}
	}
	if ready < often/2 {
		t.Fatalf("%d of %d readers were ready", ready, often)
	}
}
