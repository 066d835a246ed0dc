package worker

import (
	"context"
	"fmt"
)

// activateRules carries out the activations of one partition whose time has
// come.
func (w *Worker) activateRules(ctx context.Context, p int) (int, error) {
	done, err := w.Store.ActivateDue(ctx, p, w.PageSize)
	for _, a := range done {
		if len(a.Lacking) > 0 {
			w.Log.Error("activated without some instances", "activation", a.ID, "instances", a.Lacking)
		}
	}
	if err != nil {
		return len(done), fmt.Errorf("activations of partition %d: %w", p, err)
	}
	return len(done), nil
}
