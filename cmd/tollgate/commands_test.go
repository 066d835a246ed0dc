package main

import (
	"bytes"
	"os"
	"testing"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
)

// Every command has help, and an example where it does something.
func TestEveryCommandHasHelp(t *testing.T) {
	a, _, _ := clitest.App(nil)
	root := rootCommand(a)
	for _, c := range root.Commands() {
		if c.Short == "" {
			t.Errorf("%s has no short help", c.Name())
		}
		for _, sub := range c.Commands() {
			if sub.Runnable() && sub.Example == "" && c.Name() != "completion" { // cobra's own; its text has them
				t.Errorf("%s has no example", sub.CommandPath())
			}
		}
		if c.Runnable() && !c.HasSubCommands() && c.Example == "" {
			t.Errorf("%s has no example", c.Name())
		}
	}
}

// The flags of a command are those that the settings name for it.
func TestSettingsAreFlags(t *testing.T) {
	a, _, _ := clitest.App(nil)
	root := rootCommand(a)
	for _, s := range cli.Settings {
		for _, name := range s.Commands {
			c, _, err := root.Find([]string{name})
			if err != nil || c.Name() != name {
				t.Errorf("%s is for %s, which is no command", s.Env(), name)
			} else if c.Flags().Lookup(s.Flag) == nil && c.PersistentFlags().Lookup(s.Flag) == nil {
				t.Errorf("%s has no --%s", name, s.Flag)
			}
		}
	}
}

// The operators' table of settings is the one that the program prints.
func TestOperationsHasTheSettings(t *testing.T) {
	page, err := os.ReadFile("../../handlers/docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a := &cli.App{Program: "tollgate", Stdout: &out, Stderr: &out}
	if code := a.Run(t.Context(), rootCommand(a), []string{"settings"}); code != cli.ExitOK || !bytes.Contains(page, out.Bytes()) {
		t.Errorf("operations.md has not the output of 'tollgate settings', %d:\n%s", code, &out)
	}
}
