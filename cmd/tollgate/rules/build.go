package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/examine"
	"tollgate/cmd/tollgate/rules/source"
	"tollgate/wasm/abi"
	"tollgate/wasm/compiler"
)

func ruleBuildCommand(a *cli.App) *cobra.Command {
	out, label, asJSON := "", "", false
	c := &cobra.Command{
		Use:   "build DIRECTORY | FILE.toml | FILE.wasm",
		Short: "Make a module that can be released",
		Long: `Make a module that can be released: compile a table of fees, or pack a module that
another compiler has made, which rule.toml names ('module') or which is given
itself with --label. Packing takes out names and other custom sections and adds
the manifest. All limits are checked, and the module is compiled once in a
process of its own.`,
		Example: `  tollgate rule build my_fee
  tollgate rule build rule.toml   # writes rule.wasm beside it
  tollgate rule build target/rule.wasm --label "My fee" -o rule.wasm`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			module, to, err := build(a, args[0], label)
			if err != nil {
				return cli.UsageError(err)
			}
			if out != "" {
				to = out
			}
			if to == "" {
				return cli.UsageError(fmt.Errorf("%s needs --out", args[0]))
			}
			report, err := examine.New(examine.DefaultLimits)(cmd.Context(), examine.UnderTest, module, nil)
			if err != nil {
				return examine.RuleProblem(args[0], err)
			}
			if to == "-" {
				_, err := a.Stdout.Write(module)
				return err
			}
			if err := os.WriteFile(to, module, 0o644); err != nil {
				return cli.UsageError(err)
			}
			if asJSON {
				return a.PrintJSON(report)
			}
			text := &cli.Table{}
			text.Row("module", to)
			text.Row("label", report.Label)
			text.Row("bytes", strconv.Itoa(report.Bytes))
			text.Row("sha256", report.SHA256)
			if report.Refunds {
				text.Row("refunds", "takes part")
			}
			return a.Print(text)
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "the module to write, - for standard output")
	c.Flags().BoolVar(&asJSON, "json", false, "print what the examination found as JSON")
	c.Flags().StringVar(&label, "label", "", "of the manifest that a module gets")
	return c
}

// build returns a module and where it is written when nobody says.
func build(a *cli.App, from, label string) (module []byte, to string, err error) {
	if info, err := os.Stat(from); err == nil && info.IsDir() {
		from = filepath.Join(from, "rule.toml")
	}
	content, err := a.ReadInput(from)
	if err != nil {
		return nil, "", err
	}
	if source.IsModule(from, content) {
		if module, err = compiler.Pack(content, label, abi.Free{}); err != nil {
			return nil, "", fmt.Errorf("%s: %w", from, err)
		}
		return module, "", nil
	}
	if label != "" {
		return nil, "", fmt.Errorf("%s has a label of its own", from)
	}
	if from != "-" {
		to = strings.TrimSuffix(from, filepath.Ext(from)) + ".wasm"
	}
	module, _, err = source.Compile(from, content)
	return module, to, err
}
