// Package console is the page for people, with the key of whoever starts it.
package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/client"
	"tollgate/cmd/tollgate/examine"
	"tollgate/cmd/tollgate/rules"
	"tollgate/cmd/tollgate/rules/replay"
	"tollgate/cmd/tollgate/rules/source"
	"tollgate/handlers"
	"tollgate/handlers/console"
)

// New is a console that listens at addr and asks a service as api does. Its token is a
// new one. What api says while it waits nobody hears.
func New(api *cli.Client, addr string, write bool) (*console.Console, error) {
	quiet := *api.App
	quiet.Stderr = io.Discard
	api.App = &quiet
	return console.New(console.Config{
		API: func(r *http.Request) (*http.Response, error) {
			response, err := api.Pass(r)
			return response, problemOf(err)
		},
		Identity: func(ctx context.Context) (console.Identity, error) {
			who, err := identity(ctx, api)
			return who, problemOf(err)
		},
		Rules: func(ctx context.Context) (any, error) {
			list, err := versions(ctx, api)
			return list, problemOf(err)
		},
		Backtest: func(ctx context.Context, b console.Backtest) (any, error) {
			result, err := backtest(ctx, api, b)
			return result, problemOf(err)
		},
		Clock: api.App.Clock, Write: write, Token: api.App.RandomText(), Addr: addr, APIURL: api.Base, Version: cli.VersionText(),
	})
}

// Doors are where a server with an API has a console beside it.
func Doors(c *console.Console) []handlers.Door {
	methods := []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete}
	return []handlers.Door{{Methods: methods, Path: console.Home, Handler: c}, {Methods: methods, Path: console.Home + "/*page", Handler: c}}
}

// problemOf is an error as the page shows it; one without an answer stays as it is.
func problemOf(err error) error {
	refused, ok := errors.AsType[*cli.Refusal](err)
	exit, known := errors.AsType[*cli.ExitError](err)
	switch {
	case ok && refused.Code != "":
		return &console.Problem{Status: refused.Status, Code: string(refused.Code), Message: refused.Message}
	case ok: // of the token endpoint, or of what stands in front of the service
		return &console.Problem{Status: http.StatusBadGateway, Code: "api_refused", Message: fmt.Sprintf("The API refuses the console's key or is not there: it answered with the status %d.", refused.Status)}
	case known && exit.Code == cli.ExitUsage:
		return &console.Problem{Status: http.StatusBadRequest, Code: "parameter_invalid", Message: err.Error()}
	}
	return err
}

func identity(ctx context.Context, api *cli.Client) (console.Identity, error) {
	token, err := api.Authorization(ctx)
	if err != nil {
		return console.Identity{}, err
	}
	who, err := client.TokenIdentity(token)
	if err != nil { // a token of somebody else's making: the API knows what it means
		return console.Identity{ClientID: api.ID}, nil
	}
	return console.Identity{ClientID: who.ClientID, OrganizationID: &who.OrganizationID, Scopes: who.Scopes}, nil
}

// version is a rule as the page lists it.
type version struct {
	ID      string `json:"id"`
	Builtin bool   `json:"builtin"`
	rules.ListedRule
}

func versions(ctx context.Context, api *cli.Client) ([]version, error) {
	all, err := rules.Versions(ctx, api)
	if err != nil {
		return nil, err
	}
	list := make([]version, len(all))
	for i, r := range all {
		citation, err := tollgate.ParseCitation(r.Rule)
		if err != nil {
			return nil, cli.UnavailableError(fmt.Errorf("the list of rules: %w", err))
		}
		builtin, err := source.Builtin(citation)
		if err != nil {
			return nil, err
		}
		list[i] = version{tollgate.RuleID(citation), builtin != nil, r}
	}
	return list, nil
}

func backtest(ctx context.Context, api *cli.Client, b console.Backtest) (any, error) {
	replaces, err := tollgate.ParseCitation(b.Replaces)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	candidate := &source.Rule{Name: "the module", Citation: examine.UnderTest, Module: b.Module}
	if b.Rule != "" {
		reader := &source.Reader{App: api.App, Service: func() (*cli.Client, error) { return api, nil }}
		if candidate, err = reader.Read(ctx, b.Rule); err != nil {
			return nil, err
		}
	}
	return replay.Backtest(ctx, api, candidate, replaces, replay.Range{Account: b.MerchantAccountID, After: b.CreatedAfter, Before: b.CreatedBefore})
}
