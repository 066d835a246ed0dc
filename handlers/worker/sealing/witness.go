package sealing

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"sync"
	"time"

	"tollgate/handlers/worker/hook"
	"tollgate/handlers/worker/loop"
)

const (
	// again is when what could not be told is told again.
	again = time.Minute
	// patience is how long one telling may take.
	patience = 15 * time.Second
)

// Witness is told of each checkpoint: POST of the signed note, as text. Whoever keeps
// them can show later that a tree was rolled back. Sealing does not wait for it; only the
// latest checkpoint of an organization is told, again each minute until it is taken.
type Witness struct {
	hook  *hook.Hook
	log   *slog.Logger
	heard func(failed bool)
	fresh chan struct{}

	mu   sync.Mutex
	left map[string]string // by organization: the note
}

// NewWitness checks a URL; heard is told of each attempt.
func NewWitness(address, version string, log *slog.Logger, heard func(failed bool)) (*Witness, error) {
	to, err := hook.New(address, "the witness URL", version)
	if err != nil {
		return nil, err
	}
	return &Witness{hook: to, log: log, heard: heard, fresh: make(chan struct{}, 1), left: map[string]string{}}, nil
}

// Tell has a checkpoint told; nil is a Witness that hears nothing.
func (w *Witness) Tell(org, note string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.left[org] = note
	w.mu.Unlock()
	select {
	case w.fresh <- struct{}{}:
	default:
	}
}

// Run tells until ctx ends.
func (w *Witness) Run(ctx context.Context) {
	if w == nil {
		return
	}
	for wait := again; ctx.Err() == nil; {
		loop.Wait(ctx, wait, w.fresh)
		w.mu.Lock()
		left := maps.Clone(w.left)
		w.mu.Unlock()
		for org, note := range left {
			if ctx.Err() != nil {
				return
			}
			w.tell(ctx, org, note)
		}
	}
}

func (w *Witness) tell(ctx context.Context, org, note string) {
	err := w.post(ctx, note)
	if ctx.Err() != nil {
		return
	}
	w.heard(err != nil)
	if err != nil {
		w.log.Warn("the witness was not told of an audit checkpoint", "organization", org, "error", err, "next_in", again.String())
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left[org] == note {
		delete(w.left, org)
	}
}

func (w *Witness) post(ctx context.Context, note string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resp, err := w.hook.Post(ctx, map[string]string{"Content-Type": "text/plain; charset=utf-8"}, []byte(note))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("it answered %d", resp.StatusCode)
	}
	return nil
}
