package cli

import (
	"fmt"
	"slices"
	"strings"
)

// Fill puts values into a template: {{.Name}} is one, and {{if .Name}} … {{else}} …
// {{end}} depends on whether one is empty. White space before {{- is left out.
//
// It is the part of text/template that templates here need. That package calls methods
// by names that the linker does not see, so the linker keeps every exported method of
// the whole program.
func Fill(text string, values map[string]string) (string, error) {
	var out strings.Builder
	var shown []bool // of each {{if}} that is open
	write := func(text string) {
		if !slices.Contains(shown, false) {
			out.WriteString(text)
		}
	}
	for {
		before, rest, found := strings.Cut(text, "{{")
		action, after, closed := strings.Cut(rest, "}}")
		if strings.HasPrefix(action, "-") {
			before = strings.TrimRight(before, " \t\n")
		}
		write(before)
		switch {
		case !found && len(shown) > 0:
			return "", fmt.Errorf("a template has no {{end}}")
		case !found:
			return out.String(), nil
		case !closed:
			return "", fmt.Errorf("a template has no }} behind %.20q", rest)
		}
		text = after
		action = strings.TrimSpace(strings.TrimPrefix(action, "-"))
		word, name, _ := strings.Cut(action, ".")
		value, known := values[name]
		word = strings.TrimSpace(word)
		open := len(shown) - 1
		switch {
		case word == "" && known:
			write(value)
		case word == "if" && known:
			shown = append(shown, value != "")
		case action == "else" && open >= 0:
			shown[open] = !shown[open]
		case action == "end" && open >= 0:
			shown = shown[:open]
		default:
			return "", fmt.Errorf("a template has {{%s}}, which means nothing", action)
		}
	}
}
