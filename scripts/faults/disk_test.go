package faults

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"tollgate/rediskv/redistest"
)

// fullDisk: there is no room for the append-only file any more. Where each write is synced
// Redis ends, else it takes no writes. Nothing that was acknowledged is lost.
func fullDisk(t *testing.T, p plan) {
	if os.Getuid() != 0 {
		t.Skip("only root mounts a small disk")
	}
	disk := t.TempDir()
	must(t, syscall.Mount("none", disk, "tmpfs", 0, "size=512m"))
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	before := os.Getenv("TMPDIR")
	must(t, os.Setenv("TMPDIR", disk))
	redis := redistest.Started(t, redistest.Real)
	must(t, os.Setenv("TMPDIR", before))
	w := newWorld(t, p, newSite(t, redis.URL, 3), 2, 1)
	w.load(8)
	direct := connect(t, redis.Addr)
	ctx := context.Background()
	did := map[string]int{}
	for n := range max(2, p.count/20) {
		policy := []string{"always", "everysec"}[n%2]
		must(t, direct.ConfigSet(ctx, "appendfsync", policy).Err())
		time.Sleep(time.Duration(p.Int64N(int64(2 * time.Second))))
		ballast := filepath.Join(disk, "ballast")
		fill(t, ballast)
		w.await("readyz tells that Redis takes no writes, with appendfsync "+policy, func() bool {
			a, err := w.readyz()
			return err == nil && a.StatusCode == 503
		})
		refused := w.outage.refusals()
		w.await("requests are answered 503, with appendfsync "+policy, func() bool { return w.outage.refusals() > refused })
		must(t, os.Remove(ballast))
		if policy == "always" {
			redis.Kill() // it has ended by itself
			redis.Restart()
		}
		w.await("all is well again, with appendfsync "+policy, func() bool {
			a, err := w.readyz()
			return err == nil && a.StatusCode == 200
		})
		did[policy]++
	}
	w.quiet()
	w.judge()
	t.Logf("full: %v", did)
}

// fill takes all the room there is.
func fill(t *testing.T, name string) {
	t.Helper()
	file, err := os.Create(name)
	must(t, err)
	defer file.Close()
	for size := 1 << 20; size > 0; {
		if _, err := file.Write(make([]byte, size)); err != nil {
			size /= 4 // to the last byte
		}
	}
	if _, err := file.Seek(0, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
}
