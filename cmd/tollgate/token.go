package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) tokenCommand() *cobra.Command {
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
	a.clientCommand(c, func(ctx context.Context, api *client, _ []string) error {
		if api.jwk == nil {
			return usageError(fmt.Errorf("set TOLLGATE_CLIENT_ID and TOLLGATE_CLIENT_JWK"))
		}
		t, body, err := api.fetchToken(ctx, scope)
		if err != nil {
			return err
		}
		text := &table{}
		text.row("access_token", t.AccessToken)
		text.row("token_type", t.TokenType)
		text.row("expires_in", fmt.Sprintf("%d s", t.ExpiresIn))
		text.row("scope", t.Scope)
		return api.show(body, t.AccessToken, text)
	})
	c.Flags().StringVar(&scope, "scope", "", "scopes separated by spaces; all of the grant when left out")
	c.Flags().Lookup("quiet").Usage = "print only the token"
	return c
}
