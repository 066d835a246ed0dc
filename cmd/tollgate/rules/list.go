package rules

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/wasm"
	"tollgate/wasm/compiler"
)

// ListedRule is a version of a rule, a line of `rule list`.
type ListedRule struct {
	Rule   string `json:"rule"`
	Label  string `json:"label"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`

	// Of a published version that Versions lists.
	SignerID    string           `json:"signer_id,omitempty"`
	PublishedAt tollgate.Instant `json:"published_at,omitzero"`

	// Of the accounts that the client may see, when a service is there to ask.
	Accounts []string            `json:"merchant_account_ids,omitempty"` // that it prices
	Silent   []tollgate.Currency `json:"silent_currencies,omitempty"`    // of theirs, in which it charges nothing
}

func ruleListCommand(a *cli.App) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "list",
		Short: "List the rules that this binary brings along, and those in force",
		Long: `List the rules that this binary brings along. If TOLLGATE_URL is set, list the
published rules that are in force too, and say how many of your accounts each
rule prices.

A rule in force that says nothing about a currency of its accounts makes it free.
The last column names those currencies. Such a rule stays in force; put one in
its place that has a fee for them, or says otherwise = "refuse" or "free".`,
		Example: "  tollgate rule list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rules, err := builtinList()
			if err != nil {
				return err
			}
			settings := a.Config(cmd)
			connected := settings.Text("url") != ""
			if connected {
				marked, err := inForceAt(cmd.Context(), a, settings, rules)
				if err != nil { // what this binary brings along can be listed all the same
					fmt.Fprintf(a.Stderr, "which rules are in force is not known: %v\n", err)
					connected = false
				} else {
					rules = marked
				}
			}
			if asJSON {
				return a.PrintJSON(rules)
			}
			text := &cli.Table{Right: []int{2}}
			head := []string{"RULE", "LABEL", "BYTES", "SHA256"}
			if connected {
				head = append(head, "PRICES", "CHARGES NOTHING IN")
			}
			text.Row(head...)
			for _, r := range rules {
				row := []string{r.Rule, r.Label, strconv.Itoa(r.Bytes), r.SHA256}
				if connected {
					row = append(row, fmt.Sprintf("%d accounts", len(r.Accounts)), cli.Joined(r.Silent, ""))
				}
				text.Row(row...)
			}
			return a.Print(text)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func builtinList() ([]ListedRule, error) {
	all, err := wasm.Builtin()
	if err != nil {
		return nil, err
	}
	list := make([]ListedRule, len(all))
	for i, r := range all {
		_, source, err := compiler.Build(r.Source)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Citation, err)
		}
		list[i] = ListedRule{Rule: r.Citation.String(), Label: source.Label, Bytes: len(r.Module), SHA256: r.Ref().SHA256}
	}
	return list, nil
}

func inForceAt(ctx context.Context, a *cli.App, settings *cli.Config, rules []ListedRule) ([]ListedRule, error) {
	api, err := a.NewClient(settings)
	if err != nil {
		return nil, err
	}
	return inForce(ctx, api, rules)
}

// inForce adds what the service says of the client's accounts: which rules price
// them, and what these are silent about.
func inForce(ctx context.Context, api *cli.Client, rules []ListedRule) ([]ListedRule, error) {
	accounts, err := api.Accounts(ctx, nil)
	if err != nil {
		return nil, err
	}
	at := func(rule string) int {
		return slices.IndexFunc(rules, func(r ListedRule) bool { return r.Rule == rule })
	}
	rules = slices.Clone(rules)
	for _, account := range accounts {
		for _, rule := range account.RuleSet.Rules {
			i := at(rule.String())
			if i < 0 {
				body, err := api.Get(ctx, "/v1/rules/"+tollgate.RuleID(rule), nil)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", rule, err)
				}
				var published tollgate.Rule
				if err := cli.Parse(body, &published); err != nil {
					return nil, err
				}
				i, rules = len(rules), append(rules, ListedRule{Rule: rule.String(), Label: published.Label, Bytes: published.Bytes, SHA256: published.SHA256})
			}
			rules[i].Accounts = append(rules[i].Accounts, account.ID)
		}
		for _, s := range account.SilentRules {
			if i := at(s.Rule.String()); i >= 0 {
				rules[i].Silent = append(rules[i].Silent, s.Currencies...)
			}
		}
	}
	for i := range rules {
		slices.Sort(rules[i].Silent)
		rules[i].Silent = slices.Compact(rules[i].Silent)
	}
	return rules, nil
}
