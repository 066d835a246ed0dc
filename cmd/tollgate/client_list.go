package main

import (
	"context"
	"fmt"
	"net/url"
	"tollgate"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// listCommand makes a command that prints a page of a list; row adds one entry
// to the table and returns its id.
func listCommand[T any](a *app, c *cobra.Command, path string, flags queryFlags, heads []string, right []int, row func(*table, *T) string) *cobra.Command {
	c.Args = cobra.NoArgs
	a.clientCommand(c, func(ctx context.Context, api *client, _ []string) error {
		body, err := api.get(ctx, path, flags.values(c))
		if err != nil {
			return err
		}
		t := &table{right: right}
		t.row(heads...)
		return showPage(api, body, t, func(x *T) string { return row(t, x) })
	})
	flags.bind(c)
	c.Flags().Lookup("quiet").Usage = "print only the ids"
	return c
}

// showPage prints a page of a list; row adds one entry to the table and returns
// its id. What cannot be read is a row that says so.
func showPage[T any](c *client, body jsontext.Value, t *table, row func(*T) (id string)) error {
	if c.json {
		return c.a.printJSON(body)
	}
	var page tollgate.List[tollgate.Listed[T]]
	if err := parse(body, &page); err != nil {
		return err
	}
	ids := &table{}
	for i := range page.Data {
		if d := page.Data[i].Damage; d != nil {
			t.damaged(d)
			ids.row(d.ID)
			continue
		}
		ids.row(row(&page.Data[i].Value))
	}
	if c.quiet {
		t = ids
	}
	if err := c.a.print(t); err != nil {
		return err
	}
	return c.a.hintNext(page.HasMore, page.NextCursor)
}

// showAll prints all pages of a list as one.
func showAll[T any](ctx context.Context, c *client, path string, query url.Values, t *table, row func(*T) (id string)) error {
	all := tollgate.List[raw]{Object: "list"}
	for {
		query.Set("limit", "100")
		body, err := c.get(ctx, path, query)
		if err != nil {
			return err
		}
		var page tollgate.List[raw]
		if err := parse(body, &page); err != nil {
			return err
		}
		all.Data = append(all.Data, page.Data...)
		if page.NextCursor == nil {
			break
		}
		query = url.Values{"cursor": {*page.NextCursor}}
	}
	body, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return showPage(c, body, t, row)
}

// hintNext says on standard error how to read on.
func (a *app) hintNext(more bool, cursor *string) error {
	if !more || cursor == nil {
		return nil
	}
	_, err := fmt.Fprintf(a.stderr, "There is more: --cursor %s\n", *cursor)
	return err
}

// accounts reads accounts: those named, or all that the client may see.
func (c *client) accounts(ctx context.Context, named []string) (all []tollgate.AccountAnswer, err error) {
	for _, id := range named {
		body, err := c.get(ctx, "/v1/merchant-accounts/"+url.PathEscape(id), nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		var one tollgate.AccountAnswer
		if err := parse(body, &one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if len(named) > 0 {
		return all, nil
	}
	query := url.Values{"limit": {"100"}}
	for {
		body, err := c.get(ctx, "/v1/merchant-accounts", query)
		if err != nil {
			return nil, err
		}
		var page tollgate.List[tollgate.AccountAnswer]
		if err := parse(body, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Data...)
		if page.NextCursor == nil {
			return all, nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}
