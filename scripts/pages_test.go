package scripts_test

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// contract is the page that "interface §4" cites, from the root.
const contract = "handlers/docs/interface.md"

// unkept are what .gitignore leaves out of the repository, and git's own.
var unkept = []string{".git", ".tollgate", "bin", "node_modules"}

var (
	number = `(?:§|sections? )(\d+(?:\.\d+)*)`
	one    = regexp.MustCompile(number)

	// cited is "interface §4", "spec §2 and §3", or "interface §11, *damage*" with
	// the name of a part of the section.
	cited = regexp.MustCompile(`(?i)\b(?:interface|spec|specification),? (` + number + `(?:(?:,| and|, \w+, and) ` + number + `)*)` + part)
	part  = `(?:,? (?:"([^"]+)"|\*([^*]+)\*))?`

	// bare is "§4" in a page beside the contract, which has no need to say of what.
	bare = regexp.MustCompile(`(RFC \d+,? )?(§\d+(?:\.\d+)*)` + part)

	// broken is the end of a line with the comment sign of the next.
	broken = regexp.MustCompile(`\s*\n[\s/#>-]*`)
)

// Every section of the contract that a file cites is there, and so is the part
// of it that the file names.
func TestCitedSectionsExist(t *testing.T) {
	files := texts(t)
	sections := sectionsOf(files[contract])
	count := 0
	resolve := func(file, citation, numbers string, names ...string) {
		count++
		for _, n := range one.FindAllStringSubmatch(numbers, -1) {
			parts, ok := sections[n[1]]
			if !ok {
				t.Errorf("%s cites %q; %s has no section %s", file, citation, contract, n[1])
				continue
			}
			for _, name := range names {
				if name != "" && !slices.Contains(parts, strings.ToLower(name)) {
					t.Errorf("%s cites %q; section %s of %s has no part of that name", file, citation, n[1], contract)
				}
			}
		}
	}
	for file, text := range files {
		text = broken.ReplaceAllString(text, " ")
		for _, m := range cited.FindAllStringSubmatch(text, -1) {
			resolve(file, m[0], m[1], m[len(m)-2:]...)
		}
		if path.Dir(file) != path.Dir(contract) {
			continue
		}
		for _, m := range bare.FindAllStringSubmatch(text, -1) {
			if m[1] == "" { // not of an RFC
				resolve(file, m[0], m[2], m[3:]...)
			}
		}
	}
	if count < 150 {
		t.Errorf("found %d citations: the test does not see them", count)
	}
}

var (
	numbered = regexp.MustCompile(`^#+ (\d+(?:\.\d+)*)\.? `)
	leading  = regexp.MustCompile(`^(?:#+ |\*\*)(.+?)(?:\.\*\*.*)?$`) // a heading, or a paragraph's in bold
)

// sectionsOf are the numbered sections of a page, each with the names of the
// parts in it, in lower case.
func sectionsOf(page string) map[string][]string {
	sections := make(map[string][]string)
	var within []string // 4 and 4.1
	for line := range strings.Lines(prose(page)) {
		line = strings.TrimSpace(line)
		if m := numbered.FindStringSubmatch(line); m != nil {
			first, _, below := strings.Cut(m[1], ".")
			if within = []string{first}; below {
				within = append(within, m[1])
			}
			sections[m[1]] = []string{}
			continue
		}
		if m := leading.FindStringSubmatch(line); m != nil {
			for _, n := range within {
				sections[n] = append(sections[n], strings.ToLower(m[1]))
			}
		}
	}
	return sections
}

var (
	link   = regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)|(?m:^\[[^\]]+\]:\s+(\S+))`)
	scheme = regexp.MustCompile(`^(?:[A-Za-z][A-Za-z0-9+.-]*:|//)`)
)

// Every link of a page to a file, a folder or a heading of the repository leads
// there.
func TestLinksLeadSomewhere(t *testing.T) {
	files := texts(t)
	count := 0
	for file, text := range files {
		if path.Ext(file) != ".md" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(spans.ReplaceAllString(prose(text), ""), -1) {
			target := m[1] + m[2]
			if scheme.MatchString(target) {
				continue
			}
			count++
			name, fragment, _ := strings.Cut(target, "#")
			name, err := url.PathUnescape(name)
			if err != nil {
				t.Errorf("%s links to %s: %v", file, target, err)
				continue
			}
			to := file
			if name != "" {
				to = path.Join(path.Dir(file), name)
			}
			if strings.HasPrefix(name, "/") {
				to = path.Clean(name[1:])
			}
			if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(to))); err != nil || slices.Contains(unkept, strings.Split(to, "/")[0]) {
				t.Errorf("%s links to %s: there is no %s", file, target, to)
				continue
			}
			if fragment != "" && !slices.Contains(anchorsOf(files[to]), fragment) {
				t.Errorf("%s links to %s: %s has no such heading", file, target, to)
			}
		}
	}
	if count < 10 {
		t.Errorf("found %d links: the test does not see them", count)
	}
}

var (
	named      = regexp.MustCompile(`^[\w.-]+(?:/[\w.-]+)*\.(?:go|lua|txt|txtar|toml|json|mjs|sh|wasm)$|^(?:[\w.-]+/)+[\w.-]*$`)
	test       = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark)[A-Z]\w*`)
	identifier = regexp.MustCompile(`^(?:[a-zA-Z_]\w*\.)*([a-zA-Z_]\w*)$`)
	word       = regexp.MustCompile(`[A-Za-z_]\w*`)

	// written are the files that the reader makes, or that only look like one.
	written = []string{"rule.toml", "rule.wasm", "golden.json", "/v1/", "bin/tollgate", "bin/sandbox", "bin/screenshots", "payouts.mjs", "receiver.mjs", "shop.example/a"}
)

// What the pages for developers name stands in the code: a file by its name from
// the root or by its last part, a test, a function, a type or a word of a script.
func TestPagesNameWhatIsThere(t *testing.T) {
	files := texts(t)
	names, words, count := map[string]bool{}, map[string]bool{}, 0
	for file, text := range files {
		for dir := file; dir != "."; dir = path.Dir(dir) {
			names[dir], names[path.Base(dir)] = true, true
		}
		if path.Ext(file) != ".md" {
			for _, w := range word.FindAllString(text, -1) {
				words[w] = true
			}
		}
	}
	for _, page := range []string{"handlers/docs/design.md", "handlers/docs/contributing.md", "handlers/docs/durability.md", "README.md", ".github/SECURITY.md"} {
		for _, m := range spans.FindAllString(prose(files[page]), -1) {
			span := strings.Trim(m, "`")
			known := true
			switch {
			case slices.ContainsFunc(written, func(w string) bool { return strings.HasSuffix(span, w) }):
			case test.MatchString(span):
				known = words[test.FindString(span)]
			case named.MatchString(span):
				_, err := os.Stat(filepath.Join("..", filepath.FromSlash(span))) // one that is no text has no text here
				known = err == nil || names[strings.TrimSuffix(span, "/")]
			case strings.HasPrefix(span, "TOLLGATE_"): // TestVariablesExist
			case path.Dir(page) == "handlers/docs" && identifier.MatchString(span):
				known = words[identifier.FindStringSubmatch(span)[1]]
			default:
				continue
			}
			if count++; !known {
				t.Errorf("%s names %s, which is nowhere", page, span)
			}
		}
	}
	if count < 300 {
		t.Errorf("found %d names: the test does not see them", count)
	}
}

// Each promise about data names the test that holds it.
func TestPromisesNameTheirTests(t *testing.T) {
	_, promises, _ := strings.Cut(texts(t)["handlers/docs/durability.md"], "## Promises")
	promises, _, _ = strings.Cut(promises, "\n## ")
	count := 0
	for line := range strings.Lines(promises) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 2 || strings.Trim(cells[0], "-") == "" || strings.Contains(cells[1], "held by") {
			continue
		}
		count++
		if !slices.ContainsFunc(spans.FindAllString(cells[1], -1), func(span string) bool {
			return test.MatchString(strings.Trim(span, "`")) || strings.HasPrefix(span, "`make ")
		}) {
			t.Errorf("nothing holds %s", cells[0])
		}
	}
	if count < 15 {
		t.Errorf("found %d promises: the test does not see them", count)
	}
}

var (
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *#* *$`)
	address = regexp.MustCompile(`\]\([^)]*\)`) // of a link
	fences  = regexp.MustCompile("(?ms)^ *```.*?^ *```[^\n]*$")
	spans   = regexp.MustCompile("`[^`\n]*`")
)

// anchorsOf are the fragments by which GitHub finds the headings of a page: in
// lower case, with hyphens for spaces and without punctuation. The second
// heading of the same words ends in -1.
func anchorsOf(page string) []string {
	var all []string
	seen := make(map[string]int)
	for _, m := range heading.FindAllStringSubmatch(prose(page), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, address.ReplaceAllString(m[1], ""))
		n := seen[anchor]
		if seen[anchor]++; n > 0 {
			anchor += "-" + strconv.Itoa(n)
		}
		all = append(all, anchor)
	}
	return all
}

// prose is a page without its blocks of code.
func prose(page string) string { return fences.ReplaceAllString(page, "") }

// texts are the repository's files, as far as they are text, by their names
// from the root. It asks no git, which not every machine that tests has.
func texts(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case slices.Contains(unkept, entry.Name()) && entry.IsDir():
			return fs.SkipDir
		case slices.Contains(unkept, entry.Name()) || !entry.Type().IsRegular():
			return nil
		}
		text := read(t, name)
		if utf8.ValidString(text) {
			all[strings.TrimPrefix(filepath.ToSlash(name), "../")] = text
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 500 || all[contract] == "" {
		t.Fatalf("found %d files: the test does not see the repository", len(all))
	}
	return all
}
