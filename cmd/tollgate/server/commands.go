package server

import (
	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
)

// Commands are the processes that an operator runs.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		serveCommand(a), workCommand(a), checkCommand(a), doctorCommand(a), historyCommand(a), layoutCommand(a), backupCommand(a), restoreCommand(a), archiveCommand(a), eraseCommand(a),
	}
}
