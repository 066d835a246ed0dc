package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/rediskv"
	"tollgate/rediskv/checks"
	"tollgate/rediskv/store"
)

// mostFindings is how many findings one run keeps; of more it says how many there are.
const mostFindings = 1000

func checkCommand(a *cli.App) *cobra.Command {
	var o checkOptions
	c := &cobra.Command{
		Use:   "check",
		Short: "Read everything back from a Redis and compare it",
		Long: `Read everything back and compare it: payments with their transactions, tickets
and events; what accounts are to be paid and payouts with what was captured;
budgets with their payments; the numbers of events and audit entries; events with
their deliveries; indexes and queues with their objects. It writes nothing, and
the service may run meanwhile: only what is seen twice is a finding.

--repair derives what can be derived: entries of indexes and queues, sums that are
to be paid, counters of budgets. It prints what it will do and asks first; --yes
answers. Each repair is compared with what was read, and is in the audit record.
Everything else is for a person to decide.

Exit codes: 0 nothing found, or all of it repaired; 1 findings; 3 Redis is away.`,
		Example: `  tollgate check
  tollgate check --organization org_01jd8m2r5k --json
  tollgate check --repair`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), a, a.Config(cmd))
		},
	}
	f := c.Flags()
	f.StringVar(&o.organization, "organization", "", "this organization alone")
	f.BoolVar(&o.asJSON, "json", false, "print each finding and then the counts as a line of JSON")
	f.BoolVar(&o.quiet, "quiet", false, "print the ids of what was found alone")
	f.BoolVar(&o.repair, "repair", false, "repair what can be derived")
	f.BoolVar(&o.yes, "yes", false, "repair without asking")
	return c
}

type checkOptions struct {
	organization               string
	asJSON, quiet, repair, yes bool
}

// findingJSON is a line of --json.
type findingJSON struct {
	Object         string `json:"object"` // finding
	OrganizationID string `json:"organization_id"`
	Kind           string `json:"kind"`
	ObjectType     string `json:"object_type"`
	ObjectID       string `json:"object_id"`
	Message        string `json:"message"`
	Repair         string `json:"repair,omitempty"`   // what --repair does
	Repaired       *bool  `json:"repaired,omitempty"` // of a run that repairs
}

// summaryJSON is the last line of --json.
type summaryJSON struct {
	Object   string           `json:"object"` // summary
	Checked  map[string]int64 `json:"checked"`
	Findings int              `json:"findings"`
	Repaired int              `json:"repaired"`
}

func (o *checkOptions) run(ctx context.Context, a *cli.App, c *cli.Config) error {
	options := rediskv.Options{URL: c.Text("redis-url"), Partitions: c.Number("partitions"), Clock: a.Clock, Entropy: a.Entropy, Timeout: a.StoreTimeout}
	patience, shelves := c.Duration("redis-wait"), ReadShelves(c)
	if err := c.Err(); err != nil {
		return err
	}
	store, _, err := OpenStore(ctx, options, patience, false)
	if err != nil {
		return err
	}
	defer store.Close()
	UseArchive(store, shelves)
	found, total, checked, err := o.look(ctx, store)
	if isArchive(err) && len(shelves) == 0 {
		return cli.UsageError(errors.New("some payments are in the archive: set TOLLGATE_ARCHIVE_URL to where it is"))
	}
	if err != nil {
		return awayError(err)
	}
	if o.organization != "" && checked["organizations"] == 0 {
		return cli.UsageError(fmt.Errorf("there is no organization %s", cli.Printable(o.organization)))
	}
	if !o.asJSON {
		if err := o.print(a, found, total, checked); err != nil {
			return err
		}
	}
	var outcomes map[int]error
	if o.repair {
		if outcomes, err = o.repairs(ctx, a, store, found); err != nil {
			return awayError(err)
		}
	}
	repaired := 0
	for _, failed := range outcomes {
		if failed == nil {
			repaired++
		}
	}
	if o.asJSON {
		if err := o.printJSON(a, found, outcomes, summaryJSON{"summary", checked, total, repaired}); err != nil {
			return err
		}
	}
	if left := total - repaired; left > 0 {
		return fmt.Errorf("%d of %d findings are left", left, total)
	}
	return nil
}

// look walks through everything. What no index leads to is looked for first: sums that
// lack it are not to be repaired before it.
func (o *checkOptions) look(ctx context.Context, store *store.Store) (found []checks.Finding, total int, checked map[string]int64, err error) {
	var all collected
	w := all.walk(o.organization)
	err = store.CheckKeys(ctx, w)
	for p := 0; p < store.Partitions() && err == nil; p++ {
		err = store.CheckPartition(ctx, p, checks.Place{}, w)
	}
	return all.found, all.total, w.Looked, err
}

// collected is what walks find, each thing once.
type collected struct {
	found []checks.Finding
	total int
}

func (c *collected) walk(organization string) *checks.Walk {
	return &checks.Walk{Organization: organization, Looked: map[string]int64{}, Found: func(f checks.Finding) {
		if slices.ContainsFunc(c.found, func(other checks.Finding) bool {
			return other.Finding == f.Finding && other.Organization == f.Organization
		}) {
			return // seen from another side
		}
		if c.total++; len(c.found) < mostFindings {
			c.found = append(c.found, f)
		}
	}}
}

func (o *checkOptions) print(a *cli.App, found []checks.Finding, total int, checked map[string]int64) error {
	if o.quiet {
		for _, f := range found {
			if _, err := fmt.Fprintln(a.Stdout, cli.Printable(f.ID)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(found) > 0 {
		var t cli.Table
		t.Row("KIND", "ORGANIZATION", "OBJECT", "ID", "FINDING")
		for _, f := range found {
			t.Row(string(f.Kind), f.Organization, f.Object, f.ID, f.Message)
		}
		if err := a.Print(&t); err != nil {
			return err
		}
		fmt.Fprintln(a.Stdout)
	}
	var counts []string
	for _, what := range slices.Sorted(maps.Keys(checked)) {
		counts = append(counts, fmt.Sprintf("%d %s", checked[what], what))
	}
	_, err := fmt.Fprintf(a.Stdout, "checked %s\n%d findings\n", strings.Join(counts, ", "), total)
	return err
}

func (o *checkOptions) printJSON(a *cli.App, found []checks.Finding, outcomes map[int]error, sum summaryJSON) error {
	for i, f := range found {
		row := findingJSON{"finding", f.Organization, string(f.Kind), f.Object, f.ID, f.Message, f.Repair, nil}
		if failed, tried := outcomes[i]; tried {
			done := failed == nil
			row.Repaired = &done
		}
		if err := printLine(a, row); err != nil {
			return err
		}
	}
	return printLine(a, sum)
}

// repairs says what will be done, asks, and does it.
func (o *checkOptions) repairs(ctx context.Context, a *cli.App, store *store.Store, found []checks.Finding) (map[int]error, error) {
	can := 0
	for _, f := range found {
		if f.Repair != "" {
			can++
			fmt.Fprintf(a.Stderr, "%s %s: %s\n", f.Object, cli.Printable(f.ID), cli.Printable(f.Repair))
		}
	}
	if can == 0 {
		return nil, nil
	}
	if !o.yes {
		if !a.AtTerminal() {
			return nil, cli.UsageError(errors.New("nothing was repaired: add --yes, or run it at a terminal"))
		}
		fmt.Fprintf(a.Stderr, "Repair these %d? [y/N] ", can)
		if answer, _ := bufio.NewReader(a.Stdin).ReadString('\n'); strings.TrimSpace(strings.ToLower(answer)) != "y" {
			return nil, nil
		}
	}
	outcomes := map[int]error{}
	for i, f := range found {
		if f.Repair == "" {
			continue
		}
		err := store.Repair(ctx, f)
		outcomes[i] = err
		switch {
		case errors.Is(err, rediskv.ErrConflict):
			fmt.Fprintf(a.Stderr, "%s %s has changed since; check again\n", f.Object, cli.Printable(f.ID))
		case tollgate.DamageOf(err) != nil:
			fmt.Fprintf(a.Stderr, "%s %s: %v\n", f.Object, cli.Printable(f.ID), err)
		case err != nil:
			return outcomes, err
		}
	}
	return outcomes, nil
}
