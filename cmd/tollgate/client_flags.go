package main

import (
	"context"
	"fmt"
	"net/url"
	"time"
	"tollgate"

	"github.com/spf13/cobra"
)

const keyFlagName = "idempotency-key"

func keyFlag(c *cobra.Command, key *string) {
	c.Flags().StringVar(key, keyFlagName, "", "the same key and request give the same answer; a random one when left out")
}

// idempotencyKey is the given key or a new one, which a retry within the
// command repeats.
func (a *app) idempotencyKey(given string) string {
	if given != "" {
		return given
	}
	return a.randomText()
}

// sinceFlag reads --since, a time or how long before now it was.
func sinceFlag(ctx context.Context, text string, now func(context.Context) (time.Time, error)) (tollgate.Instant, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		at, err := now(ctx)
		return tollgate.At(at.Add(-ago)), err
	}
	at, err := tollgate.ParseInstant(text)
	if err != nil {
		return 0, usageError(fmt.Errorf("--since: %q is neither an RFC 3339 time such as 2026-11-21T18:00:00Z nor how long ago, such as 1h", text))
	}
	return at, nil
}

// queryFlags are flags that become query parameters of the same meaning.
type queryFlags []struct{ Flag, Parameter, Usage string }

func (q queryFlags) bind(c *cobra.Command) {
	for _, f := range q {
		c.Flags().String(f.Flag, "", f.Usage)
	}
}

func (q queryFlags) values(c *cobra.Command) url.Values {
	v := url.Values{}
	for _, f := range q {
		if c.Flags().Changed(f.Flag) {
			text, _ := c.Flags().GetString(f.Flag)
			v.Set(f.Parameter, text)
		}
	}
	return v
}

var pageFlags = queryFlags{
	{"limit", "limit", "1 to 100"},
	{"cursor", "cursor", "where the page before ended"},
}
