package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate"
)

func (a *app) ruleShadowCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "shadow",
		Short: "Price a candidate beside a rule in force",
		Long: `Have a published rule priced beside one that is in force, behind the requests: on
each quote, and on each payment once, as it was authorized. Captures are not
compared. It never answers and never delays; what it prices in another way is
counted and listed.`,
	}
	c.AddCommand(a.shadowStartCommand(), a.shadowListCommand(), a.shadowShowCommand(), a.shadowStopCommand())
	return c
}

func shadowPath(id, below string) string { return "/v1/shadows/" + url.PathEscape(id) + below }

func (a *app) shadowStartCommand() *cobra.Command {
	against, key := "", ""
	var accounts []string
	c := &cobra.Command{
		Use:     "start RULE --against RULE",
		Short:   "Start a shadow",
		Example: "  tollgate rule shadow start rule:my_fee@v2 --against rule:my_fee@v1 --accounts $TOLLGATE_MERCHANT_ACCOUNT",
		Args:    cobra.ExactArgs(1),
	}
	a.clientCommand(c, func(ctx context.Context, api *client, args []string) error {
		body, err := api.post(ctx, "/v1/shadows", map[string]any{"rule": args[0], "against": against, "merchant_account_ids": accounts}, a.idempotencyKey(key))
		if err != nil {
			return err
		}
		return api.showShadow(body, nil)
	})
	c.Flags().StringVar(&against, "against", "", "the rule in whose place it is priced")
	c.Flags().StringSliceVar(&accounts, "accounts", nil, "merchant accounts, separated by commas (default: all that the grant reaches)")
	keyFlag(c, &key)
	_ = c.MarkFlagRequired("against")
	return c
}

func (a *app) shadowStopCommand() *cobra.Command {
	key := ""
	c := &cobra.Command{
		Use:     "stop SHADOW",
		Short:   "Stop a shadow; what it has found stays",
		Example: "  tollgate rule shadow stop $SHADOW",
		Args:    cobra.ExactArgs(1),
	}
	a.clientCommand(c, func(ctx context.Context, api *client, args []string) error {
		body, err := api.post(ctx, shadowPath(args[0], "/stop"), nil, a.idempotencyKey(key))
		if err != nil {
			return err
		}
		return api.showShadow(body, nil)
	})
	keyFlag(c, &key)
	return c
}

func (a *app) shadowShowCommand() *cobra.Command {
	limit := 20
	c := &cobra.Command{
		Use:     "show SHADOW",
		Short:   "Show what a shadow has found",
		Example: "  tollgate rule shadow show $SHADOW --limit 50",
		Args:    cobra.ExactArgs(1),
	}
	a.clientCommand(c, func(ctx context.Context, api *client, args []string) error {
		body, err := api.get(ctx, shadowPath(args[0], ""), nil)
		if err != nil {
			return err
		}
		found, err := api.get(ctx, shadowPath(args[0], "/divergences"), url.Values{"limit": {strconv.Itoa(limit)}})
		if err != nil {
			return err
		}
		if api.json {
			return a.printJSON(struct {
				Shadow      jsontext.Value `json:"shadow"`
				Divergences jsontext.Value `json:"divergences"`
			}{body, found})
		}
		return api.showShadow(body, found)
	})
	c.Flags().IntVar(&limit, "limit", limit, "how many divergences, 1 to 100")
	return c
}

func (a *app) shadowListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List shadows, the newest first",
		Example: "  tollgate rule shadow list",
		Args:    cobra.NoArgs,
	}
	return a.clientCommand(c, func(ctx context.Context, api *client, _ []string) error {
		t := &table{right: []int{3, 4}}
		t.row("STATUS", "RULE", "AGAINST", "COMPARED", "DIFFERENT", "DIFFERENCE", "ID")
		return showAll(ctx, api, "/v1/shadows", url.Values{}, t, func(s *tollgate.Shadow) string {
			t.row(s.Status, s.Rule.Rule.String(), s.Against.String(), strconv.FormatInt(s.Totals.Compared, 10), strconv.FormatInt(s.Totals.Different, 10), differences(s), s.ID)
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
	return joined(parts, "-")
}

// showShadow prints a shadow, and divergences if there are any.
func (c *client) showShadow(body, found jsontext.Value) error {
	var s tollgate.Shadow
	if err := parse(body, &s); err != nil {
		return err
	}
	t := &table{}
	t.row("shadow", s.ID)
	t.row("rule", s.Rule.Rule.String())
	t.row("against", s.Against.String())
	t.row("accounts", joined(s.MerchantAccountIDs, "all"))
	t.row("status", s.Status)
	t.row("compared", fmt.Sprintf("%d: %d equal, %d different (%d failed); %d dropped", s.Totals.Compared, s.Totals.Equal, s.Totals.Different, s.Totals.Failed, s.Totals.Dropped))
	t.row("difference", differences(&s))
	if err := c.show(body, s.ID, t); err != nil || found == nil || c.quiet {
		return err
	}
	return c.showDivergences(found)
}

func (c *client) showDivergences(found jsontext.Value) error {
	var page tollgate.List[tollgate.Listed[tollgate.Divergence]]
	if err := parse(found, &page); err != nil || len(page.Data) == 0 {
		return err
	}
	lines := func(list []tollgate.FeeLine) string {
		parts := make([]string, len(list))
		for i, l := range list {
			parts[i] = l.Amount.String() + " " + l.Label
		}
		return joined(parts, "no line")
	}
	t := &table{right: []int{1, 4}}
	t.row("TIME", "AMOUNT", "PAYEE", "IN FORCE", "DIFFERENCE", "CANDIDATE")
	for _, entry := range page.Data {
		if entry.Damage != nil {
			t.damaged(entry.Damage)
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
		t.row(d.CreatedAt.String(), priceText(d.Input.Amount), d.Input.Payee, lines(d.Live), difference, shadow)
	}
	if _, err := fmt.Fprintln(c.a.stdout); err != nil {
		return err
	}
	return c.a.print(t)
}
