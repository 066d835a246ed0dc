package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// walk SECTION plays the commands of a section of the README in one shell, as
// printed and in the order printed. None may fail, and each block of commands
// must print the lines that the README shows below it, in their order; only
// identifiers, times and keys may be other ones.
func walk(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: walk section")
	}
	readme, err := os.ReadFile("../../README.md")
	ts.Check(err)
	steps := readWalk(string(readme), args[0])
	if len(steps) == 0 {
		ts.Fatalf("README.md: no commands in the section %q", args[0])
	}
	const mark = "\n---- step "
	var script strings.Builder
	script.WriteString("exec 2>&1\nset -e\n")
	for i, s := range steps {
		fmt.Fprintf(&script, "printf '\\n---- step %%s\\n' %d\n%s", i, s.commands)
	}
	ts.Check(os.WriteFile(ts.MkAbs("walk.sh"), []byte(script.String()), 0o600))
	err = ts.Exec("sh", "walk.sh")
	printed := strings.Split(ts.ReadFile("stdout"), mark)[1:]
	if err != nil {
		at := max(len(printed)-1, 0)
		ts.Fatalf("README.md: %v in\n%s", err, steps[at].commands)
	}
	for i, s := range steps {
		if line, ok := shows(printed[i], s.shown); !ok {
			ts.Fatalf("README.md shows %q, which these commands do not print at its place:\n%s\nthey print\n%s", line, s.commands, printed[i])
		}
	}
}

// walkStep is a block of commands and what is shown of its output, in one block
// or several.
type walkStep struct{ commands, shown string }

func readWalk(readme, section string) (steps []walkStep) {
	_, text, _ := strings.Cut(readme, "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for i, part := range strings.Split(text, "```") {
		kind, body, _ := strings.Cut(part, "\n")
		switch {
		case i%2 == 0: // between blocks
		case kind == "sh":
			steps = append(steps, walkStep{commands: body})
		case kind == "text" && len(steps) > 0:
			steps[len(steps)-1].shown += body
		}
	}
	return steps
}

// changing is what is another time another: identifiers, times, the thumbprints
// of keys, and what V8 runs in.
var changing = regexp.MustCompile(`\b[a-z]{2,4}_[0-9a-z]{26}\b|\b\d{4}-\d\d-\d\dT[\d:.]+Z|\bkey [\w-]{43}|in V8 \(node [^)]*\)|not in V8 \([^)]*\)`)

// shows reports whether an output has lines in this order, or the first that
// is missing. Columns may be as wide as they like.
func shows(output, lines string) (missing string, ok bool) {
	plain := func(line string) string {
		return strings.Join(strings.Fields(changing.ReplaceAllString(line, "…")), " ")
	}
	rest := strings.Split(output, "\n")
	for line := range strings.Lines(lines) {
		want := plain(line)
		if want == "" {
			continue // between the outputs of two commands
		}
		for len(rest) > 0 && plain(rest[0]) != want {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return strings.TrimSpace(line), false
		}
		rest = rest[1:]
	}
	return "", true
}
