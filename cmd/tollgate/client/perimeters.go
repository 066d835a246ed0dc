package client

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

var usageFlags = cli.QueryFlags{
	{"account", "merchant_account_id", "usage of this merchant account only"},
	{"payee", "payee", "the payee whose usage limits per payee show"},
}

func perimetersCommand(a *cli.App) *cobra.Command {
	return cli.ListCommand(a, &cobra.Command{
		Use:     "perimeters",
		Short:   "List the perimeters of your merchant accounts",
		Example: "  tollgate perimeters\n  tollgate perimeter $PERIMETER --payee shop.example",
	}, "/v1/perimeters", append(slices.Clone(usageFlags), cli.PageFlags...), []string{"PERIMETER", "VERSION", "ACCOUNTS", "CONSTRAINTS"}, []int{1, 2},
		func(t *cli.Table, p *tollgate.PerimeterAnswer) string {
			t.Row(p.ID, strconv.FormatInt(p.Version, 10), strconv.Itoa(len(p.Accounts)), constraintNames(p))
			return p.ID
		})
}

func constraintNames(p *tollgate.PerimeterAnswer) string {
	names, err := membersOf(p.Constraints)
	if err != nil || len(names) == 0 {
		return "none"
	}
	return abridged(names)
}

func membersOf(object jsontext.Value) ([]string, error) {
	var members map[string]cli.Raw
	if err := cli.Parse(object, &members); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

func perimeterCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "perimeter ID",
		Short: "Show a perimeter and what is left of its limits",
		Long: `Show one version of a perimeter: its constraints, the merchant accounts where the
perimeter is in force, and what payments have used of its budgets and
frequencies. To see the usage of a limit per payee, name the payee.`,
		Example: `  tollgate perimeter $PERIMETER
  tollgate perimeter $PERIMETER --version 1
  tollgate perimeter $PERIMETER --payee shop.example`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/perimeters"),
	}
	flags := append(slices.Clone(usageFlags), cli.QueryFlags{{"version", "version", "this version; without it the highest"}}...)
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		body, p, err := cli.Read[tollgate.PerimeterAnswer](api.Get(ctx, "/v1/perimeters/"+url.PathEscape(args[0]), flags.Values(c)))
		if err != nil {
			return err
		}
		if api.JSON || api.Quiet {
			return api.Show(body, p.ID, nil)
		}
		return printPerimeter(a, &p)
	})
	flags.Bind(c)
	return c
}

func printPerimeter(a *cli.App, p *tollgate.PerimeterAnswer) error {
	if err := p.Constraints.Indent(); err != nil {
		return err
	}
	head := &cli.Table{}
	head.Row("perimeter", fmt.Sprintf("%s, version %d", p.ID, p.Version))
	if p.Semantics == nil {
		head.Row("meaning", tollgate.EarlierSemantics)
	}
	name := "accounts"
	for _, m := range p.Accounts {
		head.Row(name, fmt.Sprintf("%s, version %d", m.ID, m.Version))
		name = ""
	}
	if len(p.Accounts) == 0 {
		head.Row(name, "none")
	}
	usage := &cli.Table{Right: []int{2, 3}}
	usage.Row("WINDOW", "PER", "USED", "LIMIT", "", "RESETS", "WHOSE")
	for _, entry := range p.Usage {
		if entry.Damage != nil {
			usage.Row("damaged", "", "", "", "", "", entry.Damage.ID)
			continue
		}
		u := &entry.Value
		currency := "payments"
		if u.Currency != nil {
			currency = string(*u.Currency)
		}
		whose := u.MerchantAccountID
		if whose == nil {
			whose = u.Payee
		}
		usage.Row(u.Window+" "+u.TimeZone, strings.ReplaceAll(u.Per, "_", " "), cli.Deref(u.Used), u.Limit, currency, u.ResetsAt.String(), cli.Deref(whose))
	}
	if _, err := fmt.Fprintf(a.Stdout, "%s\n%s\n", head, printableLines(string(p.Constraints))); err != nil || len(p.Usage) == 0 {
		return err
	}
	_, err := fmt.Fprintf(a.Stdout, "\n%s", usage)
	return err
}

// printableLines makes JSON of the service fit for a terminal.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		lines[i] = strings.Repeat("  ", indent) + cli.Printable(line[indent:])
	}
	return strings.Join(lines, "\n")
}
