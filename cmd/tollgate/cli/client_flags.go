package cli

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"tollgate"
)

// KeyFlagName is the flag of commands that take an idempotency key.
const KeyFlagName = "idempotency-key"

// KeyFlag gives a command that flag.
func KeyFlag(c *cobra.Command, key *string) {
	c.Flags().StringVar(key, KeyFlagName, "", "the same key and request give the same answer; a random one when left out")
}

// IdempotencyKey is the given key or a new one, which a retry within the
// command repeats.
func (a *App) IdempotencyKey(given string) string {
	if given != "" {
		return given
	}
	return a.RandomText()
}

// SinceFlag reads --since, a time or how long before now it was.
func SinceFlag(ctx context.Context, text string, now func(context.Context) (time.Time, error)) (tollgate.Instant, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		at, err := now(ctx)
		return tollgate.At(at.Add(-ago)), err
	}
	at, err := tollgate.ParseInstant(text)
	if err != nil {
		return 0, UsageError(fmt.Errorf("--since: %q is neither an RFC 3339 time such as 2026-11-21T18:00:00Z nor how long ago, such as 1h", text))
	}
	return at, nil
}

// QueryFlags are flags that become query parameters of the same meaning.
type QueryFlags []struct{ Flag, Parameter, Usage string }

// Bind gives a command the flags.
func (q QueryFlags) Bind(c *cobra.Command) {
	for _, f := range q {
		c.Flags().String(f.Flag, "", f.Usage)
	}
}

// Values are the parameters of those flags that were given.
func (q QueryFlags) Values(c *cobra.Command) url.Values {
	v := url.Values{}
	for _, f := range q {
		if c.Flags().Changed(f.Flag) {
			text, _ := c.Flags().GetString(f.Flag)
			v.Set(f.Parameter, text)
		}
	}
	return v
}

// PageFlags are those of every list.
var PageFlags = QueryFlags{
	{"limit", "limit", "1 to 100"},
	{"cursor", "cursor", "where the page before ended"},
}
