// Package provision is what an operator prepares an installation with: the file of
// organizations, and keys.
package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/handlers/service"
	"tollgate/rediskv"
	"tollgate/rediskv/store"
	"tollgate/wasm"
)

func provisionCommand(a *cli.App) *cobra.Command {
	var file, clientKey string
	var example, dryRun, asJSON bool
	c := &cobra.Command{
		Use:   "provision -f FILE",
		Short: "Create or change organizations, accounts, clients and grants from a file",
		Long: `Make Redis hold what a YAML file describes: organizations with their legal
entities, merchant accounts, clients, grants, perimeters and rule sets. The file
is checked as a whole before anything is written, each organization is written
all or nothing, and the same file again changes nothing. What the file leaves
out stays as it is, and what it names may be there already: an organization by
its id alone, a client by its id and status, a grant to revoke by its id and
status. A version of a perimeter or rule set that exists cannot be
changed; give it the next version. A version of a perimeter that an earlier
release stored keeps that release's meaning, and a warning says so. Rules that were activated stay in force until
the file names another rule set for the account than before. A changed cutoff
holds from the sales day after the open one, or from its effective_date on. A
client with another status or without one of its keys, and an organization with
another status, lose all their access tokens before the command returns.`,
		Example: `  tollgate provision --example --client-key .tollgate/client.jwk > tollgate.yaml
  tollgate provision -f tollgate.yaml --dry-run
  tollgate provision -f tollgate.yaml
  echo '{organizations: [{id: org_1, clients: [{id: cli_1, status: disabled}]}]}' | tollgate provision -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if example {
				return printExample(a, clientKey)
			}
			if file == "" {
				return cli.UsageError(errors.New("provision needs -f FILE (or --example)"))
			}
			return provision(a, cmd, file, dryRun, asJSON)
		},
	}
	f := c.Flags()
	f.StringVarP(&file, "file", "f", "", "the file to read, - for standard input")
	f.BoolVar(&dryRun, "dry-run", false, "check the file and say what would change")
	f.BoolVar(&asJSON, "json", false, "print the changes as JSON")
	f.BoolVar(&example, "example", false, "print a complete file with new ids and a new client key")
	f.StringVar(&clientKey, "client-key", "", "with --example: new file for the private half of that key")
	return c
}

func provision(a *cli.App, cmd *cobra.Command, file string, dryRun, asJSON bool) error {
	ctx := cmd.Context()
	settings := a.Config(cmd)
	clock := &service.SandboxClock{Real: a.Clock} // a sandbox's Redis has its clock; any other has none
	options := rediskv.Options{
		URL: settings.Text("redis-url"), WaitReplicas: settings.Number("redis-wait-replicas"), Partitions: settings.Number("partitions"), Clock: clock.Now, Entropy: a.Entropy, Timeout: a.StoreTimeout,
	}
	if err := settings.Err(); err != nil {
		return err
	}
	text, err := a.ReadInput(file)
	if err != nil {
		return cli.UsageError(err)
	}
	document, err := parseProvisioning(text)
	if err != nil {
		return cli.UsageError(fmt.Errorf("%s: %w", file, err))
	}
	builtin, err := wasm.BuiltinRefs()
	if err != nil {
		return err
	}
	configs, refers, problems := document.check(builtin)
	if len(problems) > 0 && refers.none() {
		return cli.UsageError(problems.in(file, text))
	}
	store, err := service.Connect(ctx, options)
	if err != nil && len(problems) > 0 {
		return cli.UsageError(problems.in(file, text))
	} else if err != nil {
		return cli.UnavailableError(err)
	}
	defer store.Close()
	if err := clock.Resume(ctx, store); err != nil {
		return cli.UnavailableError(err)
	}
	if err := refers.check(ctx, store, &problems); err != nil {
		return cli.StartError(err)
	}
	earlier, err := earlierPerimeters(ctx, store, configs, document.later, &problems)
	if err != nil {
		return cli.StartError(err)
	}
	if len(problems) > 0 {
		return cli.UsageError(problems.in(file, text))
	}
	for _, w := range append(document.warnings(clock.Now()), earlier...) {
		fmt.Fprintf(a.Stderr, "warning: %s\n", w)
	}
	rules := &silence{store: store}
	defer rules.close()
	// Every organization is tried before the first is written, so that a
	// version that cannot be changed stops all of them.
	changes, err := applyConfigs(ctx, store, configs, rules, true)
	if err == nil && !dryRun {
		changes, err = applyConfigs(ctx, store, configs, rules, false)
	}
	if err != nil {
		return cli.StartError(err)
	}
	return printChanges(a, changes, configs, dryRun, asJSON)
}

// change is one line of what was done.
type change struct {
	Organization string   `json:"organization"`
	Action       string   `json:"action"`
	Kind         string   `json:"kind"`
	ID           string   `json:"id"`
	Fields       []string `json:"fields,omitempty"`
	CutoffFrom   string   `json:"cutoff_from,omitempty"` // the first sales day of a changed cutoff
	EndsTokensOf int      `json:"ends_tokens_of_grants,omitempty"`
}

func applyConfigs(ctx context.Context, store *store.Store, configs []tollgate.Config, rules *silence, dryRun bool) ([]change, error) {
	changes := []change{}
	for _, want := range configs {
		made, err := service.Provision(ctx, store, want, rules.judge, dryRun)
		if err != nil {
			return changes, fmt.Errorf("%s: %w", want.Organization.ID, err)
		}
		for _, c := range made {
			line := change{Organization: want.Organization.ID, Action: c.Action, Kind: c.Kind, ID: c.ID, Fields: c.Fields, EndsTokensOf: c.Ends}
			if c.From != tollgate.NoDate {
				line.CutoffFrom = c.From.String()
			}
			changes = append(changes, line)
		}
	}
	return changes, nil
}

func printChanges(a *cli.App, changes []change, configs []tollgate.Config, dryRun, asJSON bool) error {
	unchanged := 0
	for _, c := range configs {
		for _, id := range named(c) {
			if !slices.ContainsFunc(changes, func(made change) bool { return made.ID == id }) {
				unchanged++
			}
		}
	}
	if asJSON {
		return a.PrintJSON(struct {
			DryRun    bool     `json:"dry_run"`
			Changes   []change `json:"changes"`
			Unchanged int      `json:"unchanged"`
		}{dryRun, changes, unchanged})
	}
	t := &cli.Table{}
	for _, c := range changes {
		fields := strings.Join(c.Fields, " ")
		if c.CutoffFrom != "" {
			fields += " (from " + c.CutoffFrom + ")"
		}
		switch c.EndsTokensOf {
		case 0:
		case 1:
			fields += " (ends the tokens of 1 grant)"
		default:
			fields += fmt.Sprintf(" (ends the tokens of %d grants)", c.EndsTokensOf)
		}
		t.Row(c.Action, c.Kind, c.ID, fields)
	}
	if err := a.Print(t); err != nil {
		return err
	}
	summary := fmt.Sprintf("%d changed, %d unchanged", len(changes), unchanged)
	if len(changes) == 0 {
		summary = fmt.Sprintf("nothing to change, %d unchanged", unchanged)
	}
	if dryRun {
		summary += "; nothing was written (--dry-run)"
	}
	_, err := fmt.Fprintln(a.Stdout, summary)
	return err
}

// named are the ids of what a file describes, as changes have them.
func named(c tollgate.Config) []string {
	ids := []string{c.Organization.ID}
	for _, l := range c.LegalEntities {
		ids = append(ids, l.ID)
	}
	for _, a := range c.MerchantAccounts {
		ids = append(ids, a.ID)
	}
	for _, cli := range c.Clients {
		ids = append(ids, cli.ID)
	}
	for _, g := range c.Grants {
		ids = append(ids, g.ID)
	}
	for _, p := range c.Perimeters {
		ids = append(ids, fmt.Sprintf("%s@%d", p.ID, p.Version))
	}
	for _, r := range c.RuleSets {
		ids = append(ids, fmt.Sprintf("%s@%d", r.ID, r.Version))
	}
	for _, s := range c.RuleSigners {
		ids = append(ids, s.ID)
	}
	return ids
}
