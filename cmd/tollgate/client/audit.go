package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/client/proof"
)

var auditFlags = cli.QueryFlags{
	{"type", "type", "types separated by commas, such as payment.capture or payment.*"},
	{"actor", "actor", "client that did it"},
	{"target", "target", "object that it is about"},
	{"outcome", "outcome", "succeeded, refused or denied"},
	{"created-after", "created_after", "RFC 3339 time"},
	{"created-before", "created_before", "RFC 3339 time"},
}

func auditCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "Read who did what, and verify that nobody changed that",
		Long: `Read the organization's audit record: each change, each read of what is
confidential, and each refusal of a known client. It takes the scope audit:read
and a grant of all accounts. 'tollgate work' seals each entry within a minute;
'verify' finds out whether one was changed or removed since.`,
		Example: `  tollgate audit search --target $PAYMENT
  tollgate audit search --outcome denied --created-after 2026-11-21T00:00:00Z
  tollgate audit tail --follow
  tollgate audit verify`,
	}
	c.AddCommand(auditSearchCommand(a), auditTailCommand(a))
	c.AddCommand(proof.Commands(a)...)
	return c
}

func auditSearchCommand(a *cli.App) *cobra.Command {
	flags := slices.Concat(auditFlags, cli.PageFlags)
	c := &cobra.Command{
		Use:   "search",
		Short: "Search the audit record, the newest entry first",
		Example: `  tollgate audit search --target $PAYMENT
  tollgate audit search --type 'payment.*,access.denied' --outcome denied`,
		Args: cobra.NoArgs,
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, _ []string) error {
		body, _, _, err := auditPage(ctx, api, flags.Values(c))
		if err != nil {
			return err
		}
		t := auditTable()
		return cli.ShowPage(api, body, t, func(e *tollgate.AuditEntry) string {
			auditRow(t, e)
			return e.ID
		})
	})
	flags.Bind(c)
	c.Flags().Lookup("quiet").Usage = "print only the ids"
	return c
}

// auditLine is an entry as it came, and read.
type auditLine struct {
	text jsontext.Value
	tollgate.Listed[tollgate.AuditEntry]
}

// UnmarshalJSONFrom keeps the text.
func (l *auditLine) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	text, err := d.ReadValue()
	if err != nil {
		return err
	}
	l.text = text.Clone()
	return json.Unmarshal(l.text, &l.Listed)
}

// auditPage gets a page that has something, or the last one: the server looks at so
// many entries for one answer, and with a filter none of these may match.
func auditPage(ctx context.Context, c *cli.Client, query url.Values) (body cli.Raw, lines []auditLine, next *string, err error) {
	for {
		body, page, err := cli.Read[tollgate.List[auditLine]](c.Get(ctx, "/v1/audit", query))
		if err != nil || len(page.Data) > 0 || page.NextCursor == nil {
			return body, page.Data, page.NextCursor, err
		}
		query.Set("cursor", *page.NextCursor)
	}
}

func auditTable() *cli.Table {
	t := &cli.Table{Right: []int{0}}
	t.Row("NUMBER", "TIME", "TYPE", "OUTCOME", "REASON", "TARGET", "BY", "ENTRY")
	return t
}

func auditRow(t *cli.Table, e *tollgate.AuditEntry) {
	t.Row(strconv.FormatInt(e.Seq, 10), e.Time.String(), e.Type, e.Outcome, cmp.Or(e.Reason, "-"), e.Target.ID, cmp.Or(e.Actor.ClientID, "Tollgate"), e.ID)
}

func auditTailCommand(a *cli.App) *cobra.Command {
	follow, lines := false, 20
	c := &cobra.Command{
		Use:   "tail",
		Short: "Print the newest entries of the audit record, or follow it",
		Long: `Print the newest entries of the audit record, the newest last. With --follow go on
with each one as it is written, one line each (NDJSON with --json), until Ctrl-C.
It goes on where it was when the server is away for a while.`,
		Example: `  tollgate audit tail
  tollgate audit tail --follow --outcome denied
  tollgate audit tail --follow --json | jq .target`,
		Args: cobra.NoArgs,
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, _ []string) error {
		if lines < 0 || lines > 100 {
			return cli.UsageError(errors.New("--lines is 0 to 100"))
		}
		t := auditTail{api: api, filter: auditFlags.Values(c)}
		if err := t.begin(ctx, lines); err != nil || !follow {
			return err
		}
		return api.Follow(ctx, time.Second, t.more)
	})
	auditFlags.Bind(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with each entry as it is written")
	c.Flags().IntVarP(&lines, "lines", "n", lines, "how many of those that are there, 0 to 100")
	c.Flags().Lookup("quiet").Usage = "print only the ids"
	return c
}

// auditTail prints entries in the order in which they were written. Their numbers say
// which ones it has printed.
type auditTail struct {
	api    *cli.Client
	filter url.Values
	seen   int64            // the newest number
	at     tollgate.Instant // of that entry
	told   string           // the newest damaged one that was printed
}

// newest is the record's last entry; nil for an empty record.
func (t *auditTail) newest(ctx context.Context) (*tollgate.AuditEntry, error) {
	_, found, _, err := auditPage(ctx, t.api, url.Values{"limit": {"1"}})
	if err != nil || len(found) == 0 || found[0].Damage != nil {
		return nil, err
	}
	return &found[0].Value, nil
}

// begin prints what is there.
func (t *auditTail) begin(ctx context.Context, lines int) error {
	last, err := t.newest(ctx)
	if err != nil {
		return err
	}
	if last != nil {
		t.seen, t.at = last.Seq, last.Time
	}
	if lines == 0 {
		return nil
	}
	query := maps.Clone(t.filter)
	query.Set("limit", strconv.Itoa(lines))
	_, found, _, err := auditPage(ctx, t.api, query)
	if err != nil {
		return err
	}
	return t.print(found)
}

// more prints what has been written since.
func (t *auditTail) more(ctx context.Context) error {
	last, err := t.newest(ctx)
	if err != nil || last != nil && last.Seq <= t.seen {
		return err
	}
	query := maps.Clone(t.filter)
	query.Set("limit", "100")
	if t.at != 0 && !query.Has("created_after") { // the clock of another instance may be a little behind
		query.Set("created_after", (t.at - tollgate.Instant(time.Minute.Milliseconds())).String())
	}
	var found []auditLine
	for {
		_, page, next, err := auditPage(ctx, t.api, query)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(page, func(l auditLine) bool {
			return l.Damage == nil && l.Value.Seq <= t.seen || l.Damage != nil && l.Damage.ID == t.told
		})
		if i >= 0 {
			found = append(found, page[:i]...)
			break
		}
		found = append(found, page...)
		if next == nil {
			break
		}
		query.Set("cursor", *next)
	}
	if last != nil {
		t.seen, t.at = max(last.Seq, t.seen), last.Time
	}
	return t.print(found)
}

// print prints entries, the newest last.
func (t *auditTail) print(lines []auditLine) error {
	for _, l := range slices.Backward(lines) {
		if l.Damage != nil {
			t.told = l.Damage.ID
		} else {
			t.seen = max(t.seen, l.Value.Seq)
		}
		if err := t.line(l); err != nil {
			return err
		}
	}
	return nil
}

func (t *auditTail) line(l auditLine) error {
	out, e := t.api.App.Stdout, &l.Value
	if l.Damage != nil {
		e.ID, e.Type = l.Damage.ID, "damaged"
	}
	var err error
	switch outcome := e.Outcome; {
	case t.api.JSON:
		_, err = fmt.Fprintf(out, "%s\n", l.text)
	case t.api.Quiet:
		_, err = fmt.Fprintln(out, e.ID)
	default:
		if e.Reason != "" {
			outcome += " (" + e.Reason + ")"
		}
		_, err = fmt.Fprintf(out, "%5d  %s  %-26s  %-24s  %s  by %s\n", e.Seq, e.Time, e.Type, outcome, cmp.Or(e.Target.ID, "-"), cmp.Or(e.Actor.ClientID, "Tollgate"))
	}
	return err
}
