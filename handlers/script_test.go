package handlers_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// step is a directive or an exchange of a conversation.
type step struct {
	at        string // file:line
	directive []string
	request   message
	answer    message
}

// message is one side of an exchange.
type message struct {
	first   []string // words of the first line
	headers [][2]string
	body    string
}

var headerLine = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*): ?(.*)$`)

// parseConversation takes a file apart; see TestConversations for its form.
func parseConversation(file, text string) (steps []step, err error) {
	var current *step
	inBody := false
	for number, line := range strings.Split(text, "\n") {
		at := fmt.Sprintf("testdata/%s:%d", file[strings.LastIndexByte(file, '/')+1:], number+1)
		mark, rest, _ := strings.Cut(line, " ")
		switch {
		case strings.TrimSpace(line) == "" || mark == "#":
			current = nil
		case mark == "!":
			steps = append(steps, step{at: at, directive: strings.Fields(rest)})
			current = nil
		case mark == ">" && (current == nil || current.answer.first != nil):
			steps = append(steps, step{at: at})
			current = &steps[len(steps)-1]
			current.request.first = strings.Fields(rest)
			inBody = false
		case mark == "<" && current != nil && current.answer.first == nil:
			current.answer.first = strings.Fields(rest)
			inBody = false
		case mark == ">" && current != nil:
			inBody = current.request.add(rest, inBody)
		case mark == "<" && current != nil:
			inBody = current.answer.add(rest, inBody)
		default:
			return nil, fmt.Errorf("%s: %q is no line of a conversation", at, line)
		}
	}
	for _, s := range steps {
		if s.directive == nil && (len(s.request.first) != 2 || len(s.answer.first) == 0) {
			return nil, fmt.Errorf("%s: an exchange is a request and an answer", s.at)
		}
	}
	return steps, nil
}

func (m *message) add(line string, inBody bool) bool {
	if header := headerLine.FindStringSubmatch(line); header != nil && !inBody {
		m.headers = append(m.headers, [2]string{header[1], header[2]})
		return false
	}
	if m.body != "" {
		m.body += "\n"
	}
	m.body += line
	return true
}

var placeholder = regexp.MustCompile(`\$(?:([a-z][a-z0-9_]*)|\{(.+?)\*([0-9]+)\})`)

// fill puts values in the place of $name and ${text*count}.
func fill(text string, vars map[string]string) (filled string, err error) {
	filled = placeholder.ReplaceAllStringFunc(text, func(found string) string {
		part := placeholder.FindStringSubmatch(found)
		if part[1] == "" {
			count, _ := strconv.Atoi(part[3]) // digits
			return strings.Repeat(part[2], count)
		}
		value, ok := vars[part[1]]
		if !ok {
			err = fmt.Errorf("%s has no value yet", found)
		}
		return value
	})
	return filled, err
}
