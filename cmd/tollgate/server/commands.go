package server

import (
	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
)

// serverCommands are the processes that an operator runs.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		serveCommand(a), workCommand(a),
	}
}
