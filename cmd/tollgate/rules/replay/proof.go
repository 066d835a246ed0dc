package replay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

// proof is a ticket whose rules were run again, and what it was compared with. Its JSON
// is that of `rule verify`.
type proof struct {
	TicketID    string             `json:"ticket_id"`
	PaymentID   string             `json:"payment_id"`
	Amount      tollgate.Money     `json:"amount"`
	Currency    tollgate.Currency  `json:"currency"`
	Payee       tollgate.KeptPayee `json:"payee"`
	ErasedAt    *tollgate.Instant  `json:"erased_at,omitempty"` // nothing was run again, because its payee was erased
	OK          bool               `json:"ok"`
	Evaluations []provenEvaluation `json:"evaluations"`
	Problems    []string           `json:"ticket_problems"` // where the ticket is not what its evaluations make of it
	Records     *comparedRecords   `json:"records"`         // of the service; null: none were compared
	Uncompared  string             `json:"not_compared,omitempty"`
}

type provenEvaluation struct {
	Number   int                     `json:"number"`
	Kind     tollgate.EvaluationKind `json:"kind"`
	Amount   tollgate.Money          `json:"amount"`
	Currency tollgate.Currency       `json:"currency"`
	Rules    []tollgate.RuleRef      `json:"rules"`
	Result   evaluationResult        `json:"result"`
	Reason   string                  `json:"reason,omitempty"` // why it was not run
	Counts   bool                    `json:"counts"`           // its lines stand in the ticket
	Kept     []tollgate.TicketLine   `json:"lines"`            // of the ticket
	Again    []tollgate.FeeLine      `json:"lines_again"`
	SHA256   string                  `json:"lines_sha256"` // of the ticket
	Digest   string                  `json:"lines_sha256_again,omitempty"`
}

// comparedRecords are how many of the service's records a ticket was compared with, and
// where they disagree; null: they could not be read.
type comparedRecords struct {
	Transactions  *int     `json:"transactions"`
	Events        *int     `json:"events"`
	EventsOf      int      `json:"events_of_ticket"`
	EventsExpired bool     `json:"events_expired"` // those that are not there may be too old
	Problems      []string `json:"problems"`
}

// evaluationResult is what came of running an evaluation again.
type evaluationResult string

const (
	evaluationAgrees  evaluationResult = "agrees"
	evaluationDiffers evaluationResult = "differs"
	evaluationNotRun  evaluationResult = "not_run"
)

// erased is the proof of a ticket whose inputs were erased, which nothing can be computed
// from again.
func erased(t *tollgate.Ticket) *proof {
	p := &proof{TicketID: t.ID, PaymentID: t.PaymentID, Amount: t.Amount, Currency: t.Currency, ErasedAt: &t.ErasedAt, Evaluations: []provenEvaluation{}, Problems: []string{}}
	for i := range t.Evaluations {
		e := &t.Evaluations[i]
		p.Evaluations = append(p.Evaluations, provenEvaluation{
			Number: e.Number, Kind: e.Kind, Amount: e.Input.Amount, Currency: e.Input.Currency, Rules: e.Rules,
			Result: evaluationNotRun, Reason: "erased", SHA256: e.LinesSHA256, Kept: []tollgate.TicketLine{},
		})
	}
	return p
}

// prove runs each evaluation again, puts the ticket together from what its modules say
// now, and compares it with the records. An error says that nobody could tell.
func prove(ctx context.Context, t *tollgate.Ticket, shelf *moduleShelf, b *binding) (*proof, error) {
	p := &proof{TicketID: t.ID, PaymentID: t.PaymentID, Amount: t.Amount, Currency: t.Currency, Payee: t.Payee, Evaluations: []provenEvaluation{}, Uncompared: b.why}
	again, agree := composition(t), true
	for i := range t.Evaluations {
		e := &t.Evaluations[i]
		proven, err := proveEvaluation(ctx, t, e, again.counts(i), shelf)
		if err != nil {
			return nil, err
		}
		p.Evaluations = append(p.Evaluations, *proven)
		agree = agree && proven.Result == evaluationAgrees
		again.add(e, proven.Again)
	}
	p.Problems = append(again.compare(agree), again.refunds(shelf.engine)...)
	if r := b.records; r != nil {
		p.Records = &comparedRecords{EventsOf: len(t.EventIDs), EventsExpired: r.EventsExpired, Problems: disagreements(t, r)}
		if r.Transactions != nil {
			p.Records.Transactions = new(len(r.Transactions))
		}
		if r.Events != nil {
			p.Records.Events = new(len(r.Events))
		}
	}
	p.OK = p.verdict() == nil
	return p, nil
}

// proveEvaluation runs the modules of an evaluation again. The lines of one that does not
// count stand nowhere in the ticket: its digest alone is left.
func proveEvaluation(ctx context.Context, t *tollgate.Ticket, e *tollgate.Evaluation, counts bool, shelf *moduleShelf) (*provenEvaluation, error) {
	p := &provenEvaluation{
		Number: e.Number, Kind: e.Kind, Amount: e.Input.Amount, Currency: e.Input.Currency, Rules: e.Rules,
		Result: evaluationNotRun, Counts: counts, SHA256: e.LinesSHA256, Kept: []tollgate.TicketLine{},
	}
	var missing []error
	for _, ref := range e.Rules {
		err := shelf.load(ctx, ref)
		var exit *cli.ExitError
		var refused *cli.Refusal
		if errors.As(err, &exit) || (errors.As(err, &refused) && refused.Status != http.StatusNotFound) {
			return nil, err // no answer from the service: not the ticket's fault
		}
		if err != nil {
			missing = append(missing, err)
		}
	}
	if len(missing) > 0 {
		p.Reason = strings.ReplaceAll(errors.Join(missing...).Error(), "\n", "; ")
		return p, nil
	}
	again, err := shelf.engine.Reexecute(e)
	if err != nil {
		p.Reason = err.Error()
		return p, nil
	}
	if counts {
		p.Kept = slices.DeleteFunc(slices.Clone(t.Lines), func(l tollgate.TicketLine) bool { return l.Evaluation != e.Number })
	}
	p.Again, p.Digest, p.Result = again, tollgate.LinesSHA256(again), evaluationDiffers
	same := !counts || slices.EqualFunc(p.Kept, again, func(l tollgate.TicketLine, again tollgate.FeeLine) bool { return feeLine(l) == again })
	if same && p.Digest == e.LinesSHA256 {
		p.Result = evaluationAgrees
	}
	return p, nil
}

func feeLine(l tollgate.TicketLine) tollgate.FeeLine {
	return tollgate.FeeLine{Label: l.Label, Amount: l.Amount, Rule: l.Rule}
}

// verdict says what is wrong with the ticket, if anything.
func (p *proof) verdict() error {
	if p.ErasedAt != nil {
		return cli.UnavailableError(cli.ErrErased)
	}
	of := func(r evaluationResult) (n int) {
		for _, e := range p.Evaluations {
			if e.Result == r {
				n++
			}
		}
		return n
	}
	var records []string
	if p.Records != nil {
		records = p.Records.Problems
	}
	all := slices.Concat(p.Problems, records)
	switch differ, notRun := of(evaluationDiffers), of(evaluationNotRun); {
	case differ > 0:
		return fmt.Errorf("%d of %d evaluations differ", differ, len(p.Evaluations))
	case notRun > 0:
		return fmt.Errorf("%d of %d evaluations could not be run again", notRun, len(p.Evaluations))
	case len(all) == 1:
		return errors.New(cli.Printable(all[0]))
	case len(records) > 0:
		return fmt.Errorf("the ticket disagrees with its evaluations or the service's records in %d places", len(all))
	case len(all) > 1:
		return fmt.Errorf("the ticket disagrees with its evaluations in %d places", len(all))
	}
	return nil
}

// print lays each evaluation of the ticket beside what its modules say now, and names
// where the ticket is not what the records say.
func (p *proof) print(a *cli.App) error {
	head := &cli.Table{}
	head.Row("ticket", p.TicketID)
	head.Row("payment", p.PaymentID)
	head.Row("amount", p.Amount.String()+" "+string(p.Currency)+" to "+cli.PayeeText(p.Payee))
	if p.ErasedAt != nil {
		head.Row("erased", p.ErasedAt.String())
	}
	fmt.Fprint(a.Stdout, head)
	for i := range p.Evaluations {
		p.Evaluations[i].print(a)
	}
	printDiffering(a, "the ticket", &cli.Table{Indent: "  "}, p.Problems)
	if p.Records != nil {
		printDiffering(a, "the records", p.Records.table(p.PaymentID), p.Records.Problems)
	}
	if !p.OK {
		return nil
	}
	end := ""
	if p.Uncompared != "" {
		end = "Their inputs were not fully compared with what happened: " + p.Uncompared + ".\n"
	}
	_, err := fmt.Fprintf(a.Stdout, "\nok: %d evaluations agree, byte for byte\n%s", len(p.Evaluations), end)
	return err
}

func (e *provenEvaluation) print(a *cli.App) {
	fmt.Fprintf(a.Stdout, "\nevaluation %d  %s of %s %s\n", e.Number, cli.Printable(string(e.Kind)), e.Amount, cli.Printable(string(e.Currency)))
	rules := &cli.Table{Indent: "  "}
	for _, ref := range e.Rules {
		rules.Row(ref.Rule.String(), ref.SHA256)
	}
	fmt.Fprint(a.Stdout, rules)
	if e.Result == evaluationNotRun {
		fmt.Fprintf(a.Stdout, "  NOT RUN  %s\n", cli.Printable(e.Reason))
		return
	}
	fmt.Fprint(a.Stdout, e.table())
	if e.Digest != e.SHA256 {
		fmt.Fprintf(a.Stdout, "  DIFFERS  lines_sha256 is %s, and again %s\n", cli.Printable(e.SHA256), e.Digest)
	} else if e.Result == evaluationAgrees {
		fmt.Fprintf(a.Stdout, "  agrees   lines_sha256 %s\n", e.Digest)
	}
}

// table lays the ticket's lines of an evaluation beside those of the modules. The first
// capture replaces the authorization's lines.
func (e *provenEvaluation) table() *cli.Table {
	text := &cli.Table{Indent: "  ", Right: []int{2, 3}}
	text.Row("", "FEE", "TICKET", "AGAIN", "RULE")
	for i := range max(len(e.Kept), len(e.Again)) {
		mark, now, then := "=", tollgate.FeeLine{}, tollgate.FeeLine{}
		nowText, thenText := "-", "-"
		if i < len(e.Again) {
			now, nowText = e.Again[i], e.Again[i].Amount.String()
		}
		if i < len(e.Kept) {
			then, thenText = feeLine(e.Kept[i]), e.Kept[i].Amount.String()
		}
		label, rule := now.Label, now.Rule
		switch {
		case !e.Counts:
			mark = ""
		case now != then:
			mark = "≠"
			if i >= len(e.Again) || then.Label != now.Label && i < len(e.Kept) {
				label, rule = then.Label, then.Rule
			}
		}
		text.Row(mark, label, thenText, nowText, rule.String())
	}
	return text
}

// printDiffering prints a part of the comparison, unless it is empty.
func printDiffering(a *cli.App, title string, text *cli.Table, problems []string) {
	for _, p := range problems {
		text.Row("DIFFERS", p)
	}
	if len(text.Rows) > 0 {
		fmt.Fprintf(a.Stdout, "\n%s\n%s", title, text)
	}
}

// table says with how much a ticket was compared.
func (r *comparedRecords) table(payment string) *cli.Table {
	text := &cli.Table{Indent: "  "}
	text.Row("payment", payment)
	if r.Transactions != nil {
		text.Row("transactions", fmt.Sprint(*r.Transactions))
	}
	if r.Events != nil {
		count := fmt.Sprintf("%d of %d", *r.Events, r.EventsOf)
		if *r.Events < r.EventsOf && r.EventsExpired {
			count += "; Tollgate keeps events for 30 days"
		}
		text.Row("events", count)
	}
	return text
}
