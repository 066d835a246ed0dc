package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate"
)

func (a *app) recoverCommand() *cobra.Command {
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
		Args: cobra.ExactArgs(1),
	}
	a.clientCommand(c, func(ctx context.Context, api *client, args []string) error {
		from, err := sinceFlag(ctx, since, api.now)
		if err != nil {
			return err
		}
		a.pin("since", from.String())
		body, err := api.post(ctx, webhookPath(args[0], "/recoveries"), map[string]string{"since": from.String()}, a.idempotencyKey(key))
		if err != nil {
			return err
		}
		var r tollgate.Recovery
		if err := parse(body, &r); err != nil {
			return err
		}
		if !noWait {
			if body, err = api.awaitRecovery(ctx, args[0], &r); err != nil {
				return err
			}
		}
		t := &table{}
		t.row("recovery", r.ID)
		t.row("since", r.Since.String())
		t.row("state", r.State)
		t.row("looked at", fmt.Sprint(r.Looked))
		t.row("queued", fmt.Sprint(r.Queued))
		return api.show(body, r.ID, t)
	})
	c.Flags().StringVar(&since, "since", "", "an RFC 3339 time, or how long ago, such as 1h")
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for the job's end")
	keyFlag(c, &key)
	_ = c.MarkFlagRequired("since")
	return c
}

// awaitRecovery asks for a recovery until it has succeeded.
func (c *client) awaitRecovery(ctx context.Context, webhook string, r *tollgate.Recovery) (jsontext.Value, error) {
	pause := 50 * time.Millisecond
	for {
		body, err := c.get(ctx, webhookPath(webhook, "/recoveries/"+url.PathEscape(r.ID)), nil)
		if err != nil {
			return nil, err
		}
		before := *r
		if err := parse(body, r); err != nil {
			return nil, err
		}
		if *r != before && r.State != "succeeded" {
			fmt.Fprintf(c.a.stderr, "%s: looked at %d deliveries, queued %d\n", r.State, r.Looked, r.Queued)
		}
		if r.State == "succeeded" {
			return body, nil
		}
		select {
		case <-ctx.Done():
			return nil, unavailableError(errors.New("not waiting any longer; the job goes on"))
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
	}
}
