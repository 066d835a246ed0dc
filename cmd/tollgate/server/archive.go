package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/rediskv"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/archive/logs"
	"tollgate/rediskv/packs/shelf"
	"tollgate/rediskv/packs/shelf/s3"
	"tollgate/rediskv/store"
)

// leastArchiveAfter is longer than idempotency keys, windows of budgets and events are kept:
// what is moved to the archive is none of theirs any more.
const leastArchiveAfter = 40 * 24 * time.Hour

// ReadShelves are where the settings say that the archive is, and its copy; none for nowhere.
// Each is a directory or a bucket.
func ReadShelves(c *cli.Config) (shelves []shelf.Shelf) {
	for _, flag := range []string{"archive-url", "archive-copy"} {
		address := c.Text(flag)
		if address == "" {
			continue
		}
		on, err := openShelf(c, address)
		if c.Check(flag, err); flag == "archive-copy" && len(shelves) == 0 {
			c.Check(flag, errors.New("there is no archive that it could be the copy of: set TOLLGATE_ARCHIVE_URL, too"))
		}
		shelves = append(shelves, on)
	}
	return shelves
}

func openShelf(c *cli.Config, address string) (shelf.Shelf, error) {
	if strings.HasPrefix(address, "s3:") {
		return s3.Open(address, s3.Options{Region: c.Variable("AWS_REGION")})
	}
	return shelf.Open(address)
}

// ReadArchiveAfter is how long a payment has been at an end before it is moved there.
func ReadArchiveAfter(c *cli.Config) time.Duration {
	after := c.Duration("archive-after")
	if after < leastArchiveAfter {
		c.Check("archive-after", fmt.Errorf("%s is less than 40 days, for which idempotency keys, budgets and events may need a payment", after))
	}
	return after
}

// UseArchive has a store look for payments and events on shelves as well; nil without any.
func UseArchive(s *store.Store, on []shelf.Shelf) *archive.Store {
	if len(on) == 0 {
		return nil
	}
	a := archive.New(s.DB, archive.Options{Shelves: on, Scratch: os.TempDir()})
	s.UseArchive(a)
	s.UseLogs(logsOn(s.DB, on))
	return a
}

// logsOn are the packs of logs on shelves.
func logsOn(db *rediskv.DB, on []shelf.Shelf) *logs.Store {
	return logs.New(db, logs.Options{Shelves: on, Scratch: os.TempDir(), Wait: logs.Wait})
}

// archived is all that is in the archive.
type archived struct {
	*archive.Store
	logs *logs.Store
}

func archiveCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "archive",
		Short: "See and check what was moved out of Redis",
		Long: `'tollgate work' moves payments that are at an end, settled, and unchanged for 90
days (TOLLGATE_ARCHIVE_AFTER) out of Redis into files under TOLLGATE_ARCHIVE_URL, and
events that are 30 days old. The API answers them as before.`,
	}
	var asJSON, heal, adopt bool
	status := &cobra.Command{
		Use: "status", Short: "What is in the archive, since when, in how many bytes", Args: cobra.NoArgs,
		Example: "  tollgate archive status",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withArchive(a, a.Config(cmd), func(ctx context.Context, s *store.Store, from archived) error {
				return archiveStatus(ctx, a, s, from, asJSON)
			})
		},
	}
	status.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each pack")
	check := &cobra.Command{
		Use: "check", Short: "Read every pack and compare it with the manifest", Args: cobra.NoArgs,
		Long: `Read every pack and compare it with the manifest in Redis: that all files are there,
that each is what its name says, and that each row can be read. Files that no line of
the manifest refers to are named, too; they are no error.

With a copy (TOLLGATE_ARCHIVE_COPY) both are read. --heal writes what is missing or
damaged in one of them again, from the other.

After 'tollgate restore' of an older copy, the archive has lines that Redis does not
have yet. 'tollgate work' takes them back when it starts. --adopt does it by hand, and
then checks. It removes from Redis what a pack has in the same state. It names each payment of which Redis has
another state, which stays. It can be run again. Stop every 'tollgate work' before.

Exit codes: 0 all of it is right, or healed; 1 something is missing, damaged, or cannot
be taken back; 3 Redis or the archive is away.`,
		Example: "  tollgate archive check\n  tollgate archive check --adopt",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withArchive(a, a.Config(cmd), func(ctx context.Context, s *store.Store, from archived) error {
				return (&archiveChecking{a: a, from: from, heal: heal, adopt: adopt, asJSON: asJSON}).run(ctx, s.Partitions())
			})
		},
	}
	check.Flags().BoolVar(&adopt, "adopt", false, "take back what follows the lines of Redis, which was restored from an older copy")
	check.Flags().BoolVar(&heal, "heal", false, "write what is missing or damaged again, from the copy")
	check.Flags().BoolVar(&asJSON, "json", false, "print each finding and then the counts as a line of JSON")
	cat := &cobra.Command{
		Use: "cat ID", Short: "Print what the archive has of a payment, an event or an audit entry", Args: cobra.ExactArgs(1),
		Long: `Print the row of a payment as it is in its pack: the payment, its ticket, transactions,
captures and refunds as JSON. ID is that of any of them, of an event, or of an audit entry.`,
		Example: "  tollgate archive cat pay_01kb5y1jzv8dm3c4qhx7w2ta00",
		RunE: func(cmd *cobra.Command, args []string) error {
			return withArchive(a, a.Config(cmd), func(ctx context.Context, _ *store.Store, from archived) error {
				row, _, err := from.Row(ctx, args[0])
				if strings.HasPrefix(args[0], tollgate.PrefixEvent) || strings.HasPrefix(args[0], tollgate.PrefixAudit) {
					row, err = from.logs.Row(ctx, args[0])
				}
				if err != nil {
					return awayError(err)
				}
				if row == nil {
					return fmt.Errorf("the archive has nothing of %s", cli.Printable(args[0]))
				}
				_, err = fmt.Fprintf(a.Stdout, "%s\n", row)
				return err
			})
		},
	}
	c.AddCommand(status, check, cat, archiveExport(a))
	return c
}

// withArchive opens the archive that the settings name.
func withArchive(a *cli.App, c *cli.Config, do func(context.Context, *store.Store, archived) error) error {
	on := ReadShelves(c)
	if len(on) == 0 {
		c.Check("archive-url", errors.New("it is needed: where the archive is"))
	}
	options := rediskv.Options{URL: c.Text("redis-url"), Clock: a.Clock, Entropy: a.Entropy, Timeout: a.StoreTimeout}
	if err := c.Err(); err != nil {
		return err
	}
	ctx := c.Command.Context()
	s, _, err := OpenStore(ctx, options, 0, false)
	if err != nil {
		return err
	}
	defer s.Close()
	return do(ctx, s, archived{UseArchive(s, on), logsOn(s.DB, on)})
}

// printLine prints a line of JSON.
func printLine(a *cli.App, v any) error {
	text, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true)) // damage can be any bytes
	if err == nil {
		_, err = fmt.Fprintf(a.Stdout, "%s\n", text)
	}
	return err
}

// awayError gives a Redis or an archive that is away its exit code.
func awayError(err error) error {
	if rediskv.Away(err) || isArchive(err) {
		return cli.UnavailableError(err)
	}
	return err
}

func isArchive(err error) bool {
	e, is := errors.AsType[*tollgate.Error](err)
	return is && e.Code == tollgate.CodeArchiveUnavailable
}

// packJSON is a line of status --json.
type packJSON struct {
	Object    string           `json:"object"` // pack
	Partition int              `json:"partition"`
	Line      int64            `json:"line"`
	Pack      string           `json:"pack"`
	Payments  int64            `json:"payments"`
	Bytes     int64            `json:"bytes"`
	From      tollgate.Instant `json:"from"`
	Until     tollgate.Instant `json:"until"`
	SealedAt  tollgate.Instant `json:"sealed_at"`
	Removed   bool             `json:"removed"` // Redis has none of it any more
}

func archiveStatus(ctx context.Context, a *cli.App, s *store.Store, from archived, asJSON bool) error {
	var t cli.Table
	t.Row("PARTITION", "PACKS", "PAYMENTS", "BYTES", "FROM", "UNTIL", "STATE")
	var payments, bytes, packs int64
	for p := range s.Partitions() {
		lines, done, err := from.Manifest(ctx, p)
		if err != nil {
			return awayError(err)
		}
		if len(lines) == 0 {
			continue
		}
		var rows, size int64
		first, until := lines[0].From, lines[0].Until
		for _, l := range lines {
			rows, size = rows+l.Payments.Rows, size+l.Size()
			first, until = min(first, l.From), max(until, l.Until)
			if asJSON {
				if err := printLine(a, packJSON{"pack", p, l.Number, l.Payments.SHA256, l.Payments.Rows, l.Size(), l.From, l.Until, l.SealedAt, l.Number <= done}); err != nil {
					return err
				}
			}
		}
		state := "complete"
		if last := lines[len(lines)-1].Number; done < last {
			state = fmt.Sprintf("pack %d is still in Redis, too", last)
		}
		t.Row(fmt.Sprint(p), fmt.Sprint(len(lines)), fmt.Sprint(rows), fmt.Sprint(size), first.String(), until.String(), state)
		payments, bytes, packs = payments+rows, bytes+size, packs+int64(len(lines))
	}
	events, err := logStatus(ctx, a, s, from, asJSON)
	switch {
	case err != nil || asJSON:
		return err
	case packs == 0 && events == "":
		_, err := fmt.Fprintln(a.Stdout, "Nothing has been moved to the archive yet.")
		return err
	case packs == 0:
		_, err := fmt.Fprint(a.Stdout, events)
		return err
	}
	if err := a.Print(&t); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "\n%d payments in %d packs, %d bytes (%d a payment)\n%s", payments, packs, bytes, bytes/max(payments, 1), events)
	return err
}
