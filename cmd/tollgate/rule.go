package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"tollgate/wasm"
)

func (a *app) ruleCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "rule",
		Short: "Write, prove and compare pricing rules",
		Long: `Write, prove and compare pricing rules. A rule is a WebAssembly module; a table in
TOML is compiled to one without any toolchain.

On this machine: new, build and test make a rule, diff compares it with another
one. With the service: backtest tries it on past tickets, publish hands it in,
shadow tries it beside the rule in force, activate puts it in force at a time,
rollback takes it back, and verify proves what was charged.`,
	}
	c.AddCommand(a.ruleNewCommand(), a.ruleBuildCommand(), a.ruleTestCommand(), a.ruleDiffCommand(), a.ruleBacktestCommand(), a.ruleVerifyCommand(), a.ruleListCommand(), a.ruleCheckCommand())
	c.AddCommand(a.rulePublishCommand(), a.rulePublishedCommand(), a.ruleShowCommand(), a.ruleShadowCommand(), a.ruleActivateCommand(),
		a.ruleActivationsCommand(), a.ruleCancelCommand(), a.ruleRollbackCommand())
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
