package client

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

func cutoffCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "cutoff",
		Short: "Look at when sales days end and are paid",
	}
	c.AddCommand(cutoffPreviewCommand(a))
	return c
}

// cutoffFlags are members of the proposed cutoff, windowFlags those of the
// window.
var (
	cutoffFlags = cli.QueryFlags{
		{"cutoff-time", "cutoff_time", "when the sales day ends, HH:MM"},
		{"zone", "time_zone", "IANA time zone of the cutoff time, such as Europe/Berlin"},
		{"calendar", "calendar", "none, target, us_fed or uk"},
		{"interval", "interval", "daily, weekly or monthly"},
	}
	windowFlags = cli.QueryFlags{
		{"from", "from", "RFC 3339 time from which captures count (default 30 days before --to)"},
		{"to", "to", "RFC 3339 time up to which they count (default now)"},
	}
)

func cutoffPreviewCommand(a *cli.App) *cobra.Command {
	account, effective, delay := "", "", 0
	c := &cobra.Command{
		Use:   "preview",
		Short: "Show what another cutoff would have done",
		Long: `Show what would be different if an account's sales days ended at another time, in
another time zone or were paid otherwise: which captures of a window would have
another batch date, and what every payout would have been. What is not given
stays as it is. Amounts are captures less their fees. Nothing is changed.`,
		Example: `  tollgate cutoff preview --cutoff-time 23:00
  tollgate cutoff preview --cutoff-time 17:00 --zone America/New_York --calendar us_fed \
    --from 2026-11-01T00:00:00Z --to 2026-11-15T00:00:00Z --effective 2026-11-03`,
		Args: cobra.NoArgs,
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, _ []string) error {
		proposed, window := members(c, cutoffFlags), members(c, windowFlags)
		if c.Flags().Changed("delay") {
			proposed["settlement_delay_days"] = delay
		}
		body := map[string]any{"proposed": proposed, "window": window}
		if account = accountOf(a, c, account); account != "" {
			body["merchant_account_id"] = account
		}
		if effective != "" {
			body["effective_date"] = effective
		}
		answer, p, err := cli.Read[tollgate.CutoffPreview](api.Post(ctx, "/v1/cutoffs/preview", body, ""))
		if err != nil {
			return err
		}
		if api.JSON || api.Quiet {
			return api.Show(answer, strconv.FormatInt(p.Summary.CapturesMoved, 10), nil)
		}
		_, err = fmt.Fprint(a.Stdout, previewText(&p))
		return err
	})
	c.Flags().StringVar(&account, "account", "", "short for --merchant-account")
	cutoffFlags.Bind(c)
	c.Flags().IntVar(&delay, "delay", 0, "business days from the end of the sales day to the payout, 0 to 20")
	c.Flags().StringVar(&effective, "effective", "", "first sales day that would end by it, such as 2026-11-21 (default the window's first)")
	windowFlags.Bind(c)
	c.Flags().Lookup("quiet").Usage = "print only how many captures would move"
	return c
}

func previewText(p *tollgate.CutoffPreview) string {
	var b strings.Builder
	head := &cli.Table{}
	head.Row("window", p.Window.From.String()+" to "+p.Window.To.String())
	head.Row("effective", p.EffectiveDate.String())
	head.Row("time zones", p.TZDBVersion)
	b.WriteString(head.String() + "\n" + cutoffsTable(&p.Current, &p.Proposed).String())
	fmt.Fprintf(&b, "\n%d of %d captures would move", p.Summary.CapturesMoved, p.Summary.Captures)
	if first := p.Summary.FirstAffectedBatchDate; first != tollgate.NoDate {
		fmt.Fprintf(&b, "; the first sales day concerned is %s", first)
	}
	b.WriteString(".\n")
	if len(p.Moves) > 0 {
		moves := &cli.Table{Right: []int{4, 5}}
		moves.Row("BATCH", "WOULD BE", "PAID ON", "WOULD BE", "CAPTURES", "AMOUNT", "")
		for _, m := range p.Moves {
			moves.Row(m.FromBatchDate.String(), m.ToBatchDate.String(), m.FromPayoutDate.String(), m.ToPayoutDate.String(),
				strconv.FormatInt(m.Count, 10), m.Amount.String(), string(m.Currency))
		}
		b.WriteString("\n" + moves.String())
	}
	if len(p.Payouts) > 0 {
		payouts := &cli.Table{Right: []int{1, 2, 3}}
		payouts.Row("PAYOUT", "CURRENT", "PROPOSED", "DELTA", "")
		for _, x := range p.Payouts {
			payouts.Row(x.PayoutDate.String(), x.AmountCurrent.String(), x.AmountProposed.String(), cli.Plus(x.Delta.String(), cmp.Compare(x.Delta.Minor, 0)), string(x.Currency))
		}
		b.WriteString("\n" + payouts.String())
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "\n%s: %s\n", cli.Printable(w.Code), cli.Printable(w.Message))
	}
	return b.String()
}

// cutoffsTable sets the two beside each other and marks what is different.
func cutoffsTable(was, would *tollgate.Cutoff) *cli.Table {
	t := &cli.Table{}
	t.Row("", "CURRENT", "PROPOSED")
	row := func(name, current, proposed string) {
		mark := ""
		if current != proposed {
			mark = "<"
		}
		t.Row(name, current, proposed, mark)
	}
	row("cutoff time", was.CutoffTime, would.CutoffTime)
	row("time zone", was.TimeZone, would.TimeZone)
	row("settlement delay", strconv.Itoa(was.SettlementDelayDays), strconv.Itoa(would.SettlementDelayDays))
	row("calendar", was.Calendar, would.Calendar)
	row("interval", was.Interval, would.Interval)
	t.Row("version", strconv.FormatInt(was.Version, 10), strconv.FormatInt(would.Version, 10))
	return t
}

// members are the flags that were given, as members of a JSON object.
func members(c *cobra.Command, flags cli.QueryFlags) map[string]any {
	m := make(map[string]any)
	for name, values := range flags.Values(c) {
		m[name] = values[0]
	}
	return m
}
