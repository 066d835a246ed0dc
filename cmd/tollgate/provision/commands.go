package provision

import (
	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
)

// Commands are what prepares an installation.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		provisionCommand(a),
	}
}
