package rules

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

func ruleShadowCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "shadow",
		Short: "Price a candidate beside a rule in force",
		Long: `Have a published rule priced beside one that is in force, behind the requests: on
each quote, and on each payment once, as it was authorized. Captures are not
compared. It never answers and never delays; what it prices in another way is
counted and listed.`,
	}
	c.AddCommand(shadowStartCommand(a), shadowListCommand(a), shadowShowCommand(a), shadowStopCommand(a))
	return c
}

func shadowPath(id, below string) string { return "/v1/shadows/" + url.PathEscape(id) + below }

func shadowStartCommand(a *cli.App) *cobra.Command {
	against, key := "", ""
	var accounts []string
	c := &cobra.Command{
		Use:     "start RULE --against RULE",
		Short:   "Start a shadow",
		Example: "  tollgate rule shadow start rule:my_fee@v2 --against rule:my_fee@v1 --accounts $TOLLGATE_MERCHANT_ACCOUNT",
		Args:    cobra.ExactArgs(1),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		return showShadow(api)(api.Post(ctx, "/v1/shadows", map[string]any{"rule": args[0], "against": against, "merchant_account_ids": accounts}, a.IdempotencyKey(key)))
	})
	c.Flags().StringVar(&against, "against", "", "the rule in whose place it is priced")
	c.Flags().StringSliceVar(&accounts, "accounts", nil, "merchant accounts, separated by commas (default: all that the grant reaches)")
	cli.KeyFlag(c, &key)
	_ = c.MarkFlagRequired("against")
	return c
}

func shadowStopCommand(a *cli.App) *cobra.Command {
	key := ""
	c := &cobra.Command{
		Use:     "stop SHADOW",
		Short:   "Stop a shadow; what it has found stays",
		Example: "  tollgate rule shadow stop $SHADOW",
		Args:    cobra.ExactArgs(1),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		return showShadow(api)(api.Post(ctx, shadowPath(args[0], "/stop"), nil, a.IdempotencyKey(key)))
	})
	cli.KeyFlag(c, &key)
	return c
}

func shadowShowCommand(a *cli.App) *cobra.Command {
	limit := 20
	c := &cobra.Command{
		Use:     "show SHADOW",
		Short:   "Show what a shadow has found",
		Example: "  tollgate rule shadow show $SHADOW --limit 50",
		Args:    cobra.ExactArgs(1),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		body, err := api.Get(ctx, shadowPath(args[0], ""), nil)
		if err != nil {
			return err
		}
		found, err := api.Get(ctx, shadowPath(args[0], "/divergences"), url.Values{"limit": {strconv.Itoa(limit)}})
		if err != nil {
			return err
		}
		if api.JSON {
			return a.PrintJSON(struct {
				Shadow      jsontext.Value `json:"shadow"`
				Divergences jsontext.Value `json:"divergences"`
			}{body, found})
		}
		if err := showShadow(api)(body, nil); err != nil || api.Quiet {
			return err
		}
		return showDivergences(api, found)
	})
	c.Flags().IntVar(&limit, "limit", limit, "how many divergences, 1 to 100")
	return c
}

func shadowListCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List shadows, the newest first",
		Example: "  tollgate rule shadow list",
		Args:    cobra.NoArgs,
	}
	return a.ClientCommand(c, func(ctx context.Context, api *cli.Client, _ []string) error {
		t := &cli.Table{Right: []int{3, 4}}
		t.Row("STATUS", "RULE", "AGAINST", "COMPARED", "DIFFERENT", "DIFFERENCE", "ID")
		return cli.ShowAll(ctx, api, "/v1/shadows", url.Values{}, t, func(s *tollgate.Shadow) string {
			t.Row(s.Status, s.Rule.Rule.String(), s.Against.String(), strconv.FormatInt(s.Totals.Compared, 10), strconv.FormatInt(s.Totals.Different, 10), differences(s), s.ID)
			return s.ID
		})
	})
}

// differences are by how much a candidate's fees are more, by currency.
func differences(s *tollgate.Shadow) string {
	var parts []string
	for _, d := range s.Totals.Differences {
		parts = append(parts, d.Amount+" "+string(d.Currency))
	}
	return cli.Joined(parts, "-")
}

// showShadow prints the answer of an endpoint that answers with a shadow.
func showShadow(c *cli.Client) func(cli.Raw, error) error { return cli.Answered(c, shadowTable) }

func shadowTable(s *tollgate.Shadow) (id string, t *cli.Table) {
	t = &cli.Table{}
	t.Row("shadow", s.ID)
	t.Row("rule", s.Rule.Rule.String())
	t.Row("against", s.Against.String())
	t.Row("accounts", cli.Joined(s.MerchantAccountIDs, "all"))
	t.Row("status", s.Status)
	t.Row("compared", fmt.Sprintf("%d: %d equal, %d different (%d failed); %d dropped", s.Totals.Compared, s.Totals.Equal, s.Totals.Different, s.Totals.Failed, s.Totals.Dropped))
	t.Row("difference", differences(s))
	return s.ID, t
}

func showDivergences(c *cli.Client, found jsontext.Value) error {
	var page tollgate.List[tollgate.Listed[tollgate.Divergence]]
	if err := cli.Parse(found, &page); err != nil || len(page.Data) == 0 {
		return err
	}
	lines := func(list []tollgate.FeeLine) string {
		parts := make([]string, len(list))
		for i, l := range list {
			parts[i] = l.Amount.String() + " " + l.Label
		}
		return cli.Joined(parts, "no line")
	}
	t := &cli.Table{Right: []int{1, 4}}
	t.Row("TIME", "AMOUNT", "PAYEE", "IN FORCE", "DIFFERENCE", "CANDIDATE")
	for _, entry := range page.Data {
		if entry.Damage != nil {
			t.Damaged(entry.Damage)
			continue
		}
		d := &entry.Value
		shadow, difference := lines(d.Shadow), "-"
		if d.Error != nil {
			shadow = d.Error.Message
		}
		if d.Difference != nil {
			difference = d.Difference.String()
		}
		t.Row(d.CreatedAt.String(), cli.PriceText(d.Input.Amount), cli.PayeeText(d.Input.Payee), lines(d.Live), difference, shadow)
	}
	if _, err := fmt.Fprintln(c.App.Stdout); err != nil {
		return err
	}
	return c.App.Print(t)
}
