package server

import (
	"bufio"
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/store"
)

func archiveExport(a *cli.App) *cobra.Command {
	var q archive.ExportQuery
	var from, until string
	c := &cobra.Command{
		Use: "export", Short: "Print all payments in the archive as NDJSON", Args: cobra.NoArgs,
		Long: `Print the payments in the archive, one JSON object a line: each with its ticket,
transactions, captures and refunds. They are in the order of partitions and ids.

Each payment is printed once, as it is now. If several packs have it, the newest row
counts. A payment that is in Redis (again, after a refund) is left out: export it over
the API. Standard error says how many there were.

--from and --until are times of creation: --from is included, --until is not.

Exit codes: 0 all of it; 1 a part of a pack cannot be read: standard error names it, and
the rest is printed; 3 Redis or the archive is away.`,
		Example: `  tollgate archive export >payments.ndjson
  tollgate archive export --organization org_01jd8m2r5k --from 2025-01-01T00:00:00Z --until 2026-01-01T00:00:00Z`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if q.From, err = instantFlag("--from", from); err != nil {
				return err
			}
			if q.Until, err = instantFlag("--until", until); err != nil {
				return err
			}
			return withArchive(a, a.Config(cmd), func(ctx context.Context, _ *store.Store, s archived) error {
				return exportArchive(ctx, a, s.Store, q)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&q.Organization, "organization", "", "this organization alone")
	f.StringVar(&from, "from", "", "payments made at this time or later, RFC 3339")
	f.StringVar(&until, "until", "", "payments made before this time, RFC 3339")
	return c
}

func exportArchive(ctx context.Context, a *cli.App, s *archive.Store, q archive.ExportQuery) error {
	out := bufio.NewWriter(a.Stdout)
	n, err := s.Export(ctx, q, func(row []byte) error {
		_, _ = out.Write(row) // the next one says what has failed
		return out.WriteByte('\n')
	}, func(f archive.Finding) { fmt.Fprintln(a.Stderr, findingText(f)) })
	failed := out.Flush()
	if err := cmp.Or(awayError(err), failed); err != nil {
		return err
	}
	fmt.Fprintf(a.Stderr, "printed %d payments; left out %d that are in Redis\n", n.Payments, n.InRedis)
	if n.Unreadable > 0 {
		return fmt.Errorf("%d parts of packs cannot be read; %d more payments were left out, which may have changed there", n.Unreadable, n.Unsure)
	}
	return nil
}

// instantFlag reads a flag that is a time; 0 where it is not given.
func instantFlag(name, text string) (at tollgate.Instant, err error) {
	if text != "" {
		if at, err = tollgate.ParseInstant(text); err != nil {
			err = cli.UsageError(fmt.Errorf("%s: %w", name, err))
		}
	}
	return at, err
}
