package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/rediskv/redistest"
)

// What is explained of an id, as far as the test looks at it.
type explained struct {
	Kind string                     `json:"kind"`
	Next []struct{ Command string } `json:"next"`
}

// explained reads the explanation of an id, and the words of the commands in it.
func (s *sandbox) explained(id string) (kind string, commands [][]string) {
	s.t.Helper()
	var e explained
	if err := json.Unmarshal([]byte(s.run("explain", id, "--json")), &e); err != nil {
		s.t.Fatal(err)
	}
	for _, n := range e.Next {
		_, command, _ := strings.Cut(n.Command, " ") // the program is the test's own
		commands = append(commands, clitest.WordsOf(s.t, "tollgate "+command))
	}
	return e.Kind, commands
}

// Every command that explain offers works, each on an object of its own.
func TestExplainedCommandsWork(t *testing.T) {
	t.Parallel()
	s := startSandbox(t, redistest.URL(t))
	pay := func(args ...string) func() string {
		return func() string {
			return strings.TrimSpace(s.run(append([]string{"pay", "--quiet", "10.00", "EUR", "shop.example"}, args...)...))
		}
	}
	captured := func() string {
		payment := pay()()
		return strings.TrimSpace(s.run("capture", payment, "4.00", "--final=false", "--quiet"))
	}
	ran := 0
	for kind, make := range map[string]func() string{
		"payment": pay(), "payment ": pay("--automatic"), "capture": captured,
		"payment  ": func() string {
			return strings.TrimSpace(s.run("pay", "--quiet", "1000.01", "USD", "shop.example", "--account", "ma_01kb7z2c000000000000000004"))
		},
		"ticket":           func() string { return strings.TrimSpace(s.run("ticket", pay()(), "--quiet")) },
		"refund":           func() string { return strings.TrimSpace(s.run("refund", pay("--automatic")(), "--quiet")) },
		"webhook_endpoint": func() string { return s.env["TOLLGATE_WEBHOOK"] },
		"merchant_account": func() string { return s.env["TOLLGATE_MERCHANT_ACCOUNT"] },
		"grant":            func() string { return s.env["TOLLGATE_GRANT"] },
		"rule_set":         func() string { return s.env["TOLLGATE_RULE_SET"] },
		"rule":             func() string { return "rul_card_fee_v2" },
		"event":            func() string { return strings.TrimSpace(s.run("events", "--order", "desc", "--limit", "1", "--quiet")) },
	} {
		for i := 0; ; i++ {
			got, commands := s.explained(make())
			if got != strings.TrimSpace(kind) || len(commands) == 0 {
				t.Errorf("%s is explained as a %s with %d commands", kind, got, len(commands))
			}
			if i >= len(commands) {
				break
			}
			s.run(commands[i]...)
			ran++
		}
	}
	if ran < 30 {
		t.Errorf("%d commands were offered", ran)
	}
	s.interrupt()
}

// Every error code has its help, and the commands that errors name exist.
func TestEveryCodeHasItsNextCommand(t *testing.T) {
	a, _, _ := clitest.App(nil)
	root := rootCommand(a)
	for code, h := range cli.Codes {
		if h.What == "" || h.Do == "" {
			t.Errorf("%s says nothing", code)
		}
		if h.Next == "" {
			continue
		}
		words := strings.Fields(h.Next)
		if words[0] == "help" {
			words = words[1:]
		}
		c, rest, err := root.Find(words)
		if err != nil || c == root || c.HasSubCommands() {
			t.Errorf("%s: there is no command %q", code, h.Next)
			continue
		}
		c.InitDefaultHelpFlag()
		if err := c.ParseFlags(rest); err != nil {
			t.Errorf("%s: %q: %v", code, h.Next, err)
		}
		for _, word := range rest {
			if strings.HasPrefix(word, "{") && !slices.Contains([]string{"{payment}", "{perimeter}", "{rule}"}, word) {
				t.Errorf("%s: nothing stands for %s", code, word)
			}
		}
	}
	for _, code := range []tollgate.Code{tollgate.CodeScopeMissing, tollgate.CodePerimeterDenied, tollgate.CodeRuleRejected, tollgate.CodeStoreUnavailable} {
		if cli.Codes[code].Next == "" {
			t.Errorf("%s has no next command", code)
		}
	}
}
