package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/rules/source"
	"tollgate/wasm"
)

type backtestOptions struct {
	against, since, account, tickets string
	modules                          []string
	top                              int
	asJSON                           bool
}

// BacktestCommand runs a rule on the tickets of payments that were made.
func BacktestCommand(a *cli.App) *cobra.Command {
	o := backtestOptions{top: 5}
	c := &cobra.Command{
		Use:   "backtest RULE --against CITATION",
		Short: "Price past tickets again with a candidate in a rule's place",
		Long: `Price past tickets again with a candidate in the place of a rule that they cite,
and add up what that would have changed, by account and currency, to the minor
unit. Authorizations, captures and refunds are kept apart: what is charged is
the captures' and the refunds'. A candidate that takes part in refunds is run for
them, whether the rule in whose place it stands did or not. Nothing is written.

` + source.TakenRules + `

Every evaluation is first run with its own modules; when those do not give the
ticket's lines, it counts as broken and for nothing else. Modules are found as
'tollgate rule verify' finds them.

Tickets come from a file of one JSON object a line, - for standard input. Without
--tickets the service is asked for an export of them.`,
		Example: `  tollgate rule backtest my_fee --against rule:card_fee@v2 --since 720h
  tollgate export tickets --format ndjson -o - | tollgate rule backtest my_fee --against rule:card_fee@v2 --tickets -`,
		Args: cobra.ExactArgs(1),
	}
	c.RunE = func(cmd *cobra.Command, args []string) error { return backtest(a, cmd, args[0], o) }
	c.Flags().StringVar(&o.against, "against", "", "citation of the rule whose place the candidate takes")
	c.Flags().StringVar(&o.since, "since", "", "only tickets made since: an RFC 3339 time, or how long ago, such as 720h")
	c.Flags().StringVar(&o.account, "account", "", "only tickets of this merchant account")
	c.Flags().StringVar(&o.tickets, "tickets", "", "file with tickets, one JSON object a line, - for standard input")
	c.Flags().StringArrayVar(&o.modules, "modules", nil, "directory with modules, as files *.wasm; may be repeated")
	c.Flags().IntVar(&o.top, "top", o.top, "how many of the largest differences to show for each account and currency")
	c.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
	_ = c.MarkFlagRequired("against")
	return c
}

func backtest(a *cli.App, cmd *cobra.Command, candidate string, o backtestOptions) error {
	ctx := cmd.Context()
	against, err := tollgate.ParseCitation(o.against)
	if err != nil {
		return cli.UsageError(fmt.Errorf("--against: %w", err))
	}
	if o.top < 0 || o.top > 1000 {
		return cli.UsageError(errors.New("--top is a number from 0 to 1000"))
	}
	reader := source.NewReader(a, cmd)
	var api *cli.Client // of the service, when the tickets come from there
	now := func(context.Context) (time.Time, error) { return a.Clock(), nil }
	if o.tickets == "" {
		if api, err = reader.Service(); err != nil {
			return err
		}
		now = api.Now
	}
	s := &ticketStream{app: a, account: o.account}
	if o.since != "" {
		if s.since, err = cli.SinceFlag(ctx, o.since, now); err != nil {
			return err
		}
	}
	source, err := reader.Read(ctx, candidate)
	if err != nil {
		return err
	}
	p := &pricing{tickets: s, modules: o.modules, client: api, against: against, top: o.top}
	result, ref, err := p.run(ctx, source, func() (io.ReadCloser, error) { return openTickets(ctx, a, api, o, s.since) })
	if err != nil {
		return err
	}
	if o.asJSON {
		err = a.PrintJSON(backtestJSON(result))
	} else {
		err = printBacktest(a, result, candidate, ref, against)
	}
	if err == nil && (result.Broken > 0 || len(result.Missing) > 0) {
		return errors.New("some evaluations could not be priced again")
	}
	return err
}

// pricing is a backtest that is to be run.
type pricing struct {
	tickets *ticketStream
	modules []string    // directories
	client  *cli.Client // nil: nothing is fetched
	against tollgate.Citation
	top     int
}

// run prices the tickets with a candidate. They are asked for once it is known to be a
// rule.
func (p *pricing) run(ctx context.Context, candidate *source.Rule, open func() (io.ReadCloser, error)) (*wasm.BacktestResult, tollgate.RuleRef, error) {
	none := tollgate.RuleRef{}
	engine, err := wasm.NewEngine(ctx)
	if err != nil {
		return nil, none, err
	}
	defer engine.Close(context.WithoutCancel(ctx))
	shelf, err := newShelf(ctx, engine, p.modules)
	if err != nil {
		return nil, none, err
	}
	shelf.client = p.client
	ref, err := shelf.candidate(ctx, candidate)
	if err != nil {
		return nil, none, err
	}
	in, err := open()
	if err != nil {
		return nil, none, err
	}
	defer in.Close()
	result, err := p.tickets.run(ctx, in, p.top, func() *wasm.Backtest {
		return &wasm.Backtest{
			Engine: engine, Reference: p.against, Candidate: ref, Largest: p.top,
			Find: func(ref tollgate.RuleRef) error { return shelf.load(ctx, ref) },
		}
	})
	return result, ref, err
}

// Range is which tickets a backtest prices; what is zero does not narrow it.
type Range struct {
	Account       string
	After, Before tollgate.Instant
}

// Backtest prices the service's tickets again with a candidate in the place of a rule,
// and returns what 'rule backtest --json' prints.
func Backtest(ctx context.Context, api *cli.Client, candidate *source.Rule, against tollgate.Citation, of Range) (any, error) {
	const top = 20
	s := &ticketStream{app: api.App, since: of.After, account: of.Account}
	p := &pricing{tickets: s, client: api, against: against, top: top}
	result, _, err := p.run(ctx, candidate, func() (io.ReadCloser, error) { return exportTickets(ctx, api, of) })
	if err != nil {
		return nil, err
	}
	return backtestJSON(result), nil
}

func openTickets(ctx context.Context, a *cli.App, api *cli.Client, o backtestOptions, since tollgate.Instant) (io.ReadCloser, error) {
	switch o.tickets {
	case "":
		return exportTickets(ctx, api, Range{Account: o.account, After: since})
	case "-":
		return io.NopCloser(a.Stdin), nil
	}
	f, err := os.Open(o.tickets)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	return f, nil
}

func backtestKeys(r *wasm.BacktestResult) []wasm.BacktestKey {
	return slices.SortedFunc(maps.Keys(r.Groups), func(a, b wasm.BacktestKey) int {
		return cmp.Or(cmp.Compare(a.MerchantAccountID, b.MerchantAccountID), cmp.Compare(a.Currency, b.Currency), cmp.Compare(a.Kind, b.Kind))
	})
}

func printBacktest(a *cli.App, r *wasm.BacktestResult, candidate string, ref tollgate.RuleRef, against tollgate.Citation) error {
	head := &cli.Table{}
	head.Row("candidate", candidate, ref.SHA256)
	head.Row("against", against.String())
	head.Row("tickets", strconv.FormatInt(r.Tickets, 10))
	head.Row("evaluations", fmt.Sprintf("%d, of them %d with %s", r.Evaluations, r.Affected, against))
	for ref, n := range r.Missing {
		head.Row("not run", fmt.Sprintf("%d, for want of %s", n, ref.Rule), ref.SHA256)
	}
	if r.Broken > 0 {
		head.Row("broken", fmt.Sprintf("%d: their own modules do not give their lines, such as %s", r.Broken, r.BrokenFirst[0]))
	}
	if r.Affected == 0 {
		_, err := fmt.Fprintf(a.Stdout, "%s\nNo evaluation cites %s: there is nothing to compare.\n", head, against)
		return err
	}
	groups := &cli.Table{Right: []int{3, 4, 5, 6, 7, 8, 9, 10}}
	groups.Row("ACCOUNT", "CURRENCY", "KIND", "COUNT", "SAME", "DEARER", "CHEAPER", "UNPRICED", "FEES BEFORE", "AFTER", "DIFFERENCE")
	largest := &cli.Table{Right: []int{3, 4, 5, 6}}
	largest.Row("LARGEST", "KIND", "EVALUATION", "AMOUNT", "FEES BEFORE", "AFTER", "DIFFERENCE", "")
	changes := false
	for _, k := range backtestKeys(r) {
		g := r.Groups[k]
		difference := g.After.Minus(g.Before)
		groups.Row(k.MerchantAccountID, string(k.Currency), string(k.Kind), strconv.FormatInt(g.Count, 10), strconv.FormatInt(g.Same, 10),
			strconv.FormatInt(g.Dearer, 10), strconv.FormatInt(g.Cheaper, 10), strconv.FormatInt(g.Unpriced, 10),
			g.Before.In(k.Currency), g.After.In(k.Currency), cli.Plus(difference.In(k.Currency), difference.Sign()))
		for _, c := range g.Largest {
			changes = true
			d := tollgate.Money{Minor: c.After.Minor - c.Before.Minor, Currency: k.Currency}
			after, difference := c.After.String(), cli.Plus(d.String(), cmp.Compare(d.Minor, 0))
			if c.Outcome != "" {
				after, difference = "-", c.Outcome
			}
			largest.Row(c.TicketID, string(k.Kind), strconv.Itoa(c.Evaluation), c.Amount.String(), c.Before.String(), after, difference, string(k.Currency))
		}
	}
	if _, err := fmt.Fprintf(a.Stdout, "%s\n%s", head, groups); err != nil || !changes {
		return err
	}
	_, err := fmt.Fprintf(a.Stdout, "\n%s", largest)
	return err
}

func backtestJSON(r *wasm.BacktestResult) any {
	type change struct {
		TicketID   string         `json:"ticket_id"`
		Evaluation int            `json:"evaluation"`
		Amount     tollgate.Money `json:"amount"`
		Before     tollgate.Money `json:"before"`
		After      string         `json:"after,omitzero"`
		Outcome    string         `json:"outcome,omitzero"`
	}
	type group struct {
		Account    string                  `json:"merchant_account_id"`
		Currency   tollgate.Currency       `json:"currency"`
		Kind       tollgate.EvaluationKind `json:"kind"`
		Count      int64                   `json:"count"`
		Same       int64                   `json:"same"`
		Dearer     int64                   `json:"dearer"`
		Cheaper    int64                   `json:"cheaper"`
		Unpriced   int64                   `json:"unpriced"`
		Before     string                  `json:"before"`
		After      string                  `json:"after"`
		Difference string                  `json:"difference"`
		Largest    []change                `json:"largest"`
	}
	out := struct {
		Tickets     int64   `json:"tickets"`
		Evaluations int64   `json:"evaluations"`
		Affected    int64   `json:"affected"`
		Broken      int64   `json:"broken"`
		NotRun      int64   `json:"not_run"`
		Groups      []group `json:"groups"`
	}{Tickets: r.Tickets, Evaluations: r.Evaluations, Affected: r.Affected, Broken: r.Broken, Groups: []group{}}
	for _, n := range r.Missing {
		out.NotRun += n
	}
	for _, k := range backtestKeys(r) {
		g := r.Groups[k]
		row := group{
			k.MerchantAccountID, k.Currency, k.Kind, g.Count, g.Same, g.Dearer, g.Cheaper, g.Unpriced,
			g.Before.In(k.Currency), g.After.In(k.Currency), g.After.Minus(g.Before).In(k.Currency),
			[]change{},
		}
		for _, c := range g.Largest {
			one := change{TicketID: c.TicketID, Evaluation: c.Evaluation, Amount: c.Amount, Before: c.Before, Outcome: c.Outcome}
			if c.Outcome == "" {
				one.After = c.After.String()
			}
			row.Largest = append(row.Largest, one)
		}
		out.Groups = append(out.Groups, row)
	}
	return out
}
