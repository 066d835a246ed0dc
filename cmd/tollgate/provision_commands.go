package main

import "github.com/spf13/cobra"

// provisionCommands are what prepares an installation.
func (a *app) provisionCommands() []*cobra.Command {
	return []*cobra.Command{
		a.provisionCommand(), a.keyCommand(),
	}
}
