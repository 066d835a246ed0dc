package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
	"tollgate/rediskv"
	"tollgate/rediskv/backup"
	"tollgate/rediskv/packs/shelf"
	"tollgate/rediskv/store"
)

func backupCommand(a *cli.App) *cobra.Command {
	var o backupOptions
	c := &cobra.Command{
		Use:   "backup DIR",
		Short: "Make a copy of a Redis, and check it",
		Long: `Make a copy of a Redis in a new directory, and check it. Each master sends a
snapshot of itself, as it does to a replica, so the service may run meanwhile. The
directory appears when the copy is complete. Then the copy is read back, and its
objects are compared as 'tollgate check' compares those in Redis.

The copy has payments and configuration in the clear, and secrets encrypted with
TOLLGATE_SECRET_KEY. Keep the copy where few can read it, and that key elsewhere.

Set TOLLGATE_ARCHIVE_URL where there is an archive. It is read to compare the copy, and
is not in it: copy its directory afterwards.

Redis must allow SYNC; many services that run Redis for you do not. In a cluster, no
slot may move meanwhile.

Exit codes: 0 a sound copy; 1 no copy, or one with findings; 3 Redis is away.`,
		Example: `  tollgate backup /backups/tollgate-2026-11-24
  tollgate backup verify /backups/tollgate-2026-11-24`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), a, a.Config(cmd), args[0])
		},
	}
	c.Flags().BoolVar(&o.asJSON, "json", false, "print each finding and then the counts as a line of JSON")
	c.AddCommand(verifyCommand(a))
	return c
}

func verifyCommand(a *cli.App) *cobra.Command {
	var o backupOptions
	c := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check a copy",
		Long: `Check a copy without a Redis: compare its files with their checksums, read them, and
compare the objects as 'tollgate check' does.

Exit codes: 0 a sound copy; 1 it is damaged, or has findings.`,
		Example: `  tollgate backup verify /backups/tollgate-2026-11-24`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			kept, err := backup.Open(args[0])
			if err != nil {
				return err
			}
			c := a.Config(cmd)
			shelves := ReadShelves(c)
			if err := c.Err(); err != nil {
				return err
			}
			return o.verify(cmd.Context(), a, kept, shelves)
		},
	}
	c.Flags().BoolVar(&o.asJSON, "json", false, "print each finding and then the counts as a line of JSON")
	return c
}

type backupOptions struct{ asJSON bool }

// copyOptions are those of a copy; progress goes to standard error.
func copyOptions(a *cli.App, url string) backup.Options {
	return backup.Options{
		Redis: rediskv.Options{URL: url, Clock: a.Clock, Entropy: a.Entropy, Timeout: a.StoreTimeout},
		Say:   func(format string, args ...any) { fmt.Fprintf(a.Stderr, format+"\n", args...) },
	}
}

func (o *backupOptions) run(ctx context.Context, a *cli.App, c *cli.Config, dir string) error {
	url, shelves := c.Text("redis-url"), ReadShelves(c)
	if err := c.Err(); err != nil {
		return err
	}
	if _, err := backup.Take(ctx, copyOptions(a, url), dir); err != nil {
		return copyError(err)
	}
	kept, err := backup.Open(dir) // as who restores it will
	if err != nil {
		return err
	}
	return o.verify(ctx, a, kept, shelves)
}

// verify checks a copy at the moment at which it was made.
func (o *backupOptions) verify(ctx context.Context, a *cli.App, kept *backup.Copy, shelves []shelf.Shelf) error {
	if !o.asJSON {
		size, orgs := int64(0), 0
		for _, f := range kept.Files {
			size += f.Size
		}
		for _, p := range kept.Contents {
			orgs += len(p.Organizations)
		}
		fmt.Fprintf(a.Stdout, "copy %s of %s: %d files, %d bytes, %d organizations\n", kept.ID, kept.TakenAt, len(kept.Files), size, orgs)
		if kept.SecretKey != "" {
			fmt.Fprintf(a.Stdout, "it needs the secret key %s ('tollgate key id' names yours)\n", kept.SecretKey)
		}
	}
	at := time.UnixMilli(int64(kept.TakenAt))
	var all collected
	w := all.walk("")
	options := copyOptions(a, "")
	options.Archive = func(s *store.Store) { UseArchive(s, shelves) }
	err := kept.Check(ctx, options, func() time.Time { return at }, w)
	if isArchive(err) && len(shelves) == 0 {
		return errors.New("the copy is complete, and was not compared: some of its payments are in the archive. Set TOLLGATE_ARCHIVE_URL to where it is, and run 'tollgate backup verify'")
	}
	if err != nil {
		return awayError(err)
	}
	show := checkOptions{asJSON: o.asJSON}
	if o.asJSON {
		err = show.printJSON(a, all.found, nil, summaryJSON{"summary", w.Looked, all.total, 0})
	} else {
		err = show.print(a, all.found, all.total, w.Looked)
	}
	if err == nil && all.total > 0 {
		err = fmt.Errorf("the copy is complete, and what was copied has %d findings. 'tollgate check' says how to repair Redis; then make another copy", all.total)
	}
	return err
}

func restoreCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "restore DIR",
		Short: "Put a copy into an empty Redis",
		Long: `Put a copy into an empty Redis, one server or a cluster, whichever the copy came
from. Stop every 'tollgate serve' and 'tollgate work' first; none starts on that
Redis until the restore has ended. If it dies, run it again with the same copy.

Every partition then has a new history. Writes go on; access tokens and cursors of
before are answered with 410 history_changed, which says since when changes are
missing. Payouts wait for 'tollgate history accept': compare first with the payer
which payouts it has been asked for. Where there is an archive, 'tollgate work' takes
back what was moved since the copy was made; 'tollgate archive check --adopt' does that
by hand, before you start it.

Exit codes: 0 restored; 1 refused or interrupted; 3 Redis is away.`,
		Example: `  export TOLLGATE_REDIS_URL=redis://127.0.0.1:6380
  tollgate restore /backups/tollgate-2026-11-24
  tollgate history show`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := a.Config(cmd)
			url := c.Text("redis-url")
			if err := c.Err(); err != nil {
				return err
			}
			kept, err := backup.Open(args[0])
			if err != nil {
				return err
			}
			err = backup.Restore(cmd.Context(), copyOptions(a, url), kept)
			if errors.Is(err, backup.ErrRestored) {
				fmt.Fprintln(a.Stderr, err)
				err = nil
			}
			if err != nil {
				return copyError(err)
			}
			_, err = fmt.Fprintf(a.Stdout, "restored %s. Start 'tollgate serve' and 'tollgate work'; payouts wait for 'tollgate history accept'\n", kept.ID)
			return err
		},
	}
}

// copyError gives what keeps a copy from being made or restored its exit code.
func copyError(err error) error {
	switch {
	case rediskv.Away(err):
		return cli.UnavailableError(err)
	case errors.Is(err, os.ErrNotExist):
		return cli.UsageError(err)
	}
	return err
}
