package webhooks

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

func webhooksCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "webhooks",
		Short: "Make, show and change webhook endpoints; check signatures",
		Long: `Make, show and change webhook endpoints: where events are delivered, signed as
Standard Webhooks says. An endpoint's secret is printed once, by the command
that makes it.`,
	}
	c.AddCommand(webhookCreateCommand(a), webhookListCommand(a), webhookShowCommand(a), webhookUpdateCommand(a),
		webhookStatusCommand(a, "enable", "active", "Deliver again what happens from now on",
			"Deliver again what happens from now on. What was held meanwhile is sent by\n'tollgate recover'."),
		webhookStatusCommand(a, "disable", "disabled", "Hold deliveries back",
			"Hold deliveries back. They are kept, and 'tollgate recover' sends them when the\nendpoint is enabled again."),
		webhookDeleteCommand(a), webhookRotateCommand(a), webhookTestCommand(a), webhookVerifyCommand(a))
	return c
}

// webhookFields are the flags of what create and update can set.
type webhookFields struct {
	scheme, description string
	events, accounts    []string
	metadata            map[string]string
}

func (f *webhookFields) bind(c *cobra.Command) {
	c.Flags().StringSliceVar(&f.events, "events", nil, "types or patterns such as payment.*, separated by commas; empty for all")
	c.Flags().StringSliceVar(&f.accounts, "accounts", nil, "merchant accounts, separated by commas; empty for all of the grant")
	c.Flags().StringVar(&f.scheme, "scheme", "", "v1 (HMAC-SHA256, the default), v1a (Ed25519) or both")
	c.Flags().StringVar(&f.description, "description", "", "at most 255 characters")
	c.Flags().StringToStringVar(&f.metadata, "metadata", nil, "key=value, several separated by commas or by repeating the flag")
	_ = c.RegisterFlagCompletionFunc("scheme", cobra.FixedCompletions([]string{"v1", "v1a", "both"}, cobra.ShellCompDirectiveNoFileComp))
}

// body holds the fields whose flags are there; an empty one takes away.
func (f *webhookFields) body(c *cobra.Command) map[string]any {
	body := map[string]any{}
	for flag, field := range map[string]struct {
		name  string
		value any
	}{
		"scheme": {"signature_scheme", f.scheme}, "description": {"description", f.description},
		"events": {"event_types", f.events}, "accounts": {"merchant_account_ids", f.accounts}, "metadata": {"metadata", f.metadata},
	} {
		if !c.Flags().Changed(flag) {
			continue
		}
		if flag == "description" && f.description == "" {
			field.value = nil
		}
		body[field.name] = field.value
	}
	return body
}

func webhookCreateCommand(a *cli.App) *cobra.Command {
	var f webhookFields
	key := ""
	c := &cobra.Command{
		Use:   "create URL",
		Short: "Make an endpoint and print its secret, once",
		Long: `Make an endpoint and print its secret, once. URL is https on port 443 or 8443;
in the sandbox it can also be on this machine. With --quiet the secret is not
shown; 'tollgate webhooks rotate' makes another.`,
		Example: `  tollgate webhooks create https://shop.example/hooks
  tollgate webhooks create https://shop.example/hooks --events 'payment.*' --scheme both
  tollgate webhooks create http://127.0.0.1:3000/hooks --json | jq -r .secret`,
		Args: cobra.ExactArgs(1),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		body := f.body(c)
		body["url"] = args[0]
		answer, err := api.Post(ctx, "/v1/webhooks", body, a.IdempotencyKey(key))
		if err != nil {
			return err
		}
		return showWebhook(api)(answer, nil)
	})
	f.bind(c)
	cli.KeyFlag(c, &key)
	return c
}

func webhookListCommand(a *cli.App) *cobra.Command {
	return cli.ListCommand(a, &cobra.Command{
		Use:     "list",
		Short:   "List endpoints",
		Example: "  tollgate webhooks list\n  tollgate webhooks list --quiet",
	}, "/v1/webhooks", cli.PageFlags, []string{"WEBHOOK", "STATUS", "SCHEME", "EVENTS", "URL"}, nil, func(t *cli.Table, w *tollgate.WebhookEndpoint) string {
		t.Row(w.ID, webhookStatus(w), string(w.SignatureScheme), cli.Joined(w.EventTypes, "all"), w.URL)
		return w.ID
	})
}

func webhookShowCommand(a *cli.App) *cobra.Command {
	return a.ClientCommand(&cobra.Command{
		Use:               "show WEBHOOK",
		Short:             "Show an endpoint and its signing keys",
		Example:           "  tollgate webhooks show $WEBHOOK",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/webhooks"),
	}, func(ctx context.Context, api *cli.Client, args []string) error {
		return showWebhook(api)(api.Get(ctx, webhookPath(args[0], ""), nil))
	})
}

func webhookUpdateCommand(a *cli.App) *cobra.Command {
	var f webhookFields
	c := &cobra.Command{
		Use:   "update WEBHOOK [URL]",
		Short: "Change an endpoint",
		Long: `Change the URL if there is one and what the flags name; the rest stays. Empty
takes away: --events '' means all events, --description '' none. Another scheme
makes the keys that are missing, and prints the secret if there is a new one.`,
		Example: `  tollgate webhooks update $WEBHOOK https://shop.example/hooks/v2
  tollgate webhooks update $WEBHOOK --events payment.captured,payment.released`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.CompleteIDs("/v1/webhooks"),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		body := f.body(c)
		if len(args) == 2 {
			body["url"] = args[1]
		}
		if len(body) == 0 {
			return cli.UsageError(errors.New("update: say what to change, see 'tollgate webhooks update --help'"))
		}
		answer, err := api.Write(ctx, http.MethodPatch, webhookPath(args[0], ""), body, "")
		if err != nil {
			return err
		}
		return showWebhook(api)(answer, nil)
	})
	f.bind(c)
	return c
}

// webhookStatusCommand makes enable and disable.
func webhookStatusCommand(a *cli.App, name, status, short, long string) *cobra.Command {
	return a.ClientCommand(&cobra.Command{
		Use:               name + " WEBHOOK",
		Short:             short,
		Long:              long,
		Example:           "  tollgate webhooks " + name + " $WEBHOOK",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/webhooks"),
	}, func(ctx context.Context, api *cli.Client, args []string) error {
		answer, err := api.Write(ctx, http.MethodPatch, webhookPath(args[0], ""), map[string]string{"status": status}, "")
		if err != nil {
			return err
		}
		return showWebhook(api)(answer, nil)
	})
}

func webhookDeleteCommand(a *cli.App) *cobra.Command {
	return a.ClientCommand(&cobra.Command{
		Use:               "delete WEBHOOK",
		Short:             "Delete an endpoint; what it has not been sent yet is canceled",
		Example:           "  tollgate webhooks delete $WEBHOOK",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/webhooks"),
	}, func(ctx context.Context, api *cli.Client, args []string) error {
		answer, err := api.Write(ctx, http.MethodDelete, webhookPath(args[0], ""), nil, "")
		if err != nil {
			return err
		}
		t := &cli.Table{}
		t.Row("deleted", args[0])
		return api.Show(answer, args[0], t)
	})
}

func webhookTestCommand(a *cli.App) *cobra.Command {
	key := ""
	c := &cobra.Command{
		Use:   "test WEBHOOK",
		Short: "Send a signed ping, whatever the endpoint's filters",
		Long: `Send a signed ping, whatever the endpoint's filters. It is a delivery like
others, but of no event: 'tollgate attempts' shows what came of it. While the
endpoint is disabled it is held; 'tollgate resend' sends it once that is enabled.`,
		Example: `  tollgate webhooks test $WEBHOOK
  tollgate attempts $WEBHOOK $(tollgate webhooks test $WEBHOOK --quiet)`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/webhooks"),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		answer, d, err := cli.Read[tollgate.Delivery](api.Post(ctx, webhookPath(args[0], "/test"), nil, a.IdempotencyKey(key)))
		if err != nil {
			return err
		}
		t := &cli.Table{}
		t.Row("delivery", d.ID)
		t.Row("state", string(d.State))
		return api.Show(answer, d.ID, t)
	})
	cli.KeyFlag(c, &key)
	return c
}

func webhookRotateCommand(a *cli.App) *cobra.Command {
	overlap, key := 24*time.Hour, ""
	c := &cobra.Command{
		Use:   "rotate WEBHOOK",
		Short: "Make a new secret and print it, once",
		Long: `Make a new secret and print it, once. Until the overlap is over deliveries are
signed with both, so that the receiver can change over in between.`,
		Example: `  tollgate webhooks rotate $WEBHOOK
  tollgate webhooks rotate $WEBHOOK --overlap 1h --quiet`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/webhooks"),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		if overlap < 0 || overlap%time.Second != 0 {
			return cli.UsageError(errors.New("--overlap is whole seconds, such as 90s or 24h"))
		}
		body := map[string]int64{"overlap_seconds": int64(overlap / time.Second)}
		answer, w, err := cli.Read[tollgate.WebhookEndpoint](api.Post(ctx, webhookPath(args[0], "/secrets"), body, a.IdempotencyKey(key)))
		if err != nil {
			return err
		}
		return api.Show(answer, newestKey(&w), webhookTable(&w))
	})
	c.Flags().DurationVar(&overlap, "overlap", overlap, "how long the keys until now still sign, at most 168h; 0 ends them at once")
	c.Flags().Lookup("quiet").Usage = "print only the new secret, or of v1a the public key"
	cli.KeyFlag(c, &key)
	return c
}
