package main

import "github.com/spf13/cobra"

func (a *app) ruleCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "rule",
		Short: "Write, prove and compare pricing rules",
		Long: `Write, prove and compare pricing rules. A rule is a WebAssembly module; a table in
TOML is compiled to one without any toolchain.

On this machine: new, build and test make a rule, check says whether it can be
activated, diff compares it with another one. With the service: backtest tries it on past tickets, publish hands it in,
shadow tries it beside the rule in force, activate puts it in force at a time,
rollback takes it back, and verify proves what was charged.`,
	}
	c.AddCommand(a.ruleNewCommand(), a.ruleBuildCommand(), a.ruleTestCommand(), a.ruleDiffCommand(), a.ruleBacktestCommand(), a.ruleVerifyCommand(), a.ruleCheckCommand(), a.ruleListCommand(), a.ruleCheckModuleCommand())
	c.AddCommand(a.rulePublishCommand(), a.rulePublishedCommand(), a.ruleShowCommand(), a.ruleShadowCommand(), a.ruleActivateCommand(),
		a.ruleActivationsCommand(), a.ruleCancelCommand(), a.ruleRollbackCommand())
	return c
}
