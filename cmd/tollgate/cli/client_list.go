package cli

import (
	"context"
	"fmt"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate"
)

// ListCommand makes a command that prints a page of a list; row adds one entry
// to the table and returns its id.
func ListCommand[T any](a *App, c *cobra.Command, path string, flags QueryFlags, heads []string, right []int, row func(*Table, *T) string) *cobra.Command {
	c.Args = cobra.NoArgs
	a.ClientCommand(c, func(ctx context.Context, api *Client, _ []string) error {
		body, err := api.Get(ctx, path, flags.Values(c))
		if err != nil {
			return err
		}
		t := &Table{Right: right}
		t.Row(heads...)
		return ShowPage(api, body, t, func(x *T) string { return row(t, x) })
	})
	flags.Bind(c)
	c.Flags().Lookup("quiet").Usage = "print only the ids"
	return c
}

// ShowPage prints a page of a list; row adds one entry to the table and returns
// its id. What cannot be read is a row that says so.
func ShowPage[T any](c *Client, body jsontext.Value, t *Table, row func(*T) (id string)) error {
	if c.JSON {
		return c.App.PrintJSON(body)
	}
	var page tollgate.List[tollgate.Listed[T]]
	if err := Parse(body, &page); err != nil {
		return err
	}
	ids := &Table{}
	for i := range page.Data {
		if d := page.Data[i].Damage; d != nil {
			t.Damaged(d)
			ids.Row(d.ID)
			continue
		}
		ids.Row(row(&page.Data[i].Value))
	}
	if c.Quiet {
		t = ids
	}
	if err := c.App.Print(t); err != nil {
		return err
	}
	return c.App.HintNext(page.HasMore, page.NextCursor)
}

// ShowAll prints all pages of a list as one.
func ShowAll[T any](ctx context.Context, c *Client, path string, query url.Values, t *Table, row func(*T) (id string)) error {
	all := tollgate.List[Raw]{Object: "list"}
	for {
		query.Set("limit", "100")
		_, page, err := Read[tollgate.List[Raw]](c.Get(ctx, path, query))
		if err != nil {
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
	return ShowPage(c, body, t, row)
}

// HintNext says on standard error how to read on.
func (a *App) HintNext(more bool, cursor *string) error {
	if !more || cursor == nil {
		return nil
	}
	_, err := fmt.Fprintf(a.Stderr, "There is more: --cursor %s\n", *cursor)
	return err
}

// Accounts reads accounts: those named, or all that the client may see.
func (c *Client) Accounts(ctx context.Context, named []string) (all []AccountAnswer, err error) {
	for _, id := range named {
		body, err := c.Get(ctx, "/v1/merchant-accounts/"+url.PathEscape(id), nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		var one AccountAnswer
		if err := Parse(body, &one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if len(named) > 0 {
		return all, nil
	}
	query := url.Values{"limit": {"100"}}
	for {
		_, page, err := Read[tollgate.List[AccountAnswer]](c.Get(ctx, "/v1/merchant-accounts", query))
		if err != nil {
			return nil, err
		}
		all = append(all, page.Data...)
		if page.NextCursor == nil {
			return all, nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}

// AccountAnswer is a merchant account as the service answers it.
type AccountAnswer struct {
	tollgate.MerchantAccount
	SilentRules []tollgate.SilentRule `json:"silent_rules"` // of those in force
}
