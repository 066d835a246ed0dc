// Package replay runs rules again on what has been: it verifies tickets and tests a
// rule on the payments of the past.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/client"
	"tollgate/wasm"
)

// VerifyCommand runs the rules of a ticket again and compares.
func VerifyCommand(a *cli.App) *cobra.Command {
	var modules []string
	offline := false
	c := &cobra.Command{
		Use:   "verify TICKET",
		Short: "Run a ticket's rules again and compare every line",
		Long: `Run every evaluation of a ticket again, with the very modules that it cites, and
compare the lines and their SHA-256. Then put the ticket together from them, and
compare every line in its order, the total, and the amount, payee and decision
that were priced. Last, compare each evaluation's whole input with the payment,
its transactions and its events: amount, currency, payee, capture, time and event.
It exits with 1 when anything differs.

TICKET is a file with the ticket's JSON, - for standard input, or the id of a
ticket or payment. Modules are those that this binary brings along and those below
the directories of --modules, found by their SHA-256. With an id, ticket and
missing modules are fetched from the service.

A file is compared with the service's records when TOLLGATE_URL is set, and not
with --offline. Without them, a file can prove its fees and that it does not
contradict itself. It cannot prove what no rule saw: that a capture was of this
amount where another has the same fee, the merchant account, the perimeter, how a
review was decided, the times of captures, and events that priced nothing.

Tollgate keeps events for 30 days. An older ticket is compared with the payment
and its transactions, and the output says how many events there were.`,
		Example: `  tollgate ticket $PAYMENT --json > ticket.json
  tollgate rule verify ticket.json --modules my_fee
  tollgate rule verify $PAYMENT`,
		Args: cobra.ExactArgs(1),
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		engine, err := wasm.NewEngine(ctx)
		if err != nil {
			return err
		}
		defer engine.Close(context.WithoutCancel(ctx))
		shelf, err := newShelf(ctx, engine, modules)
		if err != nil {
			return err
		}
		t, b, err := ticketToVerify(ctx, a, cmd, args[0], shelf, offline)
		if err != nil {
			return err
		}
		return verify(ctx, a, t, shelf, b)
	}
	c.Flags().BoolVar(&offline, "offline", false, "ask no service about a ticket from a file")
	c.Flags().StringArrayVar(&modules, "modules", nil, "directory with modules, as files *.wasm; may be repeated")
	return c
}

// ticketToVerify reads a ticket and what it is compared with. A payment may
// change between the two; when they disagree, a ticket of the service's is read
// once more.
func ticketToVerify(ctx context.Context, a *cli.App, cmd *cobra.Command, arg string, shelf *moduleShelf, offline bool) (*tollgate.Ticket, *binding, error) {
	for again := false; ; again = true {
		text, fromFile, err := ticketText(ctx, a, cmd, arg, shelf, offline)
		if err != nil {
			return nil, nil, err
		}
		t, err := readTicket(arg, text)
		if err != nil {
			return nil, nil, err
		}
		b, err := shelf.bind(ctx, t)
		if err != nil && fromFile {
			err = fmt.Errorf("%w; --offline verifies the file alone", err)
		}
		if err != nil || again || fromFile || b.records == nil || len(disagreements(t, b.records)) == 0 {
			return t, b, err
		}
	}
}

func readTicket(arg string, text []byte) (*tollgate.Ticket, error) {
	var is struct {
		Object string `json:"object"`
	}
	if err := json.Unmarshal(text, &is); err == nil && is.Object != "ticket" {
		return nil, cli.UsageError(fmt.Errorf("%s holds no ticket, but an object of the type %q; 'tollgate ticket PAYMENT --json' prints one", arg, is.Object))
	}
	t := new(tollgate.Ticket)
	if err := json.Unmarshal(text, t); err != nil {
		return nil, cli.UsageError(fmt.Errorf("%s: %w", arg, err))
	}
	return t, nil
}

// ticketText reads a ticket from a file, or with an id from the service. A
// service that there is lends its modules and records too.
func ticketText(ctx context.Context, a *cli.App, cmd *cobra.Command, arg string, shelf *moduleShelf, offline bool) (text []byte, fromFile bool, err error) {
	_, err = os.Stat(arg)
	isID := strings.HasPrefix(arg, tollgate.PrefixTicket) || strings.HasPrefix(arg, tollgate.PrefixPayment)
	if !errors.Is(err, fs.ErrNotExist) || arg == "-" || !isID {
		text, err := a.ReadInput(arg)
		if err != nil {
			return nil, true, cli.UsageError(err)
		}
		if c := a.Config(cmd); !offline && c.Text("url") != "" {
			shelf.client, err = a.NewClient(c)
		}
		return text, true, err
	}
	if shelf.client, err = a.NewClient(a.Config(cmd)); err != nil {
		return nil, false, err
	}
	if strings.HasPrefix(arg, tollgate.PrefixPayment) {
		_, p, err := cli.Read[tollgate.Payment](shelf.client.Get(ctx, client.PaymentPath(arg, ""), nil))
		if err != nil {
			return nil, false, err
		}
		arg = p.TicketID
	}
	text, err = shelf.client.Get(ctx, "/v1/tickets/"+url.PathEscape(arg), nil)
	return text, false, err
}

// verify prints each evaluation beside what its modules say now, and where the
// ticket is not what the records say.
func verify(ctx context.Context, a *cli.App, t *tollgate.Ticket, shelf *moduleShelf, b *binding) error {
	head := &cli.Table{}
	head.Row("ticket", t.ID)
	head.Row("payment", t.PaymentID)
	head.Row("amount", t.Amount.String()+" "+string(t.Currency)+" to "+t.Payee)
	if _, err := fmt.Fprint(a.Stdout, head); err != nil {
		return err
	}
	differ, notRun, again := 0, 0, composition(t)
	for i := range t.Evaluations {
		e := &t.Evaluations[i]
		lines, result, err := verifyEvaluation(ctx, a, t, e, again.counts(i), shelf)
		switch {
		case err != nil:
			return err
		case result == evaluationNotRun:
			notRun++
		case result == evaluationDiffers:
			differ++
		}
		again.add(e, lines)
	}
	problems := append(again.compare(differ+notRun == 0), again.refunds(shelf.engine)...)
	if err := printDiffering(a, "the ticket", &cli.Table{Indent: "  "}, problems); err != nil {
		return err
	}
	var records []string
	if b.records != nil {
		records = disagreements(t, b.records)
		if err := printDiffering(a, "the records", b.table(t), records); err != nil {
			return err
		}
	}
	places := len(problems) + len(records)
	switch {
	case differ > 0:
		return fmt.Errorf("%d of %d evaluations differ", differ, len(t.Evaluations))
	case notRun > 0:
		return fmt.Errorf("%d of %d evaluations could not be run again", notRun, len(t.Evaluations))
	case places == 1:
		return errors.New(cli.Printable(slices.Concat(problems, records)[0]))
	case len(records) > 0:
		return fmt.Errorf("the ticket disagrees with its evaluations or the service's records in %d places", places)
	case places > 1:
		return fmt.Errorf("the ticket disagrees with its evaluations in %d places", places)
	}
	end := ""
	if b.why != "" {
		end = "Their inputs were not fully compared with what happened: " + b.why + ".\n"
	}
	_, err := fmt.Fprintf(a.Stdout, "\nok: %d evaluations agree, byte for byte\n%s", len(t.Evaluations), end)
	return err
}

// printDiffering prints a part of the comparison, unless it is empty.
func printDiffering(a *cli.App, title string, text *cli.Table, problems []string) error {
	for _, p := range problems {
		text.Row("DIFFERS", p)
	}
	if len(text.Rows) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(a.Stdout, "\n%s\n%s", title, text)
	return err
}

// evaluationResult is what came of running an evaluation again.
type evaluationResult int

const (
	evaluationAgrees evaluationResult = iota
	evaluationDiffers
	evaluationNotRun
)

// verifyEvaluation prints an evaluation's lines beside what its modules say
// now, which it returns. Those of an evaluation that does not count stand
// nowhere in the ticket.
func verifyEvaluation(ctx context.Context, a *cli.App, t *tollgate.Ticket, e *tollgate.Evaluation, counts bool, shelf *moduleShelf) ([]tollgate.FeeLine, evaluationResult, error) {
	fmt.Fprintf(a.Stdout, "\nevaluation %d  %s of %s %s\n", e.Number, cli.Printable(string(e.Kind)), e.Input.Amount, cli.Printable(string(e.Input.Currency)))
	rules := &cli.Table{Indent: "  "}
	var missing []error
	for _, ref := range e.Rules {
		err := shelf.load(ctx, ref)
		var exit *cli.ExitError
		var refused *cli.Refusal
		if errors.As(err, &exit) || (errors.As(err, &refused) && refused.Status != http.StatusNotFound) {
			return nil, evaluationNotRun, err // no answer from the service: not the ticket's fault
		}
		if err != nil {
			missing = append(missing, err)
		}
		rules.Row(ref.Rule.String(), ref.SHA256)
	}
	fmt.Fprint(a.Stdout, rules)
	if len(missing) > 0 {
		fmt.Fprintf(a.Stdout, "  NOT RUN  %s\n", cli.Printable(strings.ReplaceAll(errors.Join(missing...).Error(), "\n", "; ")))
		return nil, evaluationNotRun, nil
	}
	again, err := shelf.engine.Reexecute(e)
	if err != nil {
		fmt.Fprintf(a.Stdout, "  NOT RUN  %s\n", cli.Printable(err.Error()))
		return nil, evaluationNotRun, nil
	}
	var kept []tollgate.TicketLine
	if counts {
		kept = slices.DeleteFunc(slices.Clone(t.Lines), func(l tollgate.TicketLine) bool { return l.Evaluation != e.Number })
	}
	text, same := compareLines(kept, again, !counts)
	fmt.Fprint(a.Stdout, text)
	digest := tollgate.LinesSHA256(again)
	if digest != e.LinesSHA256 {
		fmt.Fprintf(a.Stdout, "  DIFFERS  lines_sha256 is %s, and again %s\n", cli.Printable(e.LinesSHA256), digest)
		return again, evaluationDiffers, nil
	}
	if !same {
		return again, evaluationDiffers, nil
	}
	fmt.Fprintf(a.Stdout, "  agrees   lines_sha256 %s\n", digest)
	return again, evaluationAgrees, nil
}

// compareLines lays the ticket's lines of an evaluation beside those of the
// modules. The first capture replaces the authorization's lines; its digest
// alone is left then.
func compareLines(kept []tollgate.TicketLine, again []tollgate.FeeLine, superseded bool) (*cli.Table, bool) {
	text, same := &cli.Table{Indent: "  ", Right: []int{2, 3}}, true
	text.Row("", "FEE", "TICKET", "AGAIN", "RULE")
	for i := range max(len(kept), len(again)) {
		mark, now, then := "=", tollgate.FeeLine{}, tollgate.FeeLine{}
		nowText, thenText := "-", "-"
		if i < len(again) {
			now, nowText = again[i], again[i].Amount.String()
		}
		if i < len(kept) {
			then, thenText = tollgate.FeeLine{Label: kept[i].Label, Amount: kept[i].Amount, Rule: kept[i].Rule}, kept[i].Amount.String()
		}
		label, rule := now.Label, now.Rule
		switch {
		case superseded:
			mark = ""
		case now != then:
			mark, same = "≠", false
			if i >= len(again) || then.Label != now.Label && i < len(kept) {
				label, rule = then.Label, then.Rule
			}
		}
		text.Row(mark, label, thenText, nowText, rule.String())
	}
	return text, same
}
