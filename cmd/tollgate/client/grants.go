package client

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

func grantTable(g *tollgate.Grant) *cli.Table {
	t := &cli.Table{}
	t.Row("grant", g.ID)
	t.Row("client", g.ClientID)
	t.Row("status", g.Status)
	t.Row("scopes", strings.Join(g.Scopes, " "))
	t.Row("accounts", cli.Joined(g.MerchantAccountIDs, "all of the organization"))
	if g.DefaultMerchantAccountID != nil {
		t.Row("default", *g.DefaultMerchantAccountID)
	}
	for name, at := range map[string]tollgate.Instant{"ends": g.ExpiresAt, "revoked": g.RevokedAt} {
		if at != 0 {
			t.Row(name, at.String())
		}
	}
	return t
}

// showGrant prints the answer of an endpoint that answers with a grant.
func showGrant(c *cli.Client) func(cli.Raw, error) error {
	return cli.Answered(c, func(g *tollgate.Grant) (string, *cli.Table) { return g.ID, grantTable(g) })
}

var grantFlags = append(cli.QueryFlags{
	{"client", "client_id", "only those of this client"},
	{"status", "status", "active, revoked or expired"},
}, cli.PageFlags...)

func grantCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "grant",
		Short: "Give clients grants, list and revoke them",
		Long: `Give clients grants, list and revoke them. A grant says what a client may do, and
for which merchant accounts. Nobody gives more than their own grant has.`,
		Example: `  tollgate grant create $CLIENT --scope quotes:read,payments:write --account $ACCOUNT
  tollgate grant list --client $CLIENT
  tollgate grant revoke $GRANT`,
	}
	c.AddCommand(grantListCommand(a), grantShowCommand(a), grantCreateCommand(a), grantRevokeCommand(a))
	return c
}

func grantListCommand(a *cli.App) *cobra.Command {
	return cli.ListCommand(a, &cobra.Command{
		Use:     "list",
		Short:   "List grants",
		Example: "  tollgate grant list\n  tollgate grant list --client $CLIENT --status active",
	}, "/v1/grants", grantFlags, []string{"GRANT", "STATUS", "CLIENT", "ACCOUNTS", "SCOPES"}, nil,
		func(t *cli.Table, g *tollgate.Grant) string {
			t.Row(g.ID, g.Status, g.ClientID, cmp.Or(abridged(g.MerchantAccountIDs), "all"), abridged(g.Scopes))
			return g.ID
		})
}

func grantShowCommand(a *cli.App) *cobra.Command {
	return a.ClientCommand(&cobra.Command{
		Use:               "show GRANT",
		Short:             "Show a grant",
		Example:           "  tollgate grant show $GRANT",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/grants"),
	}, func(ctx context.Context, api *cli.Client, args []string) error {
		return showGrant(api)(api.Get(ctx, "/v1/grants/"+url.PathEscape(args[0]), nil))
	})
}

func grantCreateCommand(a *cli.App) *cobra.Command {
	var scopes, accounts []string
	usual, until, from, key := "", "", "", ""
	c := &cobra.Command{
		Use:   "create CLIENT --scope SCOPES",
		Short: "Give a client a grant",
		Long: `Give a client a grant. Without --account it covers all merchant accounts of the
organization, and without --until it has no end. If your own grant covers some
accounts, or ends, name both.`,
		Example: `  tollgate grant create $CLIENT --scope quotes:read,payments:write
  tollgate grant create $CLIENT --scope payments:read --account $ACCOUNT --until 2027-01-01T00:00:00Z`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/clients"),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		if len(scopes) == 0 {
			return cli.UsageError(errors.New("grant create: name at least one scope with --scope, see 'tollgate whoami' for yours"))
		}
		body := map[string]any{"client_id": args[0], "scopes": scopes, "merchant_account_ids": accounts}
		for name, value := range map[string]string{"default_merchant_account_id": usual, "expires_at": until, "not_before": from} {
			if value != "" {
				body[name] = value
			}
		}
		return showGrant(api)(api.Post(ctx, "/v1/grants", body, a.IdempotencyKey(key)))
	})
	c.Flags().StringSliceVar(&scopes, "scope", nil, "what it allows, such as payments:read; separated by commas")
	c.Flags().StringSliceVar(&accounts, "account", nil, "merchant accounts, separated by commas; none: all of the organization")
	c.Flags().StringVar(&usual, "default-account", "", "the account of quotes and payments that name none")
	c.Flags().StringVar(&from, "from", "", "when it begins, an RFC 3339 time; now when left out")
	c.Flags().StringVar(&until, "until", "", "when it ends, an RFC 3339 time; never when left out")
	cli.KeyFlag(c, &key)
	return c
}

func grantRevokeCommand(a *cli.App) *cobra.Command {
	key := ""
	c := &cobra.Command{
		Use:   "revoke GRANT",
		Short: "Take a grant back for good",
		Long: `Take a grant back for good. Its access tokens end at once. The last active grant
with access:write cannot be revoked: give another client one first.`,
		Example:           "  tollgate grant revoke $GRANT",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/grants?status=active"),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		return showGrant(api)(api.Post(ctx, "/v1/grants/"+url.PathEscape(args[0])+"/revoke", nil, a.IdempotencyKey(key)))
	})
	cli.KeyFlag(c, &key)
	return c
}
