package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

// exportOptions are the flags of export.
type exportOptions struct {
	id, format, file, key string
	filters               []string
	noWait                bool
}

func exportCommand(a *cli.App) *cobra.Command {
	var o exportOptions
	c := &cobra.Command{
		Use:   "export [DATASET]",
		Short: "Export transactions, payments, tickets, events, payouts or the audit record to a file",
		Long: `Export everything of a dataset that is committed now: transactions, payments,
tickets, events, payouts or audit. The service makes the file as a job; the
command waits for it, says on standard error how far it is, downloads the file,
going on where it stopped when the connection breaks, and verifies its size and
checksum before it puts it in place. Without --output the file has the name that
the service gives it; - is standard output. A file that is replaced keeps its
mode, a link is followed, and a pipe or a device is written to as it comes.

Interrupted while it waits, the command cancels the job. With --no-wait it
prints the job's id instead of waiting; --id fetches the file later, for seven
days.`,
		Example: `  tollgate export transactions --filter status=captured,pending -o captured.csv
  tollgate export payments --format ndjson --filter created_after=2026-11-01T00:00:00Z -o - | jq .amount
  tollgate export events --no-wait
  tollgate export --id $EXPORT -o events.csv`,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: tollgate.Datasets,
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		filters, err := o.check(args, c)
		if err != nil {
			return cli.UsageError(err)
		}
		return export(ctx, api, o, args, filters)
	})
	c.Flags().StringVar(&o.id, "id", "", "fetch the file of this export instead of making a new one")
	c.Flags().StringVar(&o.format, "format", tollgate.FormatCSV, "csv or ndjson")
	c.Flags().StringArrayVar(&o.filters, "filter", nil, "NAME=VALUE, such as status=captured; may stand several times")
	c.Flags().StringVarP(&o.file, "output", "o", "", "file to write, replaced when it is there; - is standard output")
	c.Flags().BoolVar(&o.noWait, "no-wait", false, "print the job's id and do not wait for its file")
	cli.KeyFlag(c, &o.key)
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{tollgate.FormatCSV, tollgate.FormatNDJSON}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// check refuses what does not go together and takes the filters apart.
func (o *exportOptions) check(args []string, c *cobra.Command) (map[string]string, error) {
	switch {
	case (o.id == "") == (len(args) == 0):
		return nil, errors.New("name a dataset to export, or with --id an export to fetch")
	case o.id != "" && !tollgate.ValidID(o.id):
		return nil, fmt.Errorf("--id: %q is not the id of an export", o.id)
	case o.id != "" && (c.Flags().Changed("format") || len(o.filters) > 0 || o.noWait):
		return nil, errors.New("--format, --filter and --no-wait are for a new export, not for --id")
	case o.noWait && o.file != "":
		return nil, errors.New("--no-wait writes no file; fetch it later with --id")
	case o.file == "":
	default:
		if info, err := os.Stat(o.file); err == nil && info.IsDir() {
			return nil, fmt.Errorf("--output: %s is a directory", o.file)
		}
		if _, err := os.Stat(filepath.Dir(o.file)); err != nil { // before a job is made for it
			return nil, fmt.Errorf("--output: %w", err)
		}
	}
	filters := make(map[string]string)
	for _, f := range o.filters {
		name, value, ok := strings.Cut(f, "=")
		if _, twice := filters[name]; !ok || name == "" || twice {
			return nil, fmt.Errorf("--filter: %q is not NAME=VALUE with a name of its own", f)
		}
		filters[name] = value
	}
	return filters, nil
}

// Complete says why an export that has ended has no file.
func Complete(e *tollgate.Export) error {
	switch {
	case e.Error != nil:
		return fmt.Errorf("the export failed: %s (%s)", cli.Printable(e.Error.Message), cli.Printable(string(e.Error.Code)))
	case e.Result == nil:
		return fmt.Errorf("the export is %s and has no file", cli.Printable(string(e.Status)))
	}
	return nil
}

func exportPath(id string) string { return "/v1/exports/" + url.PathEscape(id) }

func export(ctx context.Context, c *cli.Client, o exportOptions, args []string, filters map[string]string) error {
	var body jsontext.Value
	var err error
	if o.id != "" {
		body, err = c.Get(ctx, exportPath(o.id), nil)
	} else {
		body, err = createExport(ctx, c, map[string]any{"dataset": args[0], "format": o.format, "filters": filters}, c.App.IdempotencyKey(o.key))
	}
	if err != nil {
		return err
	}
	var e tollgate.Export
	if err := cli.Parse(body, &e); err != nil {
		return err
	}
	if o.noWait {
		t := &cli.Table{}
		t.Row("export", e.ID)
		t.Row("status", string(e.Status))
		return c.Show(body, e.ID, t)
	}
	if body, err = AwaitExport(ctx, c, body, &e, o.id == ""); err != nil {
		return err
	}
	if err := Complete(&e); err != nil {
		return err
	}
	if o.file == "" {
		if !tollgate.ValidID(e.ID) || !tollgate.ValidID(string(e.Dataset)) || !tollgate.ValidID(e.Format) { // it becomes a file's name
			return cli.UnavailableError(errors.New("the server's answer is no export"))
		}
		o.file = string(e.Dataset) + "-" + e.ID + "." + e.Format
	}
	if err := FetchExport(ctx, c, &e, o.file); err != nil {
		return err
	}
	t := &cli.Table{}
	t.Row("export", e.ID)
	t.Row("rows", fmt.Sprint(e.Result.Rows))
	t.Row("bytes", fmt.Sprint(e.Result.Bytes))
	t.Row("sha256", e.Result.SHA256)
	t.Row("kept until", e.Result.ExpiresAt.String())
	if o.file == "-" { // standard output is the file's
		_, err := fmt.Fprint(c.App.Stderr, t)
		return err
	}
	t.Row("file", o.file)
	return c.Show(body, e.ID, t)
}

// createExport asks for a new export. Interrupted before the answer has come,
// it cancels what may have been made: nobody else knows its id.
func createExport(ctx context.Context, c *cli.Client, request map[string]any, key string) (jsontext.Value, error) {
	const path = "/v1/exports/preview"
	body, err := c.Post(ctx, path, request, key)
	var refused *cli.Refusal
	if err == nil || ctx.Err() == nil || errors.As(err, &refused) && !refused.Retriable() {
		return body, err
	}
	var e tollgate.Export
	again, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	body, failed := c.Post(again, path, request, key) // the same one, by its key
	if failed == nil && cli.Parse(body, &e) == nil {
		return nil, cli.UnavailableError(fmt.Errorf("interrupted; the job is %s", cancelExport(c, e.ID)))
	}
	return nil, cli.UnavailableError(fmt.Errorf("interrupted; if a job was made, --idempotency-key %s leads to it", key))
}

// AwaitExport asks for an export until it has ended. Interrupted, it cancels
// one that is its own.
func AwaitExport(ctx context.Context, c *cli.Client, body jsontext.Value, e *tollgate.Export, own bool) (jsontext.Value, error) {
	p := cli.NewProgress(c.App.Stderr, "rows")
	defer p.End()
	pause := 50 * time.Millisecond
	for !e.Status.Ended() {
		select {
		case <-ctx.Done():
			p.End()
			if !own {
				return nil, cli.UnavailableError(errors.New("not waiting any longer; the job goes on"))
			}
			return nil, cli.UnavailableError(fmt.Errorf("interrupted; the job is %s", cancelExport(c, e.ID)))
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
		answer, err := c.Get(ctx, exportPath(e.ID), nil)
		var refused *cli.Refusal
		if err != nil && (ctx.Err() != nil || !errors.As(err, &refused) || refused.Retriable()) {
			if ctx.Err() == nil {
				p.Say("no answer; asking again")
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		body = answer
		if err := cli.Parse(body, e); err != nil {
			return nil, err
		}
		total := int64(0)
		if e.Progress.RowsTotal != nil {
			total = *e.Progress.RowsTotal
		}
		p.Show(e.Progress.RowsDone, total)
	}
	return body, nil
}

// cancelExport cancels with a time of its own and says what has become of the
// export.
func cancelExport(c *cli.Client, id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := c.Write(ctx, http.MethodDelete, exportPath(id), nil, ""); err != nil {
		return "not canceled: " + err.Error() + "; fetch its file with --id " + id
	}
	return "canceled"
}
