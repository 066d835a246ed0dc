package webhooks

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

var deliveryFlags = append(cli.QueryFlags{
	{"state", "state", "states separated by commas: " + deliveryStates()},
	{"type", "event_type", "event type, such as payment.captured"},
}, cli.PageFlags...)

func deliveryStates() string {
	var names []string
	for _, s := range tollgate.DeliveryStates {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

func deliveriesCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "deliveries WEBHOOK",
		Short: "List an endpoint's deliveries, the newest first",
		Example: `  tollgate deliveries $WEBHOOK
  tollgate deliveries $WEBHOOK --state failed,held --type payment.captured`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/webhooks"),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		body, err := api.Get(ctx, webhookPath(args[0], "/deliveries"), deliveryFlags.Values(c))
		if err != nil {
			return err
		}
		t := &cli.Table{Right: []int{3, 4}}
		t.Row("CREATED", "TYPE", "STATE", "ATTEMPTS", "CODE", "NEXT", "EVENT", "DELIVERY", "FAILURE")
		return cli.ShowPage(api, body, t, func(d *tollgate.Delivery) string {
			t.Row(d.CreatedAt.String(), string(d.EventType), string(d.State), strconv.Itoa(d.AttemptCount), number(d.LastStatusCode),
				cli.Moment(d.NextAttemptAt), d.EventID, d.ID, cli.Deref(d.FailureReason))
			return d.ID
		})
	})
	deliveryFlags.Bind(c)
	c.Flags().Lookup("quiet").Usage = "print only the ids"
	return c
}

func attemptsCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "attempts WEBHOOK DELIVERY",
		Short: "List what was tried to deliver, the oldest first",
		Long: `List every attempt of a delivery: what started it, how it ended, how long each
phase took in milliseconds, the versions of the keys that signed it and when the
next one is due. With --json also what came back.`,
		Example: `  tollgate attempts $WEBHOOK $DELIVERY
  tollgate attempts $WEBHOOK $DELIVERY --json | jq .data[].response`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.CompleteIDs("/v1/webhooks"),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		body, err := api.Get(ctx, deliveryPath(args[0], args[1], "/attempts"), cli.PageFlags.Values(c))
		if err != nil {
			return err
		}
		t := &cli.Table{Right: []int{0, 4, 5, 6, 7, 8, 9}}
		t.Row("NUMBER", "STARTED", "TRIGGER", "STATUS", "CODE", "MS", "DNS", "CONNECT", "TLS", "FIRST BYTE", "KEYS", "NEXT", "FAILURE")
		return cli.ShowPage(api, body, t, func(x *tollgate.Attempt) string {
			t.Row(attemptCells(x)...)
			return x.ID
		})
	})
	cli.PageFlags.Bind(c)
	c.Flags().Lookup("quiet").Usage = "print only the ids"
	return c
}

func attemptCells(x *tollgate.Attempt) []string {
	var code *int
	if x.Response != nil {
		code = &x.Response.StatusCode
	}
	keys := make([]string, len(x.SigningKeys))
	for i, k := range x.SigningKeys {
		keys[i] = fmt.Sprintf("%d/%s", k.Version, k.Scheme)
	}
	failure := ""
	if x.Error != nil {
		failure = x.Error.Code + ": " + x.Error.Message
	}
	return []string{
		strconv.Itoa(x.Number), x.StartedAt.String(), string(x.Trigger), string(x.Status), number(code), number(x.DurationMS), number(x.Timing.DNSMS),
		number(x.Timing.ConnectMS), number(x.Timing.TLSMS), number(x.Timing.FirstByteMS), cli.Joined(keys, "-"), cli.Moment(x.NextAttemptAt), failure,
	}
}

// number is a number that need not be there.
func number[T int | int64](n *T) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(int64(*n), 10)
}

func resendCommand(a *cli.App) *cobra.Command {
	reason, key := "", ""
	c := &cobra.Command{
		Use:     "resend WEBHOOK DELIVERY",
		Aliases: []string{"replay"},
		Short:   "Send a delivery now: one that waits for a retry, was given up or was received",
		Long: `Send a delivery now, in every state but sending: one that waits for its next
attempt, was given up, or was received. The receiver gets the same bytes under
the same webhook-id. The schedule of retries starts anew, and a pause of the
endpoint ends. The replay is linked to the delivery, and its attempts are among
the delivery's.`,
		Example: `  tollgate deliveries $WEBHOOK --state retrying
  tollgate resend $WEBHOOK $DELIVERY --reason 'the receiver is back'`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.CompleteIDs("/v1/webhooks"),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		request := map[string]string{}
		if reason != "" {
			request["reason"] = reason
		}
		body, r, err := cli.Read[tollgate.Replay](api.Post(ctx, deliveryPath(args[0], args[1], "/replays"), request, a.IdempotencyKey(key)))
		if err != nil {
			return err
		}
		t := &cli.Table{}
		t.Row("replay", r.ID)
		t.Row("state", string(r.State))
		t.Row("delivery", r.DeliveryID)
		t.Row("event", r.EventID)
		if r.Reason != nil {
			t.Row("reason", *r.Reason)
		}
		return api.Show(body, r.ID, t)
	})
	c.Flags().StringVar(&reason, "reason", "", "why, at most 255 characters")
	cli.KeyFlag(c, &key)
	return c
}
