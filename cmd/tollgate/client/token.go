package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
)

func tokenCommand(a *cli.App) *cobra.Command {
	scope := ""
	c := &cobra.Command{
		Use:   "token",
		Short: "Exchange the client's key for an access token",
		Long:  "Sign an assertion with the client's key and exchange it for an access token, which is good for ten minutes.",
		Example: `  tollgate token
  tollgate token --scope 'payments:read tickets:read'
  curl -H "Authorization: Bearer $(tollgate token --quiet)" "$TOLLGATE_URL/v1/events"`,
		Args: cobra.NoArgs,
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, _ []string) error {
		if api.JWK == nil {
			return cli.UsageError(fmt.Errorf("set TOLLGATE_CLIENT_ID and TOLLGATE_CLIENT_JWK"))
		}
		t, body, err := api.FetchToken(ctx, scope)
		if err != nil {
			return err
		}
		if t.TokenType == "DPoP" {
			return cli.RefusedError(errors.New("this client's tokens are bound to a key (dpop_bound_access_tokens), which lasts for one command: nobody could use a token that is printed"))
		}
		text := &cli.Table{}
		text.Row("access_token", t.AccessToken)
		text.Row("token_type", t.TokenType)
		text.Row("expires_in", fmt.Sprintf("%d s", t.ExpiresIn))
		text.Row("scope", t.Scope)
		return api.Show(body, t.AccessToken, text)
	})
	c.Flags().StringVar(&scope, "scope", "", "scopes separated by spaces; all of the grant when left out")
	c.Flags().Lookup("quiet").Usage = "print only the token"
	return c
}
