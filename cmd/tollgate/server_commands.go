package main

import "github.com/spf13/cobra"

// serverCommands are the processes that an operator runs.
func (a *app) serverCommands() []*cobra.Command {
	return []*cobra.Command{
		a.serveCommand(), a.workCommand(),
	}
}
