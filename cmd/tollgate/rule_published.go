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

func (c *client) showRule(body jsontext.Value) error {
	var r publishedRule
	if err := parse(body, &r); err != nil {
		return err
	}
	t := &table{}
	t.row("rule", r.Rule.Rule.String())
	t.row("id", r.ID)
	t.row("sha256", r.SHA256)
	t.row("bytes", strconv.Itoa(r.Bytes))
	t.row("label", r.Label)
	t.row("fuel", "at most "+strconv.FormatInt(r.MaxFuel, 10)+" in its golden cases")
	t.row("signed by", r.SignerID+", key "+r.KeyID)
	t.row("published", r.CreatedAt.String())
	for i, g := range r.Golden {
		name := ""
		if i == 0 {
			name = "golden"
		}
		t.row(name, g.Name(), g.Outcome())
	}
	return c.show(body, r.ID, t)
}

func (a *app) ruleShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "show RULE",
		Short:   "Show a published rule with its golden cases",
		Example: "  tollgate rule show rule:my_fee@v1",
		Args:    cobra.ExactArgs(1),
	}
	return a.clientCommand(c, func(ctx context.Context, api *client, args []string) error {
		rule, err := tollgate.ParseCitation(args[0])
		if err != nil {
			return usageError(err)
		}
		body, err := api.get(ctx, "/v1/rules/"+tollgate.RuleID(rule), nil)
		if err != nil {
			if known, _ := shipped(rule); known != nil {
				return fmt.Errorf("%s is not published: this binary brings it along, and '%s rule test %s --verbose' shows its golden cases: %w", rule, a.program, rule, err)
			}
			return fmt.Errorf("%s: %w", rule, err)
		}
		return api.showRule(body)
	})
}

func (a *app) rulePublishedCommand() *cobra.Command {
	name := ""
	c := &cobra.Command{
		Use:   "published",
		Short: "List the rules that the organization has published",
		Example: `  tollgate rule published
  tollgate rule published --name my_fee`,
		Args: cobra.NoArgs,
	}
	a.clientCommand(c, func(ctx context.Context, api *client, _ []string) error {
		query := url.Values{}
		if name != "" {
			query.Set("name", name)
		}
		t := &table{right: []int{2, 3}}
		t.row("RULE", "LABEL", "BYTES", "FUEL", "SIGNED BY", "PUBLISHED", "SHA256")
		return showAll(ctx, api, "/v1/rules", query, t, func(r *tollgate.Rule) string {
			t.row(r.Rule.String(), r.Label, strconv.Itoa(r.Bytes), strconv.FormatInt(r.MaxFuel, 10), r.SignerID, r.CreatedAt.String(), r.SHA256)
			return r.ID
		})
	})
	c.Flags().StringVar(&name, "name", "", "the versions of one rule only")
	return c
}
