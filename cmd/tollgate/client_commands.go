package main

import "github.com/spf13/cobra"

// clientCommands are what a client asks for, apart from webhooks and rules.
func (a *app) clientCommands() []*cobra.Command {
	return []*cobra.Command{
		a.whoamiCommand(), a.tokenCommand(), a.accountsCommand(), a.perimetersCommand(), a.perimeterCommand(),
		a.quoteCommand(), a.payCommand(), a.paymentCommand(), a.paymentsCommand(), a.captureCommand(), a.refundCommand(), a.cancelCommand(), a.reviewCommand(),
		a.ticketCommand(), a.transactionsCommand(), a.eventsCommand(), a.eventCommand(), a.payoutCommand(), a.cutoffCommand(), a.exportCommand(), a.exportsCommand(),
	}
}
