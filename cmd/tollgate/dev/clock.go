package dev

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/client"
)

// clockWait is how long the command waits for more to happen, which the worker
// does within a second, and clockLimit for how long at all.
const (
	clockWait  = 3 * time.Second
	clockLimit = 15 * time.Second
)

func clockCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "clock",
		Short: "Show the sandbox's clock, or let time pass in it",
		Long: `Show the clock of the sandbox of 'tollgate dev'. It drives the expiry of
payments, cutoffs, payouts, the days and months of budgets, activations of rules,
the retries of webhooks and how long an idempotency key is remembered. Access
tokens and the timestamps of webhooks keep
to real time.`,
		Example: `  tollgate clock
  tollgate clock advance 26h`,
		Args: cobra.NoArgs,
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, _ []string) error {
		return showClock(api)(api.Get(ctx, "/v1/sandbox/clock", nil))
	})
	c.Flags().Lookup("quiet").Usage = "print only the time"
	c.AddCommand(clockAdvanceCommand(a))
	return c
}

func clockAdvanceCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "advance DURATION",
		Short: "Let time pass in the sandbox, and show what happens",
		Long: `Let time pass in the sandbox of 'tollgate dev': DURATION is hours, minutes and
seconds such as 26h or 1h30m. Print what the clock says then and the events of
what was due by then: payouts, payments that expire. The clock does not go back,
and stays before the year 2200.`,
		Example: `  tollgate clock advance 26h
  tollgate clock advance 120h --quiet`,
		Args: cobra.ExactArgs(1),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		if _, err := time.ParseDuration(args[0]); err != nil {
			return cli.UsageError(fmt.Errorf("%q is not a duration such as 26h or 1h30m", args[0]))
		}
		query := url.Values{}
		if !api.JSON && !api.Quiet {
			query.Set("after", "latest")
			if err := client.StartAtEnd(ctx, api, query); err != nil {
				return err
			}
		}
		body, err := api.Post(ctx, "/v1/sandbox/clock", map[string]any{"advance": args[0]}, "")
		if err != nil {
			return err
		}
		if err := showClock(api)(body, nil); err != nil || api.JSON || api.Quiet {
			return err
		}
		return watchEvents(ctx, api, query)
	})
	c.Flags().Lookup("quiet").Usage = "print only the time, and wait for nothing"
	return c
}

func showClock(c *cli.Client) func(cli.Raw, error) error {
	type clock struct {
		Now      time.Time `json:"now"`
		RealTime time.Time `json:"real_time"`
	}
	return cli.Answered(c, func(clock *clock) (string, *cli.Table) {
		now, t := clock.Now.Format("2006-01-02T15:04:05.000Z"), &cli.Table{}
		t.Row("clock", now)
		t.Row("ahead", clock.Now.Sub(clock.RealTime).Round(time.Second).String()+" of real time")
		return now, t
	})
}

// watchEvents prints events from query's cursor on until nothing more happens.
func watchEvents(ctx context.Context, c *cli.Client, query url.Values) error {
	query.Set("wait", fmt.Sprint(int(clockWait.Seconds())))
	query.Set("limit", "100")
	count := 0
	for until := c.App.Clock().Add(clockLimit); c.App.Clock().Before(until); {
		_, page, err := cli.Read[tollgate.List[cli.Raw]](c.Get(ctx, "/v1/events", query))
		if err != nil {
			return err
		}
		for _, e := range page.Data {
			if count++; count == 1 {
				fmt.Fprintln(c.App.Stdout)
			}
			if err := client.PrintEvent(c, e); err != nil {
				return err
			}
		}
		if len(page.Data) == 0 {
			break
		}
		query.Set("cursor", cmp.Or(cli.Deref(page.NextCursor), query.Get("cursor")))
	}
	if count == 0 {
		_, err := fmt.Fprintln(c.App.Stdout, "\nNothing was due.")
		return err
	}
	return nil
}
