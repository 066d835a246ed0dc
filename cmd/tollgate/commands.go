package main

import (
	"slices"

	"github.com/spf13/cobra"
)

func rootCommand(a *app) *cobra.Command {
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
	group("run", "Run the service:", a.devCommands(), a.serverCommands())
	group("client", "Use it:", a.clientCommands())
	group("webhooks", "Receive its events:", a.webhookCommands(), []*cobra.Command{a.triggerCommand()})
	group("prepare", "Prepare it:", a.provisionCommands(), []*cobra.Command{a.ruleCommand()})
	a.complete(root)
	return root
}
