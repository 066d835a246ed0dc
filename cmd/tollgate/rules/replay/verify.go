// Package replay runs rules again on what has been: it verifies tickets and tests a
// rule on the payments of the past.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
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
	offline, asJSON := false, false
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
and its transactions, and the output says how many events there were.

The payee of an erased ticket is not known any more. Nothing is run then: the output
says "erased", and the exit code is 3.`,
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
		var p *proof
		if t.ErasedAt != 0 {
			p = erased(t)
		} else {
			p, err = prove(ctx, t, shelf, b)
		}
		if err != nil {
			return err
		}
		if asJSON {
			err = a.PrintJSON(p)
		} else {
			err = p.print(a)
		}
		if err != nil {
			return err
		}
		return p.verdict()
	}
	c.Flags().BoolVar(&offline, "offline", false, "ask no service about a ticket from a file")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON: each evaluation with its lines in the ticket and again")
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
