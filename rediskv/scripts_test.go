package rediskv_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/script"
)

// prelude has what scripts share. Those blocks that one needs stand in front of it.
const prelude = "script/lua/prelude.lua"

// scriptFiles are the scripts of all rooms.
func scriptFiles(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{"lua/*.lua", "*/lua/*.lua", "*/*/lua/*.lua"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 20 {
		t.Fatal(files)
	}
	return files
}

// TestScriptsAreNamed: Open refuses a Store whose scripts and fields differ, and
// no script counts its arguments.
func TestScriptsAreNamed(t *testing.T) {
	numbered := regexp.MustCompile(`(?m)^[^-\n]*\b(KEYS|ARGV)\[\d`)
	for _, s := range script.All() {
		if s.Fault != nil {
			t.Error(s.Fault)
		}
		if found := numbered.FindString(s.Body); found != "" {
			t.Errorf("lua/%s.lua: %s", s.Name, found)
		}
	}
	if files := len(scriptFiles(t)); files != len(script.All())+1 { // and the prelude
		t.Errorf("%d files, %d scripts", files, len(script.All()))
	}
}

// A script has all of the prelude that it names, and what that names: Redis would find out
// only where it is run.
func TestScriptsHaveWhatTheyName(t *testing.T) {
	text, err := os.ReadFile(prelude)
	if err != nil {
		t.Fatal(err)
	}
	defined := regexp.MustCompile(`(?m)^local (?:function (\w+)\(|(\w+) =)`).FindAllStringSubmatch(string(text), -1)
	comment := regexp.MustCompile(`--.*`)
	for _, s := range script.All() {
		source := comment.ReplaceAllString(s.Source, "")
		for _, m := range defined {
			used, definition := regexp.MustCompile(`(^|[^.\w])`+m[1]+`\(`), "\nlocal function "+m[1]+"("
			if m[1] == "" {
				used, definition = regexp.MustCompile(`(^|[^.\w])`+m[2]+`\b`), "\nlocal "+m[2]+" ="
			}
			before, _, is := strings.Cut(source, definition)
			if used.MatchString(before) || (!is && used.MatchString(source)) {
				t.Errorf("lua/%s.lua uses %s, which is not in front of it", s.Name, m[1]+m[2])
			}
		}
	}
}

// Every script says in its header what goes in and what comes out; the body
// uses just that.
func TestScriptsKeepTheirContract(t *testing.T) {
	files := scriptFiles(t)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		header, body := splitHeader(string(text))
		for _, banned := range []string{"cjson", "cmsgpack", "bit.", "struct.", "redis.error_reply", "error(", "tostring("} {
			if strings.Contains(body, banned) {
				t.Errorf("%s uses %s", file, banned)
			}
		}
		if file == prelude {
			continue
		}
		for _, of := range []string{"KEYS", "ARGV"} {
			for name := range strings.SplitSeq(section(header, of), ",") {
				name = strings.TrimSpace(name)
				if !regexp.MustCompile(`\b` + name + `\b`).MatchString(body) {
					t.Errorf("%s: nothing uses %s", file, name)
				}
			}
		}
		returned := regexp.MustCompile(`\{'([a-z]+)'`)
		for _, m := range returned.FindAllStringSubmatch(body, -1) {
			if !strings.Contains(section(header, "Returns"), "'"+m[1]+"'") {
				t.Errorf("%s returns %s, which its header does not say", file, m[1])
			}
		}
	}
}

func splitHeader(text string) (header, body string) {
	for line := range strings.Lines(text) {
		if body == "" && strings.HasPrefix(line, "--") {
			header += strings.TrimPrefix(line, "--")
		} else {
			body += line
		}
	}
	return header, body
}

// section is what stands behind a word of the header, and in the lines that go on
// with it.
func section(header, name string) string {
	_, rest, _ := strings.Cut(header, " "+name+":")
	first, more, _ := strings.Cut(rest, "\n")
	for line := range strings.Lines(more) {
		if !strings.HasPrefix(line, "   ") {
			break
		}
		first += " " + strings.TrimSpace(line)
	}
	return first
}

// miniredis does not notice keys of several slots, and Redis Cluster lets an
// undeclared one slip: all keys that travel carry one tag per command.
func TestOneTagPerScript(t *testing.T) {
	server := redistest.Single(t)
	wire := redistest.Proxy(t, server.Addr)
	f := newFixtureAt(t, wire.URL)
	exercise(t, f)
	tag := regexp.MustCompile(`^\{p\d\d\}:`)
	scripts := 0
	for _, c := range wire.Sent() {
		if c.Name != "EVALSHA" && c.Name != "EVAL" {
			continue
		}
		scripts++
		n, err := strconv.Atoi(c.Args[1])
		if err != nil {
			t.Fatal(c.Args)
		}
		tags := map[string]bool{}
		for _, key := range c.Args[2 : 2+n] {
			tags[tag.FindString(key)] = true
		}
		if (len(tags) != 1 || tags[""]) && !slices.Equal(c.Args[2:2+n], []string{rediskv.MetaKey}) { // of no partition
			t.Errorf("a script with the tags %v: %v", tags, c.Args[2:2+n])
		}
	}
	if scripts < 8 {
		t.Errorf("only %d scripts travelled", scripts)
	}
}
