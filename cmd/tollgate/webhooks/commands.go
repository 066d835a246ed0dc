// Package webhooks is the commands of those who receive events.
package webhooks

import (
	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
)

// Commands are what a receiver of events asks for.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		webhooksCommand(a), deliveriesCommand(a), attemptsCommand(a), resendCommand(a), recoverCommand(a), listenCommand(a),
	}
}
