// Package rules is the commands of pricing teams: making, publishing and activating
// rules.
package rules

import (
	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/examine"
	"tollgate/cmd/tollgate/rules/fees"
	"tollgate/cmd/tollgate/rules/replay"
)

// Command is what pricing teams do with rules, each a command under it.
func Command(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "rule",
		Short: "Write, prove and compare pricing rules",
		Long: `Write, prove and compare pricing rules. A rule is a WebAssembly module; a table in
TOML is compiled to one without any toolchain.

On this machine: new, build and test make a rule, try prices one payment with it, check says whether it can be
activated, diff compares it with another one. With the service: backtest tries it on past tickets, publish hands it in,
shadow tries it beside the rule in force, activate puts it in force at a time,
rollback takes it back, and verify proves what was charged.`,
	}
	c.AddCommand(ruleNewCommand(a), ruleBuildCommand(a), ruleTestCommand(a), ruleTryCommand(a), fees.DiffCommand(a), replay.BacktestCommand(a), replay.VerifyCommand(a), ruleCheckCommand(a), ruleListCommand(a), examine.Command(a))
	c.AddCommand(rulePublishCommand(a), rulePublishedCommand(a), ruleShowCommand(a), ruleShadowCommand(a), ruleActivateCommand(a),
		ruleActivationsCommand(a), ruleCancelCommand(a), ruleRollbackCommand(a))
	return c
}
