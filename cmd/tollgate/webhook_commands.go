package main

import "github.com/spf13/cobra"

// webhookCommands are what a receiver of events asks for.
func (a *app) webhookCommands() []*cobra.Command {
	return []*cobra.Command{
		a.webhooksCommand(), a.deliveriesCommand(), a.attemptsCommand(), a.resendCommand(), a.recoverCommand(), a.listenCommand(),
	}
}
