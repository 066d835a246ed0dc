package main

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
)

// exportOptions are the flags of export.
type exportOptions struct {
	id, format, file, key string
	filters               []string
	noWait                bool
}

func (a *app) exportCommand() *cobra.Command {
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
	a.clientCommand(c, func(ctx context.Context, api *client, args []string) error {
		filters, err := o.check(args, c)
		if err != nil {
			return usageError(err)
		}
		return api.export(ctx, o, args, filters)
	})
	c.Flags().StringVar(&o.id, "id", "", "fetch the file of this export instead of making a new one")
	c.Flags().StringVar(&o.format, "format", tollgate.FormatCSV, "csv or ndjson")
	c.Flags().StringArrayVar(&o.filters, "filter", nil, "NAME=VALUE, such as status=captured; may stand several times")
	c.Flags().StringVarP(&o.file, "output", "o", "", "file to write, replaced when it is there; - is standard output")
	c.Flags().BoolVar(&o.noWait, "no-wait", false, "print the job's id and do not wait for its file")
	keyFlag(c, &o.key)
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

// complete says why an export that has ended has no file.
func complete(e *tollgate.Export) error {
	switch {
	case e.Error != nil:
		return fmt.Errorf("the export failed: %s (%s)", printable(e.Error.Message), printable(string(e.Error.Code)))
	case e.Result == nil:
		return fmt.Errorf("the export is %s and has no file", printable(string(e.Status)))
	}
	return nil
}

func exportPath(id string) string { return "/v1/exports/" + url.PathEscape(id) }

func (c *client) export(ctx context.Context, o exportOptions, args []string, filters map[string]string) error {
	var body jsontext.Value
	var err error
	if o.id != "" {
		body, err = c.get(ctx, exportPath(o.id), nil)
	} else {
		body, err = c.createExport(ctx, map[string]any{"dataset": args[0], "format": o.format, "filters": filters}, c.a.idempotencyKey(o.key))
	}
	if err != nil {
		return err
	}
	var e tollgate.Export
	if err := parse(body, &e); err != nil {
		return err
	}
	if o.noWait {
		t := &table{}
		t.row("export", e.ID)
		t.row("status", string(e.Status))
		return c.show(body, e.ID, t)
	}
	if body, err = c.awaitExport(ctx, body, &e, o.id == ""); err != nil {
		return err
	}
	if err := complete(&e); err != nil {
		return err
	}
	if o.file == "" {
		if !tollgate.ValidID(e.ID) || !tollgate.ValidID(string(e.Dataset)) || !tollgate.ValidID(e.Format) { // it becomes a file's name
			return unavailableError(errors.New("the server's answer is no export"))
		}
		o.file = string(e.Dataset) + "-" + e.ID + "." + e.Format
	}
	if err := c.fetchExport(ctx, &e, o.file); err != nil {
		return err
	}
	t := &table{}
	t.row("export", e.ID)
	t.row("rows", fmt.Sprint(e.Result.Rows))
	t.row("bytes", fmt.Sprint(e.Result.Bytes))
	t.row("sha256", e.Result.SHA256)
	t.row("kept until", e.Result.ExpiresAt.String())
	if o.file == "-" { // standard output is the file's
		_, err := fmt.Fprint(c.a.stderr, t)
		return err
	}
	t.row("file", o.file)
	return c.show(body, e.ID, t)
}

// createExport asks for a new export. Interrupted before the answer has come,
// it cancels what may have been made: nobody else knows its id.
func (c *client) createExport(ctx context.Context, request map[string]any, key string) (jsontext.Value, error) {
	const path = "/v1/exports/preview"
	body, err := c.post(ctx, path, request, key)
	var refused *refusal
	if err == nil || ctx.Err() == nil || errors.As(err, &refused) && !refused.retriable() {
		return body, err
	}
	var e tollgate.Export
	again, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	body, failed := c.post(again, path, request, key) // the same one, by its key
	if failed == nil && parse(body, &e) == nil {
		return nil, unavailableError(fmt.Errorf("interrupted; the job is %s", c.cancelExport(e.ID)))
	}
	return nil, unavailableError(fmt.Errorf("interrupted; if a job was made, --idempotency-key %s leads to it", key))
}

// awaitExport asks for an export until it has ended. Interrupted, it cancels
// one that is its own.
func (c *client) awaitExport(ctx context.Context, body jsontext.Value, e *tollgate.Export, own bool) (jsontext.Value, error) {
	p := newProgress(c.a.stderr, "rows")
	defer p.end()
	pause := 50 * time.Millisecond
	for !e.Status.Ended() {
		select {
		case <-ctx.Done():
			p.end()
			if !own {
				return nil, unavailableError(errors.New("not waiting any longer; the job goes on"))
			}
			return nil, unavailableError(fmt.Errorf("interrupted; the job is %s", c.cancelExport(e.ID)))
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
		answer, err := c.get(ctx, exportPath(e.ID), nil)
		var refused *refusal
		if err != nil && (ctx.Err() != nil || !errors.As(err, &refused) || refused.retriable()) {
			if ctx.Err() == nil {
				p.say("no answer; asking again")
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		body = answer
		if err := parse(body, e); err != nil {
			return nil, err
		}
		total := int64(0)
		if e.Progress.RowsTotal != nil {
			total = *e.Progress.RowsTotal
		}
		p.show(e.Progress.RowsDone, total)
	}
	return body, nil
}

// cancelExport cancels with a time of its own and says what has become of the
// export.
func (c *client) cancelExport(id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := c.write(ctx, http.MethodDelete, exportPath(id), nil, ""); err != nil {
		return "not canceled: " + err.Error() + "; fetch its file with --id " + id
	}
	return "canceled"
}
