package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tollgate/wasm"
)

func (a *app) ruleCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "rule",
		Short: "Build, list and test pricing rules",
		Long: `Build, list and test pricing rules. A rule is a WebAssembly module; a table in
TOML is compiled to one without any toolchain.`,
	}
	c.AddCommand(a.ruleBuildCommand(), a.ruleListCommand(), a.ruleTestCommand())
	return c
}

func (a *app) ruleBuildCommand() *cobra.Command {
	out := ""
	c := &cobra.Command{
		Use:   "build FILE.toml",
		Short: "Compile a table of fees to a module",
		Example: `  tollgate rule build rule.toml -o rule.wasm
  tollgate rule build rule.toml   # writes rule.wasm beside it`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			content, err := a.readInput(args[0])
			if err != nil {
				return usageError(err)
			}
			module, source, err := wasm.Build(content)
			if err != nil {
				return usageError(fmt.Errorf("%s: %w", args[0], err))
			}
			to := out
			switch {
			case to == "-":
				_, err := a.stdout.Write(module)
				return err
			case to == "" && args[0] == "-":
				return usageError(fmt.Errorf("a table from standard input needs --out"))
			case to == "":
				to = strings.TrimSuffix(args[0], filepath.Ext(args[0])) + ".wasm"
			}
			if err := os.WriteFile(to, module, 0o644); err != nil {
				return usageError(err)
			}
			sum := sha256.Sum256(module)
			text := &table{}
			text.row("module", to)
			text.row("label", source.Label)
			text.row("bytes", strconv.Itoa(len(module)))
			text.row("sha256", hex.EncodeToString(sum[:]))
			return a.print(text)
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "the module to write, - for standard output")
	return c
}

func (a *app) ruleListCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the rules that this binary brings along",
		Example: "  tollgate rule list",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			rules, err := wasm.Shipped()
			if err != nil {
				return err
			}
			type entry struct {
				Rule   string `json:"rule"`
				Label  string `json:"label"`
				Bytes  int    `json:"bytes"`
				SHA256 string `json:"sha256"`
			}
			entries := make([]entry, len(rules))
			text := &table{right: []int{2}}
			text.row("RULE", "LABEL", "BYTES", "SHA256")
			for i, r := range rules {
				_, source, err := wasm.Build(r.Source)
				if err != nil {
					return fmt.Errorf("%s: %w", r.Citation, err)
				}
				sum := sha256.Sum256(r.Module)
				e := entry{r.Citation.String(), source.Label, len(r.Module), hex.EncodeToString(sum[:])}
				entries[i] = e
				text.row(e.Rule, e.Label, strconv.Itoa(e.Bytes), e.SHA256)
			}
			if asJSON {
				return a.printJSON(entries)
			}
			return a.print(text)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
