package server

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
	"tollgate/rediskv"
	"tollgate/rediskv/store"
)

// layouts are the names of layouts, and what each is.
var layouts = map[string]struct {
	rediskv.Layout
	is string
}{
	"apart":    {rediskv.Apart, "each transaction, capture and refund has a key of its own, and each log is one stream"},
	"together": {rediskv.Together, "all that belongs to a payment is in one hash, and older parts of logs are in segments"},
	"compact":  {rediskv.Compact, "as together; tickets, captures, refunds, transactions and attempts are packed, older parts of logs compressed, and an answer that shows a payment is not kept beside it"},
	"dense":    {rediskv.Dense, "as compact, in fewer bytes: a delivery and its attempts are in one hash, and what never changes of a payment or a delivery is in one field"},
}

func layoutCommand(a *cli.App) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "layout [apart|together|compact|dense]",
		Short: "See or change how new payments and logs are kept",
		Long: `A Redis that this release is the first to use keeps payments densely: fewer and
smaller keys, which take less memory and move faster between nodes of a cluster. A
Redis that an earlier release has used goes on as it was, because earlier releases
cannot read the new records. When none of them runs any more, and you will not go
back to one, run 'tollgate layout dense'.

What is stored stays where it is and is read in either layout. Running processes
hear of a change within a minute.`,
		Example: `  tollgate layout
  tollgate layout dense`,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"apart", "together", "compact", "dense"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return WithStore(a, a.Config(cmd), func(ctx context.Context, s *store.Store) error {
				if len(args) == 1 {
					if err := s.WriteLayout(ctx, layouts[args[0]].Layout); err != nil {
						return err
					}
				}
				return printLayout(a, s.Layout(), asJSON)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printLayout(a *cli.App, now rediskv.Layout, asJSON bool) error {
	for name, l := range layouts {
		if l.Layout != now {
			continue
		}
		if asJSON {
			return a.PrintJSON(struct {
				Layout string `json:"layout"`
			}{name})
		}
		_, err := fmt.Fprintf(a.Stdout, "%s: %s\n", name, l.is)
		return err
	}
	return fmt.Errorf("layout: %d is recorded, which a later release has written", now)
}
