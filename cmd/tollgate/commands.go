package main

import (
	"slices"

	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/client"
	"tollgate/cmd/tollgate/console"
	"tollgate/cmd/tollgate/dev"
	"tollgate/cmd/tollgate/explain"
	"tollgate/cmd/tollgate/keys"
	"tollgate/cmd/tollgate/profile"
	"tollgate/cmd/tollgate/provision"
	"tollgate/cmd/tollgate/rules"
	"tollgate/cmd/tollgate/server"
	"tollgate/cmd/tollgate/webhooks"
)

// extra are commands that only some builds have.
var extra []func(*cli.App) *cobra.Command

func rootCommand(a *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "tollgate",
		Short: "A payments service that explains every fee",
		Long: `Tollgate prices, authorizes and captures payments, and explains every fee.

Start with 'tollgate dev': it runs the whole service on an embedded Redis and
prints what to paste next.

Exit codes: 0 done, 1 refused by the server, 2 wrong usage or configuration,
3 the server is unavailable.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	group := func(id, title string, commands ...[]*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: id, Title: title})
		for _, c := range slices.Concat(commands...) {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	group("run", "Run the service:", dev.Commands(a), server.Commands(a), []*cobra.Command{profile.Command(a)})
	group("client", "Use it:", explain.Commands(a), client.Commands(a), console.Commands(a))
	group("webhooks", "Receive its events:", webhooks.Commands(a), []*cobra.Command{dev.TriggerCommand(a)})
	group("prepare", "Prepare it:", provision.Commands(a), []*cobra.Command{keys.Command(a), rules.Command(a)})
	for _, command := range extra {
		root.AddCommand(command(a))
	}
	a.Complete(root)
	return root
}
