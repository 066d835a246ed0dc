package main

import "github.com/spf13/cobra"

// devCommands are the sandbox and its clock.
func (a *app) devCommands() []*cobra.Command {
	return []*cobra.Command{
		a.devCommand(), a.clockCommand(),
	}
}
