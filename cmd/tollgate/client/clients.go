package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

func clientTable(c *tollgate.ClientAnswer) *cli.Table {
	t := &cli.Table{}
	t.Row("client", c.ID)
	t.Row("name", c.Name)
	t.Row("status", c.Status)
	for _, raw := range c.Keys {
		var key struct {
			ID        string `json:"kid"`
			Algorithm string `json:"alg"`
		}
		if cli.Parse(raw, &key) == nil {
			t.Row("key", key.ID+" ("+key.Algorithm+")")
		}
	}
	if len(c.Keys) == 0 {
		t.Row("key", "none: it gets no tokens")
	}
	t.Row("grants", cli.Joined(c.GrantIDs, "none"))
	if c.DPoPBound {
		t.Row("tokens", "bound to a key (DPoP)")
	}
	return t
}

// showClient prints the answer of an endpoint that answers with a client.
func showClient(c *cli.Client) func(cli.Raw, error) error {
	return cli.Answered(c, func(o *tollgate.ClientAnswer) (string, *cli.Table) { return o.ID, clientTable(o) })
}

func clientPath(id, below string) string { return "/v1/clients/" + url.PathEscape(id) + below }

func clientCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "client",
		Short: "Make, show and change clients and their keys",
		Long: `Make, show and change clients: who signs requests for access tokens. A client
does what its grants allow; 'tollgate grant' gives it some. Your own grant needs
access:read to show clients, and access:write to change them. You cannot change a
client that may do more than you.`,
		Example: `  tollgate client create 'Till 4' --key till.pub
  tollgate client list
  tollgate client key add $CLIENT till.pub`,
	}
	c.AddCommand(clientListCommand(a), clientShowCommand(a), clientCreateCommand(a), clientRenameCommand(a),
		clientStatusCommand(a, "disable", tollgate.ClientDisabledStatus, "Let a client get no more tokens, and end those that it has"),
		clientStatusCommand(a, "enable", tollgate.StatusActive, "Let a client get tokens again"), clientDPoPCommand(a), clientKeyCommand(a))
	return c
}

func clientListCommand(a *cli.App) *cobra.Command {
	return cli.ListCommand(a, &cobra.Command{
		Use:     "list",
		Short:   "List clients",
		Example: "  tollgate client list\n  tollgate client list --status disabled",
	}, "/v1/clients", append(cli.QueryFlags{{"status", "status", "active or disabled"}}, cli.PageFlags...), []string{"CLIENT", "STATUS", "KEYS", "GRANTS", "NAME"}, []int{2, 3},
		func(t *cli.Table, c *tollgate.ClientAnswer) string {
			t.Row(c.ID, c.Status, strconv.Itoa(len(c.Keys)), strconv.Itoa(len(c.GrantIDs)), c.Name)
			return c.ID
		})
}

func clientShowCommand(a *cli.App) *cobra.Command {
	return a.ClientCommand(&cobra.Command{
		Use:               "show CLIENT",
		Short:             "Show a client, its keys and its grants",
		Example:           "  tollgate client show $CLIENT",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/clients"),
	}, func(ctx context.Context, api *cli.Client, args []string) error {
		return showClient(api)(api.Get(ctx, clientPath(args[0], ""), nil))
	})
}

func clientCreateCommand(a *cli.App) *cobra.Command {
	file, key := "", ""
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a client",
		Long: `Make a client. It has no grant yet: 'tollgate grant create' gives it one. Its owner
makes a key pair with 'tollgate key new client', keeps the private half, and
gives you the public one for --key.`,
		Example: "  tollgate client create 'Till 4' --key till.pub\n  tollgate client create 'Till 4' --quiet",
		Args:    cobra.ExactArgs(1),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		body := map[string]any{"name": args[0]}
		if file != "" {
			jwk, err := publicKey(file)
			if err != nil {
				return err
			}
			body["keys"] = []jsontext.Value{jwk}
		}
		return showClient(api)(api.Post(ctx, "/v1/clients", body, a.IdempotencyKey(key)))
	})
	c.Flags().StringVar(&file, "key", "", "file with its public key, a JWK")
	cli.KeyFlag(c, &key)
	return c
}

// publicKey reads a public JWK. A private one is not sent anywhere.
func publicKey(file string) (jsontext.Value, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	var members map[string]cli.Raw
	if err := cli.Parse(text, &members); err != nil {
		return nil, cli.UsageError(fmt.Errorf("%s is no JWK", file))
	}
	for _, private := range []string{"d", "k"} {
		if _, ok := members[private]; ok {
			return nil, cli.UsageError(fmt.Errorf("%s has a private key, and it was not sent; give the public half, which 'tollgate key new client' prints last", file))
		}
	}
	return jsontext.Value(strings.TrimSpace(string(text))), nil
}

func clientRenameCommand(a *cli.App) *cobra.Command {
	return a.ClientCommand(&cobra.Command{
		Use:               "rename CLIENT NAME",
		Short:             "Give a client another name",
		Example:           "  tollgate client rename $CLIENT 'Till 5'",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.CompleteIDs("/v1/clients"),
	}, func(ctx context.Context, api *cli.Client, args []string) error {
		return showClient(api)(api.Write(ctx, http.MethodPatch, clientPath(args[0], ""), map[string]string{"name": args[1]}, ""))
	})
}

func clientStatusCommand(a *cli.App, word, status, short string) *cobra.Command {
	return a.ClientCommand(&cobra.Command{
		Use:               word + " CLIENT",
		Short:             short,
		Example:           "  tollgate client " + word + " $CLIENT",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/clients"),
	}, func(ctx context.Context, api *cli.Client, args []string) error {
		return showClient(api)(api.Write(ctx, http.MethodPatch, clientPath(args[0], ""), map[string]string{"status": status}, ""))
	})
}

func clientDPoPCommand(a *cli.App) *cobra.Command {
	return a.ClientCommand(&cobra.Command{
		Use:   "dpop CLIENT on|off",
		Short: "Say whether a client gets only tokens that are bound to a key",
		Long: `Say whether a client gets only tokens that are bound to a key (DPoP, RFC 9449).
Whoever steals such a token can do nothing with it. Turning it on ends all tokens
of the client: change its program first. This command line sends proofs when the
service asks for them.`,
		Example:           "  tollgate client dpop $CLIENT on",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.CompleteIDs("/v1/clients"),
	}, func(ctx context.Context, api *cli.Client, args []string) error {
		if args[1] != "on" && args[1] != "off" {
			return cli.UsageError(fmt.Errorf("%q is neither on nor off", args[1]))
		}
		return showClient(api)(api.Write(ctx, http.MethodPatch, clientPath(args[0], ""), map[string]bool{"dpop_bound_access_tokens": args[1] == "on"}, ""))
	})
}

func clientKeyCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "key",
		Short: "Add and remove the keys of a client",
		Long: `Add and remove the keys of a client. To rotate a key, add the new one, let the
client sign with it, then remove the old one. Removing a key ends all tokens of
the client; it gets new ones with the other key.`,
		Example: "  tollgate client key add $CLIENT till.pub\n  tollgate client key remove $CLIENT till-2025",
	}
	key := ""
	add := a.ClientCommand(&cobra.Command{
		Use:               "add CLIENT FILE",
		Short:             "Add a public key, a JWK in a file",
		Example:           "  tollgate key new client --out till.key >till.pub\n  tollgate client key add $CLIENT till.pub",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.CompleteIDs("/v1/clients"),
	}, func(ctx context.Context, api *cli.Client, args []string) error {
		jwk, err := publicKey(args[1])
		if err != nil {
			return err
		}
		return showClient(api)(api.Post(ctx, clientPath(args[0], "/keys"), map[string]any{"jwk": jwk}, a.IdempotencyKey(key)))
	})
	cli.KeyFlag(add, &key)
	c.AddCommand(add, a.ClientCommand(&cobra.Command{
		Use:               "remove CLIENT KID",
		Short:             "Remove a key, and end all tokens of the client",
		Example:           "  tollgate client key remove $CLIENT till-2025",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.CompleteIDs("/v1/clients"),
	}, func(ctx context.Context, api *cli.Client, args []string) error {
		return showClient(api)(api.Write(ctx, http.MethodDelete, clientPath(args[0], "/keys/"+url.PathEscape(args[1])), nil, ""))
	}))
	return c
}
