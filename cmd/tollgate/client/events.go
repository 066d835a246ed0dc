package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

var eventFlags = cli.QueryFlags{
	{"types", "types", "types separated by commas, such as payment.captured or payment.*"},
	{"account", "merchant_account_id", "merchant account"},
	{"object", "object_id", "payment or ticket that the event is about"},
	{"order", "order", "asc or desc"},
	{"limit", "limit", "1 to 100"},
	{"cursor", "cursor", "where the page before ended"},
	{"after", "after", "latest: only what happens from now on"},
}

func eventsCommand(a *cli.App) *cobra.Command {
	follow := false
	c := &cobra.Command{
		Use:   "events",
		Short: "List events, or follow them",
		Long: `List events, or with --follow print what is there and then each one as it
happens, one line each (NDJSON with --json), until Ctrl-C. It goes on where it
was when the server is away for a while.`,
		Example: `  tollgate events
  tollgate events --types 'payment.*' --follow
  tollgate events --follow --after latest
  tollgate events --follow --json | jq .data`,
		Args: cobra.NoArgs,
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, _ []string) error {
		query := eventFlags.Values(c)
		if follow {
			if query.Get("order") == "desc" {
				return cli.UsageError(errors.New("--follow goes forwards: --order desc cannot be followed"))
			}
			return FollowEvents(ctx, api, query, func(e jsontext.Value) error { return PrintEvent(api, e) })
		}
		body, page, err := eventPage(ctx, api, query)
		if err != nil {
			return err
		}
		if api.JSON {
			return api.Show(body, "", nil)
		}
		for _, e := range page.Data {
			if err := PrintEvent(api, e); err != nil {
				return err
			}
		}
		return a.HintNext(page.HasMore, page.NextCursor)
	})
	eventFlags.Bind(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with each event as it happens")
	c.Flags().Lookup("quiet").Usage = "print only the ids"
	return c
}

// eventPage gets a page that has something, or the last one: the server looks
// at so many events for one answer, and with a filter none of these may match.
func eventPage(ctx context.Context, c *cli.Client, query url.Values) (body cli.Raw, page tollgate.List[cli.Raw], err error) {
	for {
		if body, err = c.Get(ctx, "/v1/events", query); err != nil {
			return nil, page, err
		}
		page = tollgate.List[cli.Raw]{}
		if err := cli.Parse(body, &page); err != nil {
			return nil, page, err
		}
		if len(page.Data) > 0 || !page.HasMore || page.NextCursor == nil {
			return body, page, nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}

// EventWait is how long the server holds a listing that has nothing new.
const EventWait = 20 * time.Second

// FollowEvents hands over events from where query begins until ctx ends, which
// is no error; query's cursor is then behind the last page of which each has
// taken all, so that whoever goes on there misses nothing.
func FollowEvents(ctx context.Context, c *cli.Client, query url.Values, each func(jsontext.Value) error) error {
	if query.Has("after") {
		if err := StartAtEnd(ctx, c, query); err != nil {
			return err
		}
	}
	c.HTTP.Timeout = max(c.HTTP.Timeout, EventWait+10*time.Second)
	query.Set("wait", fmt.Sprint(int(EventWait.Seconds())))
	return c.Follow(ctx, 0, func(ctx context.Context) error {
		body, err := c.Get(ctx, "/v1/events", query)
		if err != nil {
			return err
		}
		var page tollgate.List[cli.Raw]
		if err := cli.Parse(body, &page); err != nil {
			return cli.Final(err)
		}
		for _, e := range page.Data {
			if err := each(e); err != nil {
				return cli.Final(err)
			}
		}
		if page.NextCursor != nil {
			query.Set("cursor", *page.NextCursor)
		}
		return nil
	})
}

// StartAtEnd turns query's after into a cursor. Only a request that does not
// wait has its answer at once: were one that waits broken off, the next would
// begin later than this one.
func StartAtEnd(ctx context.Context, c *cli.Client, query url.Values) error {
	_, page, err := cli.Read[tollgate.List[cli.Raw]](c.Get(ctx, "/v1/events", query))
	if err != nil {
		return err
	}
	if page.NextCursor == nil {
		return errors.New("the answer has no next_cursor")
	}
	query.Del("after")
	query.Set("cursor", *page.NextCursor)
	return nil
}

// PrintEvent prints one event on one line.
func PrintEvent(c *cli.Client, text jsontext.Value) error {
	if c.JSON {
		if err := text.Compact(); err != nil {
			return err
		}
		_, err := fmt.Fprintf(c.App.Stdout, "%s\n", text)
		return err
	}
	var entry tollgate.Listed[tollgate.Event]
	if err := cli.Parse(text, &entry); err != nil {
		return err
	}
	if d := entry.Damage; d != nil {
		entry.Value = tollgate.Event{ID: d.ID, Type: "damaged"}
	}
	e := &entry.Value
	if c.Quiet {
		_, err := fmt.Fprintln(c.App.Stdout, e.ID)
		return err
	}
	data, _ := e.Read() // of what cannot be read nothing is shown
	about := ""
	switch d := data.(type) {
	case *tollgate.PayoutEventData:
		about = fmt.Sprintf("  %s  %s  %s", d.PayoutID, cli.PriceText(d.Amount), d.Status)
	case *tollgate.PaymentEventData:
		about = fmt.Sprintf("  %s  %s  %s  %s", d.PaymentID, cli.PriceText(d.Amount), cli.PayeeText(d.Payee), d.Status)
	}
	_, err := fmt.Fprintln(c.App.Stdout, cli.Printable(fmt.Sprintf("%5d  %s  %-24s  %s%s", e.Sequence, cli.Moment(e.CreatedAt), e.Type, e.ID, about)))
	return err
}
