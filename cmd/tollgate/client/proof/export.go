package proof

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
	"tollgate/handlers/tlog/auditor"
)

func exportCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "export",
		Short: "Print the audit record with all that proves it",
		Long: `Print the audit record with all that proves it, one JSON object a line: of each tree
its last checkpoint, and then its leaves, each with its hash and the exact text of
its entry. The current tree comes first. Whoever has the file needs nothing else.`,
		Example: `  tollgate audit export >audit.ndjson`,
		Args:    cobra.NoArgs,
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, _ []string) error {
		history := ""
		for {
			row, err := latest(ctx, api, history)
			if err != nil {
				return err
			}
			if row == nil {
				return cli.RefusedError(errors.New("nothing is sealed yet: 'tollgate work' does it within a minute"))
			}
			before, err := exportTree(ctx, api, row)
			if err != nil || before == "" {
				return err
			}
			history = before
		}
	})
	return c
}

// exportTree prints one tree, and names the history of the one before.
func exportTree(ctx context.Context, api *cli.Client, row jsontext.Value) (before string, err error) {
	_, one, err := cli.Read[auditor.Signed](row, nil)
	if err != nil {
		return "", err
	}
	if err := line(api, row); err != nil {
		return "", err
	}
	err = each(ctx, api, leaves, one.HistoryID, func(row jsontext.Value) error {
		_, leaf, err := cli.Read[leaf](row, nil)
		if err != nil {
			return err
		}
		if leaf.Index == 0 && leaf.Entry != nil {
			before = auditor.Before(*leaf.Entry)
		}
		return line(api, row)
	})
	return before, err
}

func line(api *cli.Client, row jsontext.Value) error {
	if err := row.Compact(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(api.App.Stdout, "%s\n", row)
	return err
}
