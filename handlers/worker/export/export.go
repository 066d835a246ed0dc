// Package export makes the files of exports.
package export

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"tollgate"
	"tollgate/handlers/worker/loop"
	"tollgate/rediskv"
	"tollgate/rediskv/agenda"
	"tollgate/rediskv/exports"
)

// batchesPerChunk bounds what is looked at between two appends, which renew the
// hold of an export: few rows may be among many.
const batchesPerChunk = 16

// Config is what makes the files of exports.
type Config struct {
	loop.Common
	Agenda *loop.Agenda  // says when there may be exports
	Slots  int           // exports that are made at the same time
	Lease  time.Duration // without a sign of life, after which another worker goes on with an export
	Chunk  int           // bytes of a file that are written at once, before they are packed
}

// Maker makes the files of exports, a few at the same time. It looks at one
// partition after the other and goes on behind the one where it found
// something, so that organizations have their turn. An organization gets a slot
// only while it has fewer than are free: what another one asks for finds room.
type Maker struct {
	Config
	slots  chan struct{}
	wake   chan struct{} // there may be exports, or one has ended and its organization may have another
	next   int           // partition to look at
	looked loop.Progress

	mu    sync.Mutex
	inUse map[string]int // slots, by organization
	all   int            // of them
}

// New makes one that does not run yet.
func New(c Config) *Maker {
	x := &Maker{Config: c, slots: make(chan struct{}, c.Slots), wake: make(chan struct{}, 1), inUse: make(map[string]int)}
	c.Agenda.Wakes(func(int) { x.look() }, agenda.Exports)
	return x
}

// look has all partitions looked at; once is as good as many times.
func (x *Maker) look() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// may says whether an organization gets another slot.
func (x *Maker) may(org string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.inUse[org] < x.Slots-x.all
}

func (x *Maker) begins(org string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.inUse[org]++
	x.all++
}

func (x *Maker) ends(org string) {
	x.mu.Lock()
	x.all--
	if x.inUse[org]--; x.inUse[org] == 0 {
		delete(x.inUse, org)
	}
	x.mu.Unlock()
	x.look()
}

// Run works until ctx ends. What is then in work is given back: whoever takes
// it over goes on behind the last chunk.
func (x *Maker) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	idle := 0 // partitions in a row without anything to do
	pause := time.Duration(0)
	for {
		x.looked.Rest(pause == 0) // an export takes the time that it takes
		select {
		case <-ctx.Done():
			return
		case x.slots <- struct{}{}:
		}
		j, err := x.Store.NextExport(ctx, x.next, x.Consumer, x.Lease, x.may)
		x.next = (x.next + 1) % x.Store.Partitions()
		if j != nil {
			idle, pause = 0, 0
			x.looked.Made(x.Wall())
			x.begins(j.Organization)
			running.Go(func() {
				defer func() { <-x.slots; x.ends(j.Organization) }()
				x.export(ctx, j)
			})
			continue
		}
		<-x.slots
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if pause == 0 {
				x.Log.Warn("looking for exports fails and goes on", "error", err)
			}
			pause = loop.Longer(pause)
			x.looked.Rest(false)
			loop.Wait(ctx, pause, nil)
			continue
		}
		pause = 0
		if idle++; idle >= x.Store.Partitions() {
			idle = 0
			x.looked.Made(x.Wall())
			x.looked.Rest(true)
			select {
			case <-ctx.Done():
			case <-x.wake:
			}
		}
	}
}

// Ready reports whether looking for exports makes progress.
func (x *Maker) Ready() error {
	if !x.looked.Fresh(x.Wall(), loop.Stale(x.Interval)) {
		return errors.New("exports: looking for them makes no progress")
	}
	return nil
}

// export carries an export to its end, or to where another worker has to go
// on. After an error it begins again behind the last chunk: at once as often
// as it takes when Redis was away, a few times otherwise.
func (x *Maker) export(ctx context.Context, j *exports.ExportJob) {
	x.Observer.Exporting(1)
	defer x.Observer.Exporting(-1)
	x.Log.Info("export begun", "export", j.ID, "dataset", j.Dataset, "organization", j.Organization, "try", j.Tries)
	var pause time.Duration
	for {
		err := x.attempt(ctx, j)
		switch {
		case err == nil, errors.Is(err, exports.ErrExportLost):
			x.report(j, err)
			return
		case ctx.Err() != nil:
			x.leave(j)
			return
		}
		gone := loop.Away(err)
		x.Log.Warn("an export broke off", "export", j.ID, "try", j.Tries, "error", err)
		pause = loop.Longer(pause)
		loop.Wait(ctx, pause, nil)
		for err := x.Store.BeginExport(ctx, j, !gone); err != nil; err = x.Store.BeginExport(ctx, j, false) {
			if errors.Is(err, exports.ErrExportLost) {
				x.report(j, err)
				return
			}
			if ctx.Err() != nil {
				x.leave(j)
				return
			}
			pause = loop.Longer(pause)
			loop.Wait(ctx, pause, nil)
		}
	}
}

// leave gives an export back because the worker stops. When that fails it is
// taken over when its lease is over.
func (x *Maker) leave(j *exports.ExportJob) {
	if err := x.Store.LeaveExport(context.Background(), j); err != nil && !errors.Is(err, exports.ErrExportLost) {
		x.Log.Warn("an export is not given back", "export", j.ID, "error", err)
	}
	x.report(j, context.Canceled)
}

func (x *Maker) report(j *exports.ExportJob, err error) {
	outcome := "done"
	if err != nil {
		outcome = "left" // canceled, another worker's, or for another worker
	}
	x.Observer.ExportEnded(outcome)
	x.Log.Info("export "+outcome, "export", j.ID, "organization", j.Organization)
}

// batch is what was read at once.
type batch struct {
	rows []exports.ExportedRow
	err  error
}

// read reads ahead, one batch while the one before is written; the last one is
// empty, or has an error.
func (x *Maker) read(ctx context.Context, j *exports.ExportJob, batches chan<- batch) {
	defer close(batches)
	for more := true; more; {
		var b batch
		b.err = guarded(func() (err error) {
			b.rows, err = x.Store.ExportRows(ctx, j)
			return err
		})
		more = b.err == nil && len(b.rows) > 0
		select {
		case batches <- b:
		case <-ctx.Done():
			return
		}
	}
}

// guarded turns a panic into an error like any other, so that one export takes
// no worker down.
func guarded(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do()
}

// attempt goes on with an export to its end.
func (x *Maker) attempt(ctx context.Context, j *exports.ExportJob) error {
	if fault := tollgate.ExportBrokenOff(j.Tries); fault != nil {
		return x.fail(ctx, j, *fault)
	}
	reading, stop := context.WithCancel(ctx)
	batches := make(chan batch, 1)
	go x.read(reading, j, batches)
	err := guarded(func() error { return x.write(ctx, j, batches) })
	stop()
	for range batches { // it has ended: the job is this goroutine's alone again
	}
	if full, ok := errors.AsType[*tollgate.Error](err); ok && full.Code == tollgate.CodeRateLimited { // its file has no room
		return x.fail(ctx, j, tollgate.ExportError{Code: full.Code, Message: full.Message})
	}
	return err
}

func (x *Maker) origin(j *exports.ExportJob) tollgate.Origin {
	return x.Store.Origin(rediskv.Caller{Organization: j.Organization})
}

// fail ends an export that cannot be made.
func (x *Maker) fail(ctx context.Context, j *exports.ExportJob, reason tollgate.ExportError) error {
	change, err := tollgate.FailExport(x.Store.NewID, x.origin(j), j.Export, reason)
	if err != nil {
		return err
	}
	return x.Store.EndJob(ctx, j, change)
}

// finish ends an export that is complete.
func (x *Maker) finish(ctx context.Context, j *exports.ExportJob) error {
	change, err := tollgate.FinishExport(x.Store.NewID, x.origin(j), j.Export, j.File())
	if err != nil {
		return err
	}
	return x.Store.EndJob(ctx, j, change)
}

// write appends what is read to the file.
func (x *Maker) write(ctx context.Context, j *exports.ExportJob, batches <-chan batch) (err error) {
	var chunk []byte
	if j.Fresh() {
		chunk = AppendHeader(chunk, &j.Export)
	}
	since := 0 // batches since something was appended
	appended := func() error {
		err := x.Store.AppendExport(ctx, j, chunk)
		chunk, since = chunk[:0], 0
		return err
	}
	for b := range batches {
		if b.err != nil {
			return b.err
		}
		x.Observer.ExportRows(len(b.rows))
		for _, r := range b.rows {
			if r.Selected {
				if chunk, err = AppendRow(chunk, &j.Export, r.Row); err != nil {
					return err
				}
			}
			if err := j.Pass(r); err != nil {
				return err
			}
			if len(chunk) >= x.Chunk {
				if err := appended(); err != nil {
					return err
				}
			}
		}
		if since++; since == batchesPerChunk || len(b.rows) == 0 {
			if err := appended(); err != nil {
				return err
			}
		}
		if len(b.rows) == 0 {
			return x.finish(ctx, j)
		}
	}
	return context.Cause(ctx) // reading ends early only with it
}
