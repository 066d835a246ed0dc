package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

func recoverCommand(a *cli.App) *cobra.Command {
	since, key, noWait := "", "", false
	c := &cobra.Command{
		Use:   "recover WEBHOOK --since TIME",
		Short: "Send again what an endpoint missed: what was held or given up",
		Long: `Send again what an endpoint has missed since a moment: deliveries that were held
while it was disabled, and those that were given up. The service does it as a
job; the command waits for its end and says on standard error how far it is.
--since is a time (RFC 3339) or how long ago (90m).`,
		Example: `  tollgate recover $WEBHOOK --since 1h
  tollgate recover $WEBHOOK --since 2026-11-21T18:00:00Z --no-wait`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/webhooks"),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		from, err := cli.SinceFlag(ctx, since, api.Now)
		if err != nil {
			return err
		}
		a.Pin("since", from.String())
		body, r, err := cli.Read[tollgate.Recovery](api.Post(ctx, webhookPath(args[0], "/recoveries"), map[string]string{"since": from.String()}, a.IdempotencyKey(key)))
		if err != nil {
			return err
		}
		if !noWait {
			if body, err = awaitRecovery(ctx, api, args[0], &r); err != nil {
				return err
			}
		}
		t := &cli.Table{}
		t.Row("recovery", r.ID)
		t.Row("since", r.Since.String())
		t.Row("state", r.State)
		t.Row("looked at", fmt.Sprint(r.Looked))
		t.Row("queued", fmt.Sprint(r.Queued))
		return api.Show(body, r.ID, t)
	})
	c.Flags().StringVar(&since, "since", "", "an RFC 3339 time, or how long ago, such as 1h")
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for the job's end")
	cli.KeyFlag(c, &key)
	_ = c.MarkFlagRequired("since")
	return c
}

// awaitRecovery asks for a recovery until it has succeeded.
func awaitRecovery(ctx context.Context, c *cli.Client, webhook string, r *tollgate.Recovery) (jsontext.Value, error) {
	pause := 50 * time.Millisecond
	for {
		body, err := c.Get(ctx, webhookPath(webhook, "/recoveries/"+url.PathEscape(r.ID)), nil)
		if err != nil {
			return nil, err
		}
		before := *r
		if err := cli.Parse(body, r); err != nil {
			return nil, err
		}
		if *r != before && r.State != "succeeded" {
			fmt.Fprintf(c.App.Stderr, "%s: looked at %d deliveries, queued %d\n", r.State, r.Looked, r.Queued)
		}
		if r.State == "succeeded" {
			return body, nil
		}
		select {
		case <-ctx.Done():
			return nil, cli.UnavailableError(errors.New("not waiting any longer; the job goes on"))
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
	}
}
