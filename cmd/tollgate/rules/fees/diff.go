package fees

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/examine"
	"tollgate/cmd/tollgate/rules/source"
	"tollgate/wasm"
)

// DiffCommand compares the fees of two rules.
func DiffCommand(a *cli.App) *cobra.Command {
	o := diffOptions{}
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "Show which amounts two rules charge differently",
		Long: `Show which amounts two rules charge differently, for one currency and payee. A fee
is the sum of a rule's lines. With --refund it is the fee of refunds of these
amounts; that of a rule which takes no part in refunds is zero.

` + source.TakenRules + `

For two tables the ranges are exact. A module is sampled: at amounts spread over
the range, beside round ones, and by halving wherever the fee is not what its
neighbours make one expect; a step that goes back between two samples is not
seen, and the output says so. When there are too many ranges to list, as of a rule
that rounds its fee to 0.05, amounts of every size are compared instead.`,
		Example: `  tollgate rule diff rule:card_fee@v1 rule:card_fee@v2
  tollgate rule diff rule:card_fee@v2 my_fee --currency JPY --to 100000
  tollgate rule diff rule:my_fee@v1 my_fee   # a published rule and what lies here
  tollgate rule diff old.wasm new.wasm --payee shop.example --json
  tollgate rule diff rule:sandbox@v2 my_fee --refund`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := wasm.NewEngine(cmd.Context())
			if err != nil {
				return err
			}
			defer engine.Close(context.WithoutCancel(cmd.Context()))
			d, err := diff(cmd.Context(), a, engine, source.NewReader(a, cmd), args, o)
			if err != nil {
				return err
			}
			if o.asJSON {
				return a.PrintJSON(d.json())
			}
			return d.print(a)
		},
	}
	c.Flags().StringVar(&o.currency, "currency", "EUR", "currency of the amounts")
	c.Flags().StringVar(&o.payee, "payee", "shop.example", "payee of the payments")
	c.Flags().StringVar(&o.from, "from", "", "smallest amount (default one minor unit)")
	c.Flags().StringVar(&o.to, "to", "", "largest amount (default 1000000 with the currency's places)")
	c.Flags().BoolVar(&o.refund, "refund", false, "compare what refunds are charged, not payments")
	c.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
	return c
}

type diffOptions struct {
	currency, payee, from, to string
	refund, asJSON            bool
}

// ruleDiff is what `rule diff` found out.
type ruleDiff struct {
	sources   [2]*source.Rule
	fees      [2]*feeFunction
	currency  tollgate.Currency
	payee     string
	refund    bool    // of the amounts
	takesPart [2]bool // in refunds
	from, to  int64
	stretches []stretch
	summary   []decade // instead, when there are too many stretches to list
}

func diff(ctx context.Context, a *cli.App, engine *wasm.Engine, reader *source.Reader, args []string, o diffOptions) (*ruleDiff, error) {
	d := &ruleDiff{refund: o.refund}
	var err error
	if err = d.readRange(o); err != nil {
		return nil, cli.UsageError(err)
	}
	examiner := examine.New(examine.DefaultLimits)
	for i, arg := range args {
		r, err := reader.Read(ctx, arg)
		if err != nil {
			return nil, err
		}
		report, err := examiner(ctx, r.Citation, r.Module, nil)
		if err != nil {
			return nil, examine.RuleProblem(arg, err)
		}
		d.takesPart[i] = report.Refunds
		f, err := newFeeFunction(ctx, engine, r, d.currency, d.payee)
		if err != nil {
			return nil, cli.UsageError(err)
		}
		table := r.Table
		if f.refund = d.refund; f.refund && table != nil {
			table = table.ForRefunds()
		}
		if table != nil {
			shape, err := table.Shape(d.currency)
			if err != nil {
				return nil, err
			}
			f.read(shape, d.from, d.to)
		} else {
			f.sample(d.from, d.to)
		}
		d.sources[i], d.fees[i] = r, f
	}
	f, g := d.fees[0], d.fees[1]
	many := f.endless || g.endless
	if !many {
		d.stretches = compareRules(f, g, d.from, d.to)
		many = len(d.stretches) > maxListed && !(f.exact && g.exact)
	}
	if many {
		d.summary = summarize(f, g, d.from, d.to)
	}
	return d, errors.Join(f.err, g.err)
}

func (d *ruleDiff) readRange(o diffOptions) (err error) {
	if d.currency, err = tollgate.ParseCurrency(o.currency); err != nil {
		return fmt.Errorf("--currency: %w", err)
	}
	payee, err := tollgate.ParsePayee(o.payee)
	if err != nil {
		return fmt.Errorf("--payee: %w", err)
	}
	d.payee = payee.String()
	d.from, d.to = 1, 1_000_000
	for range d.currency.Exponent() {
		d.to *= 10
	}
	for _, bound := range []struct {
		flag, text string
		into       *int64
	}{{"--from", o.from, &d.from}, {"--to", o.to, &d.to}} {
		if bound.text == "" {
			continue
		}
		m, err := tollgate.ParseMoney(bound.text, d.currency)
		if err != nil {
			return fmt.Errorf("%s: %w", bound.flag, err)
		}
		*bound.into = m.Minor
	}
	if d.from > d.to {
		return errors.New("--from is above --to")
	}
	return nil
}

// basis says how sure the ranges are.
func (d *ruleDiff) basis() string {
	var sampled []string
	for i, f := range d.fees {
		if !f.exact {
			sampled = append(sampled, "AB"[i:i+1])
		}
	}
	if len(sampled) == 0 {
		return "exact: both are tables"
	}
	return "sampled, for want of a table as " + strings.Join(sampled, " and ") + ": a step that goes back between two samples is not seen"
}

func (d *ruleDiff) money(minor int64) string {
	return tollgate.Money{Minor: minor, Currency: d.currency}.String()
}

func (d *ruleDiff) signed(minor int64) string {
	if minor > 0 {
		return "+" + d.money(minor)
	}
	return d.money(minor)
}

// span is a value at both ends of a stretch.
func span(from, to string) string {
	if from == to {
		return from
	}
	return from + " … " + to
}

func (d *ruleDiff) feeText(f fee) string {
	if f.no != "" {
		return f.no
	}
	return d.money(f.minor)
}

// verdict says in words how B compares with A.
func (d *ruleDiff) verdict(s stretch) string {
	a, b := d.fees[0].at(s.from), d.fees[1].at(s.from)
	c, e := d.fees[0].at(s.to), d.fees[1].at(s.to)
	switch s.sign {
	case equal:
		return "="
	case unlike:
		return "not comparable"
	case mixed:
		about := ""
		if s.sampled {
			about = "about "
		}
		total := s.same + s.dearer + s.cheaper
		return fmt.Sprintf("%s%d of %d amounts dearer, %d cheaper, by rounding", about, s.dearer, total, s.cheaper)
	}
	return span(d.signed(b.minor-a.minor), d.signed(e.minor-c.minor))
}

func (d *ruleDiff) print(a *cli.App) error {
	head := &cli.Table{}
	of := ""
	for i, r := range d.sources {
		row := []string{"AB"[i : i+1], r.Name, wasm.RefOf(r.Citation, r.Module).SHA256}
		if d.refund {
			if of = "refunds in "; !d.takesPart[i] {
				row = append(row, "takes no part in refunds")
			}
		}
		head.Row(row...)
	}
	found, changed, drawn := d.found()
	if _, err := fmt.Fprintf(a.Stdout, "%s\n%s%s to %s, %s to %s; %s\n\n%s", head, of, d.currency, cli.Printable(d.payee),
		d.money(d.from), d.money(d.to), d.basis(), found); err != nil {
		return err
	}
	if !changed {
		_, err := fmt.Fprintln(a.Stdout, "\nNo amount changes its fee.")
		return err
	}
	if !drawn {
		return nil
	}
	_, err := fmt.Fprintf(a.Stdout, "\n%s", d.plot(a.Width()))
	return err
}

// found is the ranges, or a summary of them, whether any fee changes, and
// whether that can be drawn.
func (d *ruleDiff) found() (text string, changed, drawn bool) {
	if d.summary != nil {
		for _, s := range d.summary {
			changed, drawn = changed || s.same < s.looked(), drawn || s.dearer+s.cheaper > 0
		}
		return d.summaryText(), changed, drawn
	}
	rows := &cli.Table{Right: []int{0, 1}}
	rows.Row("FROM", "TO", "FEE A", "FEE B", "B - A")
	for _, s := range d.stretches {
		changed = changed || s.sign != equal
		drawn = drawn || (s.sign != equal && s.sign != unlike)
		f, g := d.fees[0], d.fees[1]
		rows.Row(d.money(s.from), d.money(s.to),
			span(d.feeText(f.at(s.from)), d.feeText(f.at(s.to))),
			span(d.feeText(g.at(s.from)), d.feeText(g.at(s.to))), d.verdict(s))
	}
	return rows.String(), changed, drawn
}

func (d *ruleDiff) json() any {
	type row struct {
		From string    `json:"from"`
		To   string    `json:"to"`
		A    [2]string `json:"fee_a"`
		B    [2]string `json:"fee_b"`
		Sign string    `json:"change"`
	}
	names := map[int]string{equal: "none", 1: "dearer", -1: "cheaper", mixed: "mixed", unlike: "not_comparable"}
	type part struct {
		From    string    `json:"from"`
		To      string    `json:"to"`
		Looked  int64     `json:"looked_at"`
		Same    int64     `json:"same"`
		Dearer  int64     `json:"dearer"`
		Cheaper int64     `json:"cheaper"`
		Unlike  int64     `json:"not_comparable"`
		Between [2]string `json:"difference"` // the least and the most
	}
	var parts []part
	for _, s := range d.summary {
		parts = append(parts, part{
			d.money(s.from), d.money(s.to), s.looked(), s.same, s.dearer, s.cheaper, s.unlike,
			[2]string{d.money(s.least), d.money(s.most)},
		})
	}
	listed, atLeast := d.stretches, 0
	if d.summary != nil {
		listed, atLeast = nil, d.atLeast()
	}
	rows := make([]row, len(listed))
	for i, s := range listed {
		f, g := d.fees[0], d.fees[1]
		rows[i] = row{
			d.money(s.from), d.money(s.to),
			[2]string{d.feeText(f.at(s.from)), d.feeText(f.at(s.to))},
			[2]string{d.feeText(g.at(s.from)), d.feeText(g.at(s.to))},
			names[s.sign],
		}
	}
	return struct {
		Currency tollgate.Currency `json:"currency"`
		Payee    string            `json:"payee"`
		Refund   bool              `json:"refund,omitzero"`
		Exact    bool              `json:"exact"`
		Ranges   []row             `json:"ranges"`
		AtLeast  int               `json:"ranges_at_least,omitzero"` // with a summary instead of them
		Summary  []part            `json:"summary,omitzero"`
	}{d.currency, d.payee, d.refund, d.fees[0].exact && d.fees[1].exact, rows, atLeast, parts}
}
