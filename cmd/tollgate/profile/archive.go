package profile

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"runtime/trace"
	"time"

	"tollgate/cmd/tollgate/cli"
)

// traced is the longest execution trace: of a busy process each second has megabytes.
const traced = 5 * time.Second

// mutexFraction is of how many waits for a mutex one is noted while a profile is made.
const mutexFraction = 10

// write writes a zip of what the process does for so long: trace.out, cpu.pprof and
// mutex.pprof of that time, heap.pprof, allocs.pprof and goroutines.txt of its end, and
// about.txt.
func write(ctx context.Context, w io.Writer, length time.Duration) error {
	z := zip.NewWriter(w)
	before := runtime.SetMutexProfileFraction(mutexFraction)
	defer runtime.SetMutexProfileFraction(before)
	var cpu bytes.Buffer
	if err := pprof.StartCPUProfile(&cpu); err != nil {
		return err
	}
	err := writeTrace(ctx, z, min(length, traced))
	if err == nil {
		err = wait(ctx, length-min(length, traced))
	}
	pprof.StopCPUProfile()
	if err != nil {
		return err
	}
	runtime.GC() // heap.pprof has what was alive after the last one
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{"cpu.pprof", func(w io.Writer) error { _, err := cpu.WriteTo(w); return err }},
		{"heap.pprof", lookUp("heap", 0)},
		{"allocs.pprof", lookUp("allocs", 0)},
		{"mutex.pprof", lookUp("mutex", 0)},
		{"goroutines.txt", lookUp("goroutine", 2)},
		{"about.txt", about},
	} {
		entry, err := z.Create(file.name)
		if err != nil {
			return err
		}
		if err := file.write(entry); err != nil {
			return fmt.Errorf("%s: %w", file.name, err)
		}
	}
	return z.Close()
}

// writeTrace writes what happens meanwhile as it happens.
func writeTrace(ctx context.Context, z *zip.Writer, length time.Duration) error {
	entry, err := z.Create("trace.out")
	if err != nil {
		return err
	}
	if err := trace.Start(entry); err != nil {
		return err
	}
	defer trace.Stop()
	return wait(ctx, length)
}

func wait(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(length):
		return nil
	}
}

func lookUp(name string, detail int) func(io.Writer) error {
	return func(w io.Writer) error {
		p := pprof.Lookup(name)
		if p == nil {
			return errors.New("there is no such profile")
		}
		return p.WriteTo(w, detail)
	}
}

// about says which program it was and how much memory it had.
func about(w io.Writer) error {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	_, err := fmt.Fprintf(w, "version %s\ngo %s\nprocessors %d\ngoroutines %d\nheap_in_use %d\nfrom_system %d\nmemory_limit %d\n",
		cli.VersionText(), runtime.Version(), runtime.GOMAXPROCS(0), runtime.NumGoroutine(), m.HeapInuse, m.Sys, debug.SetMemoryLimit(-1))
	return err
}
