package scripts_test

import (
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tollgate/cmd/tollgate/cli"
	"tollgate/wasm/compiler"
)

// The pages that are written for one reader each. The others are older.
var forReaders = []string{
	"start", "concepts", "rules", "perimeters", "webhooks", "payouts", "sandbox", "errors", "limits", "operations", "security", "performance", "compatibility",
}

// A page begins with its title, and then says for whom it is and what they can
// do at its end. The README has its length.
func TestPagesHaveOneReader(t *testing.T) {
	files := texts(t)
	if n := strings.Count(files["README.md"], "\n"); n > 180 {
		t.Errorf("README.md has %d lines; at most 180: move what is more to a page", n)
	}
	for _, name := range forReaders {
		paragraphs := strings.SplitN(files["handlers/docs/"+name+".md"], "\n\n", 3)
		if len(paragraphs) < 3 || !strings.HasPrefix(paragraphs[0], "# ") {
			t.Errorf("%s.md has no title in its first line", name)
			continue
		}
		if first := strings.ReplaceAll(paragraphs[1], "\n", " "); !strings.HasPrefix(first, "For ") || !strings.Contains(first, "t the end of this page you") {
			t.Errorf("%s.md does not say for whom it is and what they can do at its end: %q", name, first)
		}
		if !strings.Contains(files["README.md"], "(handlers/docs/"+name+".md") {
			t.Errorf("README.md does not lead to %s.md", name)
		}
	}
}

var codeHeading = regexp.MustCompile(`(?m)^### (\S+)$`)

// Every code has its heading, which a problem leads to, and no other has one.
func TestErrorsHaveTheirHeadings(t *testing.T) {
	files := texts(t)
	codes := regexp.MustCompile(`Code\w+\s+Code = "(\w+)"`).FindAllStringSubmatch(files["error.go"], -1)
	headings := codeHeading.FindAllStringSubmatch(files["handlers/docs/errors.md"], -1)
	var all, has []string
	for _, m := range codes {
		all = append(all, m[1])
	}
	for _, m := range headings {
		has = append(has, m[1])
	}
	slices.Sort(all)
	slices.Sort(has)
	if len(all) < 50 || !slices.Equal(all, has) {
		for _, code := range all {
			if !slices.Contains(has, code) {
				t.Errorf("errors.md has no heading ### %s", code)
			}
		}
		t.Errorf("errors.md has headings of %d codes, of %d", len(has), len(all))
	}
}

// Every setting is in the operators' table, and every key of a rule.toml in the
// reference.
func TestReferencesAreWhole(t *testing.T) {
	files := texts(t)
	for _, s := range cli.Settings {
		if !strings.Contains(files["handlers/docs/operations.md"], "| `"+s.Env()+"` |") {
			t.Errorf("operations.md has no row of %s", s.Env())
		}
	}
	rules := files["handlers/docs/rules.md"]
	seen := map[reflect.Type]bool{}
	var look func(reflect.Type)
	look = func(of reflect.Type) {
		for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || seen[of] {
			return
		}
		seen[of] = true
		for i := range of.NumField() {
			if key := of.Field(i).Tag.Get("toml"); key != "" && !regexp.MustCompile("(?m)^\\|.*`\\[*"+key+"\\]*`.*\\|.*\\|").MatchString(rules) {
				t.Errorf("rules.md has no row of the key %s", key)
			}
			look(of.Field(i).Type)
		}
	}
	look(reflect.TypeFor[compiler.Table]())
	look(reflect.TypeFor[compiler.Package]())
	if len(seen) < 5 {
		t.Errorf("found %d types: the test does not see them", len(seen))
	}
}

// What stands in a page for readers and is played has its script.
func TestPlayedPagesHaveScripts(t *testing.T) {
	files := texts(t)
	for file, text := range files {
		if (file != "README.md" && path.Dir(file) != "handlers/docs") || !strings.Contains("\n"+text, "\n```sh\n") || file == "handlers/docs/contributing.md" || file == "handlers/docs/design.md" {
			continue
		}
		script := "cmd/tollgate/testdata/walk_" + strings.ToLower(strings.TrimSuffix(path.Base(file), ".md")) + ".txtar"
		if !strings.Contains(files[script], "\nwalk "+path.Base(file)+"\n") {
			t.Errorf("%s has commands that nobody plays: %s has no line %q", file, script, "walk "+path.Base(file))
		}
	}
}
