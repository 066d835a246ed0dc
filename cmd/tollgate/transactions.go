package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate"
)

// queryFlags are flags that become query parameters of the same meaning.
type queryFlags []struct{ flag, parameter, usage string }

func (q queryFlags) bind(c *cobra.Command) {
	for _, f := range q {
		c.Flags().String(f.flag, "", f.usage)
	}
}

func (q queryFlags) values(c *cobra.Command) url.Values {
	v := url.Values{}
	for _, f := range q {
		if c.Flags().Changed(f.flag) {
			text, _ := c.Flags().GetString(f.flag)
			v.Set(f.parameter, text)
		}
	}
	return v
}

var transactionFlags = queryFlags{
	{"status", "status", "statuses separated by commas, such as pending or authorized"},
	{"type", "type", "authorization, capture, fee, release or payout"},
	{"account", "merchant_account_id", "merchant account"},
	{"payment", "payment_id", "payment"},
	{"payout", "payout_id", "payout"},
	{"payee", "payee", "payee"},
	{"currency", "currency", "currency"},
	{"reference", "reference", "reference"},
	{"created-after", "created_after", "RFC 3339 time"},
	{"created-before", "created_before", "RFC 3339 time"},
	{"order", "order", "asc or desc"},
	{"limit", "limit", "1 to 100"},
	{"cursor", "cursor", "where the page before ended"},
}

func (a *app) transactionsCommand() *cobra.Command {
	return listCommand(a, &cobra.Command{
		Use:   "transactions",
		Short: "Search transactions",
		Example: `  tollgate transactions
  tollgate transactions --status pending,available --type capture
  tollgate transactions --type payout
  tollgate transactions --payment $PAYMENT --json`,
	}, "/v1/transactions", transactionFlags, []string{"CREATED", "TYPE", "STATUS", "AMOUNT", "", "PAID ON", "PAYMENT OR PAYOUT", "PAYEE", "TRANSACTION"}, []int{3},
		func(t *table, x *tollgate.Transaction) string {
			of := x.PaymentID
			if of == nil {
				of = x.PayoutID
			}
			t.row(x.CreatedAt.String(), string(x.Type), x.Status, x.Amount.String(), string(x.Currency), deref(x.AvailableOn), deref(of), deref(x.Payee), x.ID)
			return x.ID
		})
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

func deref(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// raw keeps the JSON of list entries as it came.
type raw = jsontext.Value
