package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// strict makes wrong words an error on every level: cobra itself shows the help
// of a group for a command that the group does not have, and ends well. begin
// runs before a command does its work, when flags and arguments are checked.
func strict(c *cobra.Command, begin func()) {
	for _, sub := range c.Commands() {
		strict(sub, begin)
	}
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			begin()
			return run(c, args)
		}
		return
	}
	if c.Run == nil && c.HasParent() {
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())
			}
			return c.Help()
		}
	}
}

// strictHelp is the help command that knows when there is nothing to help with.
func strictHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		Example: `  tollgate help serve
  tollgate help key new`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			found, _, err := root.Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []cobra.Completion
			for _, sub := range found.Commands() {
				if sub.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return UsageError(fmt.Errorf("unknown help topic %q", args))
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}
