package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/server"
)

type options struct {
	addr         string
	write        bool
	open, noOpen bool
}

// Commands is the console.
func Commands(a *cli.App) []*cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "console",
		Short: "Look at payments, fees and rules in the browser",
		Long: `Serve the console on this machine and print its address. The console signs its
requests with your client key, as the other commands do, and sees what you see.

It listens on this machine only. The address has a token in it: who has it may
look until the command ends. The console changes nothing unless you start it
with --write. On a terminal the browser opens.`,
		Example: `  tollgate console
  tollgate console --write --addr 127.0.0.1:8090`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := a.NewClient(a.Config(cmd))
			if err != nil {
				return err
			}
			return serve(cmd.Context(), a, api, o)
		},
	}
	c.Flags().StringVar(&o.addr, "addr", "127.0.0.1:0", "address of the console on this machine; port 0 picks a free one")
	c.Flags().BoolVar(&o.write, "write", false, "let the console change things, such as capture a payment or activate a rule")
	c.Flags().BoolVar(&o.open, "open", false, "open the browser also where there is no terminal")
	c.Flags().BoolVar(&o.noOpen, "no-open", false, "only print the address")
	c.MarkFlagsMutuallyExclusive("open", "no-open")
	return []*cobra.Command{c}
}

func serve(ctx context.Context, a *cli.App, api *cli.Client, o options) error {
	addr, err := loopback(o.addr)
	if err != nil {
		return cli.UsageError(fmt.Errorf("--addr: %w", err))
	}
	listener, err := server.Listen(addr)
	if err != nil {
		return err
	}
	defer listener.Close()
	c, err := New(api, listener.Addr().String(), o.write)
	if err != nil {
		return err
	}
	does := "It only shows; --write lets it change things."
	if o.write {
		does = "It may change things."
	}
	t := &cli.Table{}
	t.Row("Console", c.URL())
	t.Row("API", api.Base)
	if _, err := fmt.Fprintf(a.Stdout, "%s\n%s Ctrl-C ends it.\n", t, does); err != nil {
		return err
	}
	if o.open || !o.noOpen && a.AtTerminal() {
		forget, err := openBrowser(ctx, a, c.URL())
		defer forget()
		if err != nil {
			fmt.Fprintf(a.Stderr, "the browser does not open: %v. Open the address yourself.\n", err)
		}
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	return server.ServeUntil(ctx, time.Second, func() {}, server.Endpoint{Listener: listener, Server: server.HTTPServer(c, log)})
}

// loopback is an address on this machine; no host means one.
func loopback(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("%q is not an address such as 127.0.0.1:8090", addr)
	}
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.Equal(net.IPv4(127, 0, 0, 1)) && !ip.Equal(net.IPv6loopback) {
		return "", errors.New("the console listens on this machine only: give 127.0.0.1 or [::1], or no host")
	}
	return net.JoinHostPort(host, port), nil
}
