package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/clitest"
)

// Every command on the page of the command line is one, with flags that it has.
func TestPageNamesCommands(t *testing.T) {
	page, err := os.ReadFile("../../handlers/docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("`tollgate ([^`]+)`").FindAllStringSubmatch(string(page), -1)
	if len(found) < 40 {
		t.Fatalf("found %d commands: the test does not see them", len(found))
	}
	for _, m := range found {
		m[1] = regexp.MustCompile(`\$[A-Z_]+`).ReplaceAllString(m[1], "id")
		a, _, _ := clitest.App(nil)
		root := rootCommand(a)
		c, rest, err := root.Find(clitest.WordsOf(t, "tollgate "+m[1]))
		if err != nil || c == root {
			t.Errorf("%s: there is no such command", m[1])
			continue
		}
		c.InitDefaultHelpFlag()
		if err := c.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
	}
}

// withoutJSON are the commands that print nothing that a program would read, and why.
var withoutJSON = map[string]string{
	"serve": "runs", "work": "runs", "dev": "runs", "console": "runs", "help": "for people", "completion": "for shells", "settings": "a table of the README",
	"rule check-module": "speaks JSON alone", "archive cat": "prints JSON alone", "archive export": "prints JSON alone",
	"key new client": "prints a JWK", "key new rule-signer": "prints a JWK", "key new signing": "prints a JWK", "key new secret": "prints a key",
	"rule new": "writes files", "restore": "writes a Redis", "mcp": "speaks a protocol", "webhooks verify": "its exit code says it all",
	"history": "is a group that shows one of its own",
}

// What prints something has --json, but for those that are named above.
func TestCommandsPrintJSON(t *testing.T) {
	a, _, _ := clitest.App(nil)
	var lacking []string
	var look func(c *cobra.Command, path string)
	look = func(c *cobra.Command, path string) {
		for _, sub := range c.Commands() {
			look(sub, strings.TrimSpace(path+" "+sub.Name()))
		}
		top, _, _ := strings.Cut(path, " ")
		if c.Runnable() && withoutJSON[path] == "" && withoutJSON[top] == "" && c.Flags().Lookup("json") == nil {
			lacking = append(lacking, path)
		}
	}
	look(rootCommand(a), "")
	if len(lacking) > 0 {
		t.Errorf("without --json: %v", lacking)
	}
}
