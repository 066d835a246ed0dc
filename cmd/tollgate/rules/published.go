package rules

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/rules/source"
)

func showRule(c *cli.Client) func(cli.Raw, error) error { return cli.Answered(c, ruleTable) }

func ruleTable(r *source.PublishedRule) (id string, t *cli.Table) {
	t = &cli.Table{}
	t.Row("rule", r.Rule.Rule.String())
	t.Row("id", r.ID)
	t.Row("sha256", r.SHA256)
	t.Row("bytes", strconv.Itoa(r.Bytes))
	t.Row("label", r.Label)
	t.Row("fuel", "at most "+strconv.FormatInt(r.MaxFuel, 10)+" in its golden cases")
	t.Row("signed by", r.SignerID+", key "+r.KeyID)
	t.Row("published", r.CreatedAt.String())
	for i, g := range r.Golden {
		name := ""
		if i == 0 {
			name = "golden"
		}
		t.Row(name, g.Name(), g.Outcome())
	}
	return r.ID, t
}

func ruleShowCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "show RULE",
		Short:   "Show a published rule with its golden cases",
		Example: "  tollgate rule show rule:my_fee@v1",
		Args:    cobra.ExactArgs(1),
	}
	return a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		rule, err := tollgate.ParseCitation(args[0])
		if err != nil {
			return cli.UsageError(err)
		}
		body, err := api.Get(ctx, "/v1/rules/"+tollgate.RuleID(rule), nil)
		if err != nil {
			if known, _ := source.Builtin(rule); known != nil {
				return fmt.Errorf("%s is not published: this binary brings it along, and '%s rule test %s --verbose' shows its golden cases: %w", rule, a.Program, rule, err)
			}
			return fmt.Errorf("%s: %w", rule, err)
		}
		return showRule(api)(body, nil)
	})
}

func rulePublishedCommand(a *cli.App) *cobra.Command {
	name := ""
	c := &cobra.Command{
		Use:   "published",
		Short: "List the rules that the organization has published",
		Example: `  tollgate rule published
  tollgate rule published --name my_fee`,
		Args: cobra.NoArgs,
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, _ []string) error {
		query := url.Values{}
		if name != "" {
			query.Set("name", name)
		}
		t := &cli.Table{Right: []int{2, 3}}
		t.Row("RULE", "LABEL", "BYTES", "FUEL", "SIGNED BY", "PUBLISHED", "SHA256")
		return cli.ShowAll(ctx, api, "/v1/rules", query, t, func(r *tollgate.Rule) string {
			t.Row(r.Rule.String(), r.Label, strconv.Itoa(r.Bytes), strconv.FormatInt(r.MaxFuel, 10), r.SignerID, r.CreatedAt.String(), r.SHA256)
			return r.ID
		})
	})
	c.Flags().StringVar(&name, "name", "", "the versions of one rule only")
	return c
}
