package handlers_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// anything is what … stands for in a pattern.
const anything = "…"

// matchText compares a text with a pattern and takes what $name captures.
func matchText(pattern, have string, vars map[string]string) bool {
	var expression strings.Builder
	var captured []string
	for pattern != "" {
		at := placeholder.FindStringSubmatchIndex(pattern)
		literal := pattern
		if at != nil {
			literal = pattern[:at[0]]
		}
		expression.WriteString(strings.ReplaceAll(regexp.QuoteMeta(literal), anything, `(?s:.*)`))
		if at == nil {
			break
		}
		found := pattern[at[0]:at[1]]
		value, err := fill(found, vars)
		switch name := found[1:]; {
		case err == nil:
			expression.WriteString(regexp.QuoteMeta(value))
		case slices.Contains(captured, name):
			return false // one pattern captures a name once
		default:
			captured = append(captured, name)
			expression.WriteString(`([^\s"]+)`)
		}
		pattern = pattern[at[1]:]
	}
	values := regexp.MustCompile(`\A` + expression.String() + `\z`).FindStringSubmatch(have)
	if values == nil {
		return false
	}
	for i, name := range captured {
		vars[name] = values[i+1]
	}
	return true
}

// matchJSON compares a body with a pattern and lists the differences.
func matchJSON(pattern, have string, vars map[string]string) ([]string, error) {
	text, err := quoteAnything(pattern)
	if err != nil {
		return nil, err
	}
	var want, got any
	if err := json.Unmarshal([]byte(text), &want, jsontext.AllowDuplicateNames(false)); err != nil {
		return nil, fmt.Errorf("pattern: %w", err)
	}
	if err := json.Unmarshal([]byte(have), &got); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	var differences []string
	matchValue("", want, got, vars, func(at, format string, args ...any) {
		differences = append(differences, strings.TrimPrefix(at, ".")+" "+fmt.Sprintf(format, args...))
	})
	return differences, nil
}

// matchValue walks in the order of the names, so that captures do not depend
// on chance.
func matchValue(at string, want, have any, vars map[string]string, differs func(at, format string, args ...any)) {
	switch want := want.(type) {
	case string:
		if want == anything {
			return
		}
		if text, ok := have.(string); !ok || !matchText(want, text, vars) {
			filled, err := fill(want, vars)
			if err != nil {
				filled = want
			}
			differs(at, "is %s, not %q", shown(have), filled)
		}
	case map[string]any:
		object, ok := have.(map[string]any)
		if !ok {
			differs(at, "is %s, no object", shown(have))
			return
		}
		_, open := want[anything]
		for _, name := range slices.Sorted(maps.Keys(want)) {
			value, there := object[name]
			switch {
			case name == anything:
			case there:
				matchValue(at+"."+name, want[name], value, vars, differs)
			default:
				differs(at+"."+name, "is missing")
			}
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if _, expected := want[name]; !expected && !open {
				differs(at+"."+name, "is %s, not expected", shown(object[name]))
			}
		}
	case []any:
		list, ok := have.([]any)
		open := len(want) > 0 && want[len(want)-1] == anything
		if open {
			want = want[:len(want)-1]
		}
		if !ok || len(list) < len(want) || (len(list) > len(want) && !open) {
			differs(at, "is %s, no array of %d", shown(have), len(want))
			return
		}
		for i := range want {
			matchValue(fmt.Sprintf("%s[%d]", at, i), want[i], list[i], vars, differs)
		}
	default:
		if want != have {
			differs(at, "is %s, not %s", shown(have), shown(want))
		}
	}
}

func shown(v any) string {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// quoteAnything makes JSON of a pattern: a bare … becomes the string "…" where
// a value stands, the member "…":"…" where a name does.
func quoteAnything(pattern string) (string, error) {
	var out strings.Builder
	var open []rune // brackets
	inString, escaped := false, false
	last := ' ' // the last character that is no space
	for _, c := range pattern {
		switch {
		case inString:
			out.WriteRune(c)
			inString = escaped || c != '"'
			escaped = !escaped && c == '\\'
			last = c
			continue
		case c == '…' && len(open) > 0 && open[len(open)-1] == '{' && last != ':':
			out.WriteString(`"…":"…"`)
		case c == '…':
			out.WriteString(`"…"`)
		default:
			out.WriteRune(c)
		}
		switch c {
		case '"':
			inString = true
		case '{', '[':
			open = append(open, c)
		case '}', ']':
			if len(open) == 0 {
				return "", fmt.Errorf("pattern: a bracket too many: %s", pattern)
			}
			open = open[:len(open)-1]
		}
		if c > ' ' {
			last = c
		}
	}
	return out.String(), nil
}

// TestPatterns holds the patterns to what TestConversations says of them: one
// that accepted everything would prove nothing.
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, have string
		matches       bool
	}{
		{`{"a":"b"}`, `{"a":"b"}`, true},
		{`{"a":"b"}`, `{"a":"c"}`, false},
		{`{"a":"b"}`, `{"a":"b","c":1}`, false},
		{`{"a":"b", …}`, `{"c":1,"a":"b"}`, true},
		{`{"a":"b", …}`, `{"c":1}`, false},
		{`{…}`, `{}`, true},
		{`{…}`, `[]`, false},
		{`{"a":…}`, `{"a":null}`, true},
		{`{"a":…}`, `{}`, false},
		{`{"a":null}`, `{"a":"null"}`, false},
		{`{"a":1}`, `{"a":"1"}`, false},
		{`{"a":"1"}`, `{"a":1}`, false},
		{`{"a":true}`, `{"a":false}`, false},
		{`[]`, `[]`, true},
		{`[]`, `[1]`, false},
		{`[1, …]`, `[1,2,3]`, true},
		{`[1, …]`, `[2]`, false},
		{`[{"a":"1", …}, {"a":"2", …}]`, `[{"a":"2"},{"a":"1"}]`, false},
		{`"pay_…"`, `"pay_1"`, true},
		{`"pay_…"`, `"xpay_1"`, false},
		{`"a.c"`, `"abc"`, false},
		{`"$known"`, `"is known"`, true},
		{`"$known"`, `"is not known"`, false},
		{`["$new","$new"]`, `["a","a"]`, true},
		{`["$new","$new"]`, `["a","b"]`, false},
		{`"/v1/payments/$new"`, `"/v1/payments/"`, false},
		{`"\"…"`, `"\"…"`, true},
	} {
		differences, err := matchJSON(c.pattern, c.have, map[string]string{"known": "is known"})
		if err != nil || (len(differences) == 0) != c.matches {
			t.Errorf("%s against %s: %v %v", c.pattern, c.have, differences, err)
		}
	}
}
