package dev

import (
	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
)

// Commands are the sandbox and its clock.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		devCommand(a), clockCommand(a),
	}
}
