package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollgate"
)

// finalError ends what Follow repeats.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// Final makes of an error one that ends Follow, because asking again does not help.
func Final(err error) error { return finalError{err} }

// Follow calls once again and again, with a pause in between, until ctx ends, which is
// no error. While the service is away it says so once and tries again, less and less
// often; a refusal ends it.
func (c *Client) Follow(ctx context.Context, pause time.Duration, once func(context.Context) error) error {
	away := time.Duration(0)
	for {
		err := once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		wait := pause
		if err == nil {
			away = 0
		} else {
			var refused *Refusal
			var final finalError
			if errors.As(err, &final) {
				return final.error
			}
			if errors.As(err, &refused) && refused.Status < 500 && refused.Code != tollgate.CodeTokenExpired {
				return err
			}
			if away == 0 {
				fmt.Fprintf(c.App.Stderr, "tollgate: %v; trying again\n", err)
			}
			away = min(2*away+200*time.Millisecond, 5*time.Second)
			c.RenewAt = time.Time{}
			wait = away
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}
