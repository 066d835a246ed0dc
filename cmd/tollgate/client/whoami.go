package client

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

// Identity is who the command line is to the service.
type Identity struct {
	ClientID         string           `json:"client_id"`
	OrganizationID   string           `json:"organization_id"`
	GrantID          string           `json:"grant_id"`
	GrantVersion     int64            `json:"grant_version"`
	Scopes           []string         `json:"scopes"`
	MerchantAccounts []accountName    `json:"merchant_accounts"` // null: the token has no scope to read them
	Issuer           string           `json:"issuer"`
	ExpiresAt        tollgate.Instant `json:"expires_at"` // of the token
	ClockAhead       int64            `json:"clock_ahead_seconds"`
}

type accountName struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func whoamiCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "whoami",
		Short: "Show who you are to the service: client, grant, scopes, accounts",
		Long: `Get an access token and show what it says: the client, the grant, the scopes and
when it expires. The merchant accounts that the grant covers are listed if the
token has the scope accounts:read. The clock is the service's beside this
machine's: an assertion is refused when they are more than seconds apart.`,
		Example: "  tollgate whoami\n  tollgate whoami --json",
		Args:    cobra.NoArgs,
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, _ []string) error {
		who, err := whoami(ctx, api)
		if err != nil {
			return err
		}
		body, err := json.Marshal(who)
		if err != nil {
			return err
		}
		return api.Show(body, who.ClientID, who.table(a.Clock()))
	})
	c.Flags().Lookup("quiet").Usage = "print only the client's id"
	return c
}

func whoami(ctx context.Context, c *cli.Client) (*Identity, error) {
	token, err := c.Authorization(ctx)
	if err != nil {
		return nil, err
	}
	who, err := TokenIdentity(token)
	if err != nil {
		return nil, err
	}
	at, err := c.Now(ctx)
	if err != nil {
		return nil, err
	}
	if ahead := at.Sub(c.App.Clock().Truncate(time.Second)); ahead.Abs() > time.Second { // Date has whole seconds
		who.ClockAhead = int64(ahead.Seconds())
	}
	if !slices.Contains(who.Scopes, "accounts:read") {
		return who, nil
	}
	accounts, err := c.Accounts(ctx, nil)
	if err != nil {
		return nil, err
	}
	who.MerchantAccounts = make([]accountName, len(accounts))
	for i, a := range accounts {
		who.MerchantAccounts[i] = accountName{a.ID, a.Name}
	}
	return who, nil
}

// TokenIdentity reads an access token (RFC 9068 §2.2) without verifying it: it
// is the service that trusts it, not its bearer.
func TokenIdentity(token string) (*Identity, error) {
	var claims struct {
		Issuer       string `json:"iss"`
		Expires      int64  `json:"exp"`
		ClientID     string `json:"client_id"`
		Scope        string `json:"scope"`
		Organization string `json:"org"`
		GrantID      string `json:"grant_id"`
		GrantVersion int64  `json:"gv"`
	}
	part := strings.Split(token, ".")
	if len(part) != 3 {
		return nil, cli.UsageError(errors.New("TOLLGATE_TOKEN is not an access token"))
	}
	text, err := base64.RawURLEncoding.DecodeString(part[1])
	if err == nil {
		err = json.Unmarshal(text, &claims)
	}
	if err != nil {
		return nil, cli.UsageError(fmt.Errorf("TOLLGATE_TOKEN is not an access token: %w", err))
	}
	return &Identity{
		ClientID: claims.ClientID, OrganizationID: claims.Organization, GrantID: claims.GrantID, GrantVersion: claims.GrantVersion,
		Scopes: strings.Fields(claims.Scope), Issuer: claims.Issuer, ExpiresAt: tollgate.At(time.Unix(claims.Expires, 0)),
	}, nil
}

func (who *Identity) table(now time.Time) *cli.Table {
	t := &cli.Table{}
	t.Row("client", who.ClientID)
	t.Row("organization", who.OrganizationID)
	t.Row("grant", fmt.Sprintf("%s, version %d", who.GrantID, who.GrantVersion))
	t.Row("issuer", who.Issuer)
	t.Row("token", fmt.Sprintf("expires %s, in %s", who.ExpiresAt, who.ExpiresAt.Time().Sub(now).Round(time.Second)))
	switch ahead := time.Duration(who.ClockAhead) * time.Second; {
	case ahead > 0:
		t.Row("clock", fmt.Sprintf("the service is %s ahead of this machine", ahead))
	case ahead < 0:
		t.Row("clock", fmt.Sprintf("the service is %s behind this machine", -ahead))
	default:
		t.Row("clock", "the service agrees with this machine")
	}
	for i, scope := range who.Scopes {
		t.Row(onFirst(i, "scopes"), scope)
	}
	for i, account := range who.MerchantAccounts {
		t.Row(onFirst(i, "accounts"), account.ID+"  "+account.Name)
	}
	if who.MerchantAccounts == nil {
		t.Row("accounts", "not shown: the token lacks the scope accounts:read")
	}
	return t
}

// onFirst is a label for the first of several rows.
func onFirst(i int, label string) string {
	if i > 0 {
		return ""
	}
	return label
}

// ScopesOf reads the scopes of an access token.
func ScopesOf(token string) ([]string, error) {
	who, err := TokenIdentity(token)
	if err != nil {
		return nil, err
	}
	return who.Scopes, nil
}
