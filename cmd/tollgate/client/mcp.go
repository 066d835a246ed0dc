package client

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
	"tollgate/handlers/mcp"
)

func mcpCommand(a *cli.App) *cobra.Command {
	readOnly := false
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Give an agent the tools of payments, over its standard streams",
		Long: `Speak the Model Context Protocol on standard input and output, for the program of
an agent that starts this command. The tools are requests to the service at
TOLLGATE_URL, signed with your client key: the agent can do what your grant and
your perimeters allow, and nothing else.

With --read-only there is no tool that pays, captures, cancels or refunds. The
service answers the same tools at /mcp, for agents that speak HTTP.`,
		Example: `  tollgate mcp
  tollgate mcp --read-only`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := a.NewClient(a.Config(cmd))
			if err != nil {
				return err
			}
			return mcp.Serve(cmd.Context(), mcp.Options{
				API: passer{api}, Caller: callerOf(api), ReadOnly: readOnly, Version: cli.VersionText(),
				Log: slog.New(slog.NewTextHandler(a.Stderr, nil)), // standard output is the protocol's
			}, a.Stdin, a.Stdout)
		},
	}
	c.Flags().BoolVar(&readOnly, "read-only", false, "leave out the tools that change something")
	return c
}

// passer has a client's requests carry its token.
type passer struct{ api *cli.Client }

func (p passer) RoundTrip(r *http.Request) (*http.Response, error) { return p.api.Pass(r) }

// callerOf is who a client is by its token, as the service reads it at /mcp: so a
// reference stands for the same payment whichever way it comes.
func callerOf(api *cli.Client) func(context.Context) (mcp.Caller, error) {
	return func(ctx context.Context) (mcp.Caller, error) {
		token, err := api.Authorization(ctx)
		if err != nil {
			return mcp.Caller{}, err
		}
		var claims struct {
			Client string `json:"client_id"`
			Scope  string `json:"scope"`
		}
		parts := strings.Split(token, ".")
		if len(parts) != 3 {
			return mcp.Caller{}, errors.New("the access token is none of this service")
		}
		text, err := base64.RawURLEncoding.DecodeString(parts[1])
		if err != nil || json.Unmarshal(text, &claims) != nil || claims.Client == "" {
			return mcp.Caller{}, errors.New("the access token is none of this service")
		}
		return mcp.Caller{ID: claims.Client, Scopes: strings.Fields(claims.Scope)}, nil
	}
}
