package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/rediskv"
	"tollgate/rediskv/erase"
)

func eraseCommand(a *cli.App) *cobra.Command {
	o := &erasure{a: a}
	c := &cobra.Command{
		Use:   "erase",
		Short: "Erase whom payments were for",
		Long: `Erase the payee, reference, description and metadata of all payments to a payee, or of
one payment, for good: in Redis, in its events and remembered answers, and in every pack
of the archive, of payments and of events. Amounts, fees, rules and digests stay. The ticket says since when it is
erased. Nobody can run its rules again, and the payment cannot be refunded any more.

A payment must be at an end. Those that can still be captured are named and stay.

Backups, delivered webhooks and the files of exports keep what they have until they
expire. The audit record names the payments by their ids.

A run that was killed has left notes. The next run of this command, for whichever
payment, ends what it began.

Exit codes: 0 all are erased, or would be; 1 some are not at an end, there is no such
payment, or a file of the archive is left to you; 2 wrong usage; 3 Redis or the archive
is away.`,
		Example: `  tollgate erase --payee jane.example --dry-run
  tollgate erase --payee jane.example --yes
  tollgate erase --payment pay_01kb5y1jzv8dm3c4qhx7w2ta00`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.open(a.Config(cmd)) },
	}
	f := c.Flags()
	f.StringVar(&o.payee, "payee", "", "erase all payments to this payee")
	f.StringVar(&o.payment, "payment", "", "erase the payment of this id")
	f.StringVar(&o.organization, "organization", "", "those of this organization alone")
	f.BoolVar(&o.dry, "dry-run", false, "say what would be erased")
	f.BoolVar(&o.yes, "yes", false, "erase without asking")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	return c
}

// erasure is a run of 'tollgate erase'.
type erasure struct {
	a                            *cli.App
	payee, payment, organization string
	dry, yes, asJSON             bool

	s *erase.Store
}

// erasureJSON is what --json prints.
type erasureJSON struct {
	Object   string        `json:"object"` // erasure
	DryRun   bool          `json:"dry_run"`
	Payments []erase.Found `json:"payments"`
	Erased   int           `json:"erased"` // by this run; with --dry-run, that would be
	Open     int           `json:"open"`   // that stay, as they are not at an end
	// Left are files of the archive that have something of it, and that only a person can judge.
	Left []string `json:"left"`
}

func (o *erasure) open(c *cli.Config) error {
	if (o.payee == "") == (o.payment == "") {
		return cli.UsageError(errors.New("name either --payee or --payment"))
	}
	if o.payee != "" {
		p, err := tollgate.ParsePayee(o.payee)
		if err != nil {
			return cli.UsageError(fmt.Errorf("--payee: %w", err))
		}
		o.payee = p.String()
	}
	if o.payment != "" && (!strings.HasPrefix(o.payment, tollgate.PrefixPayment) || !tollgate.ValidID(o.payment)) {
		return cli.UsageError(fmt.Errorf("--payment: %q is no id of a payment", o.payment))
	}
	on := ReadShelves(c)
	options := rediskv.Options{URL: c.Text("redis-url"), Clock: o.a.Clock, Entropy: o.a.Entropy, Timeout: o.a.StoreTimeout}
	if err := c.Err(); err != nil {
		return err
	}
	ctx := c.Command.Context()
	s, _, err := OpenStore(ctx, options, 0, false)
	if err != nil {
		return err
	}
	defer s.Close()
	o.s = erase.New(s, nil, nil)
	if len(on) > 0 {
		l := logsOn(s.DB, on)
		o.s = erase.New(s, UseArchive(s, on), l)
		s.UseLogs(l)
	}
	return awayError(o.run(ctx))
}

func (o *erasure) run(ctx context.Context) error {
	list, err := o.find(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 && o.payment != "" {
		return fmt.Errorf("there is no payment %s", cli.Printable(o.payment))
	}
	shown := erasureJSON{Object: "erasure", DryRun: o.dry, Payments: append([]erase.Found{}, list...), Left: []string{}}
	o.s.Left = func(file string) {
		if !slices.Contains(shown.Left, file) {
			shown.Left = append(shown.Left, file)
		}
	}
	for _, one := range list {
		switch {
		case one.Open:
			shown.Open++
		case !one.Erased:
			shown.Erased++
		}
	}
	if !o.asJSON {
		if err := o.print(list); err != nil {
			return err
		}
	}
	if !o.dry && shown.Erased > 0 {
		if sure, err := o.sure(shown.Erased); err != nil || !sure {
			return err
		}
		if err := o.erase(ctx, list); err != nil {
			return err
		}
	}
	if err := o.end(shown); err != nil {
		return err
	}
	if shown.Open > 0 {
		return cli.RefusedError(fmt.Errorf("%d payments are not at an end and stay: capture or cancel them first", shown.Open))
	}
	if len(shown.Left) > 0 {
		return cli.RefusedError(fmt.Errorf("no line of Redis refers to these files of the archive, and they still have what was erased: take them back with 'tollgate archive check --adopt' and erase again, or remove them: %s", strings.Join(shown.Left, ", ")))
	}
	return nil
}

// find are the payments that were asked for, and those that a run which died has begun.
func (o *erasure) find(ctx context.Context) (list []erase.Found, err error) {
	orgs, err := o.s.Organizations(ctx)
	if err != nil {
		return nil, err
	}
	if o.organization != "" {
		if !slices.Contains(orgs, o.organization) {
			return nil, cli.UsageError(fmt.Errorf("--organization: there is no organization %s", cli.Printable(o.organization)))
		}
		orgs = []string{o.organization}
	}
	for _, org := range orgs {
		begun, err := o.s.Begun(ctx, org)
		if err != nil {
			return nil, err
		}
		list = append(list, begun...)
		found, err := o.findIn(ctx, org)
		if err != nil {
			return nil, err
		}
		for _, one := range found {
			if !slices.ContainsFunc(begun, func(b erase.Found) bool { return b.Payment == one.Payment }) {
				list = append(list, one)
			}
		}
	}
	return list, nil
}

func (o *erasure) findIn(ctx context.Context, org string) ([]erase.Found, error) {
	if o.payee != "" {
		return o.s.To(ctx, org, o.payee)
	}
	one, is, err := o.s.Payment(ctx, org, o.payment)
	if err != nil || !is {
		return nil, err
	}
	return []erase.Found{one}, nil
}

// erase erases what was found, and then what was made meanwhile, until there is nothing left.
func (o *erasure) erase(ctx context.Context, list []erase.Found) (err error) {
	for {
		ids := map[string][]string{}
		for _, one := range list {
			if !one.Open && !one.Erased {
				ids[one.Organization] = append(ids[one.Organization], one.Payment)
			}
		}
		if len(ids) == 0 {
			return nil
		}
		for org, some := range ids {
			if err := o.s.Erase(ctx, org, some); err != nil {
				return err
			}
		}
		if list, err = o.find(ctx); err != nil {
			return err
		}
	}
}

func (o *erasure) sure(n int) (bool, error) {
	if o.yes {
		return true, nil
	}
	if !o.a.AtTerminal() {
		return false, cli.UsageError(errors.New("nothing was erased: add --yes, or run it at a terminal"))
	}
	fmt.Fprintf(o.a.Stderr, "Erase these %d for good? [y/N] ", n)
	answer, _ := bufio.NewReader(o.a.Stdin).ReadString('\n')
	return strings.TrimSpace(strings.ToLower(answer)) == "y", nil
}

func (o *erasure) print(list []erase.Found) error {
	if len(list) == 0 {
		return nil
	}
	var t cli.Table
	t.Row("PAYMENT", "ORGANIZATION", "STATUS", "")
	for _, one := range list {
		state := "to be erased"
		switch {
		case one.Open:
			state = "stays: it is not at an end"
		case one.Erased:
			state = "erased"
		case one.Begun:
			state = "begun by a run that died"
		}
		t.Row(one.Payment, one.Organization, string(one.Status), state)
	}
	return o.a.Print(&t)
}

func (o *erasure) end(shown erasureJSON) error {
	if o.asJSON {
		return o.a.PrintJSON(shown)
	}
	text := fmt.Sprintf("erased %d payments\n", shown.Erased)
	switch {
	case o.dry:
		text = fmt.Sprintf("would erase %d payments\n", shown.Erased)
	case shown.Erased > 0:
	case o.payment != "" && shown.Open == 0:
		text = "nothing to erase: the payment is erased already\n"
	case shown.Open == 0:
		text = "nothing to erase: no payment is to this payee, or all of them are erased already\n"
	}
	_, err := fmt.Fprint(o.a.Stdout, text)
	return err
}
