//go:build man

package main

import (
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"tollgate/cmd/tollgate/cli"
)

// With the build tag man the program has a command that writes its man pages:
// `make man`. What reads Markdown and writes roff is no part of the product.
func init() { extra = append(extra, manCommand) }

func manCommand(a *cli.App) *cobra.Command {
	seconds := int64(0)
	c := &cobra.Command{
		Use:     "man DIRECTORY",
		Short:   "Write the man pages",
		Hidden:  true,
		Example: "  go run -tags man ./cmd/tollgate man bin/man",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return cli.UsageError(err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			eachCommand(root, func(c *cobra.Command) { c.Long, c.Example = preformatted(c.Long), preformatted(c.Example) })
			at := time.Unix(seconds, 0).UTC()
			return doc.GenManTree(root, &doc.GenManHeader{Title: "TOLLGATE", Section: "1", Source: "Tollgate " + cli.VersionText(), Manual: "Tollgate", Date: &at}, args[0])
		},
	}
	c.Flags().Int64Var(&seconds, "date", 0, "date of the pages, in Unix seconds")
	return c
}

func eachCommand(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, do)
	}
}

// preformatted keeps indented lines as they are: tables and lists of a help text.
func preformatted(text string) string {
	var b strings.Builder
	before := false
	for line := range strings.Lines(text) {
		indented := strings.HasPrefix(line, "  ")
		if indented != before {
			b.WriteString("\n")
		}
		if before = indented; indented {
			b.WriteString("    ")
		}
		b.WriteString(line)
	}
	return b.String()
}
