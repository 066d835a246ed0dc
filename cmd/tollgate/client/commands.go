// Package client is the commands of a service's client: payments, events, payouts,
// exports.
package client

import (
	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
)

// Commands are what a client asks for, apart from webhooks and rules.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		whoamiCommand(a), tokenCommand(a), accountsCommand(a), perimetersCommand(a), perimeterCommand(a),
		quoteCommand(a), payCommand(a), paymentCommand(a), paymentsCommand(a), captureCommand(a), refundCommand(a), cancelCommand(a), reviewCommand(a),
		ticketCommand(a), transactionsCommand(a), eventsCommand(a), eventCommand(a), auditCommand(a), payoutCommand(a), cutoffCommand(a), exportCommand(a), exportsCommand(a), clientCommand(a), grantCommand(a), mcpCommand(a),
	}
}
