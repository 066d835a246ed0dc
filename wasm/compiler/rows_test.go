package compiler

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tollgate/wasm/abi"
)

const (
	label = "label = \"x\"\n"
	fee   = label + "[[fee]]\npercentage = \"1\"\n"
	eur   = label + "[[fee]]\ncurrencies = [\"EUR\"]\n"
	no    = label + "[[refuse]]\ncurrencies = [\"KPW\"]\n"
	payee = label + "[[payee]]\n"
)

// refused are files that cannot be compiled, at least one for each error that there is.
var refused = []string{
	"label = 3", label + "[[fee]]\npercentage = 1.4", // of another type
	label + "[[fee]]\ncurrencies = \"EUR\"", label + "[fee]\npercentage = \"1\"",
	label + "[[fee", label + label, label + "[[fee]]\npercentage = \"1", // no TOML
	"label = \"\\q\"", label + "[[fee]]\ncurrencies = [\"EUR\" \"USD\"]", label + "[[fee]]\npercentage : 3",
	label + "[[fee]]\npercentage = 1%", label + "[[fee]]\npercentage = x", "label = \"\xff\"",
	label + "[[fee]]\npercent = \"1\"", "Label = \"x\"",
	"[[fee]]\npercentage = \"1\"", label, label + strings.Repeat("[[fee]]\npercentage = \"1\"\n", 65),
	"otherwise = \"charge\"\n" + fee, "otherwise = \"free\"\n" + fee, fee + "[[fee]]\npercentage = \"1\"\n",
	eur + "fixed = \"1.00\"\n[[fee]]\ncurrencies = [\"EUR\"]\nfixed = \"1.00\"\n",
	label + "[[fee]]\ncurrencies = [\"eur\"]\npercentage = \"1\"", eur, fee + "up_to = \"1.00\"",
	eur + "percentage = \"1\"\ntiers = [{ percentage = \"1\" }]",
	eur + "tiers = [{ percentage = \"1\" }, { percentage = \"2\" }]",
	eur + "tiers = [{ up_to = \"60.00\" }, { up_to = \"50.00\" }, { percentage = \"1\" }]",
	eur + "tiers = [" + strings.Repeat("{ percentage = \"1\" }, ", 17) + "]",
	label + "[[fee]]\nfixed = \"1\"", eur + "fixed = \"0.255\"", eur + "fixed = \"one\"",
	eur + "minimum = \"2.00\"\nmaximum = \"1.00\"", label + "[[fee]]\npercentage = \"1%\"", label + "[[fee]]\npercentage = \"101\"",
	label + "[[refuse]]\ncode = \"a\"\nmessage = \"b\"", label + "[[refuse]]\ncurrencies = [\"EUR\", \"EUR\"]\ncode = \"a\"\nmessage = \"b\"",
	no + "code = \"Bad Code\"\nmessage = \"b\"", no + "code = \"a\"",
	payee + "name = \"Shop\"\nthen = \"trap\"", payee + "name = \"a\"\nthen = \"explode\"", payee + "name = \"a\"\nthen = \"trap\"\ncode = \"a\"",
	fee + "[refund]\n[[refund.fee]]\npercentage = \"1\"", "refunds = true\n" + fee + "[refund]\nrefunds = true\n",
	strings.Repeat("#", 65537), long(),
	// A module of another compiler; foreignModules has them.
	"module = \"plain.wasm\"\nlable = \"x\"", "module = \"\"",
	"module = \"plain.wasm\"", "module = \"named.wasm\"\nlabel = \"x\"", "module = \"named.wasm\"\nrefunds = true",
	"module = \"named.wasm\"\notherwise = \"free\"", "module = \"named.wasm\"\notherwise = \"refuse\"",
	"module = \"named.wasm\"\nfree = [\"eur\"]", "module = \"importing.wasm\"\nlabel = \"x\"", "module = \"none.wasm\"",
	"module = \"plain.wasm\"\nlabel = \"" + strings.Repeat("x", 65) + "\"",
}

// long is a table that is short enough as text and too long as code.
func long() string {
	text := "refunds = true\n" + label
	refusal := fmt.Sprintf("code = \"a\"\nmessage = \"%s\"\n", strings.Repeat("m", 200))
	all := strings.Fields("EUR USD CHF GBP SEK NOK DKK CAD AUD PLN CZK HUF RON TRY MXN BRL JPY CNY INR KRW THB SGD HKD NZD ZAR ILS")
	for _, of := range []string{"", "refund."} {
		for n := range 16 {
			text += fmt.Sprintf("[[%spayee]]\nname = \"%s%d\"\nthen = \"refuse\"\n%s", of, strings.Repeat("a", 250), n, refusal)
			text += fmt.Sprintf("[[%srefuse]]\nexcept = [\"%s\"]\n%s", of, strings.Join(all, `", "`), refusal)
		}
	}
	return text
}

// Every error that a rule.toml can give has a row on the page, and every row is an
// error that there is. What the code can say is read in its source, so an error that
// nobody provokes here is missed as well.
func TestEveryErrorHasItsRow(t *testing.T) {
	rows := errorRows(t)
	modules := foreignModules(t)
	said := []string{fmt.Sprintf(errorsOf(t, readsFiles)[0], "rule.toml", "build/rule.wasm")}
	for _, source := range refused {
		err := compileFile([]byte(source), modules)
		if err == nil {
			t.Errorf("%.200q is taken", source)
			continue
		}
		text := err.Error()
		said = append(said, text)
	}
	for _, text := range said {
		taken := false
		for _, r := range rows {
			taken = r.takes(text) || taken
		}
		if !taken {
			t.Errorf("rules.md has no row of\n%s", text)
		}
	}
	for _, r := range rows {
		if !r.seen {
			t.Errorf("rules.md has a row of %q, which no file here gives", r.text)
		}
	}
	for _, e := range errorsOf(t, "*.go", "../abi/manifest.go", "../abi/free.go", "../abi/abi.go") {
		if !slices.ContainsFunc(said, pattern(e).MatchString) {
			t.Errorf("no file here gives %q", e)
		}
	}
}

// pageRow is an error on the page, with … for what is another each time.
type pageRow struct {
	text  string
	means *regexp.Regexp
	seen  bool
}

func (r *pageRow) takes(said string) bool {
	ok := r.means.MatchString(said)
	r.seen = r.seen || ok
	return ok
}

// errorRows are the errors of rule.toml on the page: each code in the first column.
func errorRows(t *testing.T) (rows []*pageRow) {
	page, err := os.ReadFile("../../handlers/docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n### When a table is refused\n")
	text, _, _ = strings.Cut(text, "\n`rule test`, `rule check`")
	for _, m := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(text, -1) {
		for _, code := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(m[1], -1) {
			if strings.HasPrefix(code[1], "a ") && strings.HasPrefix(m[1], "`the value of … is") {
				continue // how that error may end
			}
			quoted := strings.ReplaceAll(regexp.QuoteMeta(code[1]), "…", ".+")
			rows = append(rows, &pageRow{code[1], regexp.MustCompile(quoted), false})
		}
	}
	if len(rows) < 40 {
		t.Fatalf("found %d rows: the test does not see them", len(rows))
	}
	return rows
}

// readsFiles is what reads a module that rule.toml names, for `tollgate rule build`.
const readsFiles = "../../cmd/tollgate/rules/source/source.go"

// compileFile does what `tollgate rule build` does with a rule.toml.
func compileFile(source []byte, modules map[string][]byte) error {
	p, ok, err := ParsePackage(source)
	if err == nil && ok {
		if _, err = p.Pack(modules[p.Module]); err != nil {
			return err
		}
	} else if err == nil {
		_, _, err = Build(source)
	}
	if err != nil {
		return FaultOf(source, err)
	}
	return nil
}

// foreignModules are what other compilers may have made.
func foreignModules(t *testing.T) map[string][]byte {
	named, _, err := Build([]byte("refunds = true\notherwise = \"free\"\n" + eur + "fixed = \"1.00\""))
	if err != nil {
		t.Fatal(err)
	}
	var sections [abi.SecDataCount + 1][]byte
	sections[abi.SecType] = []byte{1, 0x60, 0, 0}
	sections[2] = []byte{1, 1, 'a', 1, 'b', 0, 0} // an import
	return map[string][]byte{"named.wasm": named, "plain.wasm": []byte(abi.Magic), "importing.wasm": abi.Assemble(sections), "none.wasm": []byte("text")}
}

// internal are errors that no file gives: they only say where another one is, or
// cannot happen.
var internal = []string{
	"this is not TOML", // a word of the decoder that is not among those that are known
	"table: %w", "module: %w", "manifest: %w", "section %q: %w", "percentage: %w", "free: %w", "%s: %w",
	"manifest: abi is %q, not %q",                    // the compilers here write it
	"manifest of %d bytes, at most %d are allowed",   // of a module: "module: …"
	"section %q of %d bytes, at most %d are allowed", // the same
}

// errorsOf reads the errors that files of the source can make.
func errorsOf(t *testing.T, globs ...string) (all []string) {
	var files []string
	for _, glob := range globs {
		found, err := filepath.Glob(glob)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", glob, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "working.go" { // which explains a fee
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if file != readsFiles || ok && f.Name.Name == "Compile" {
				ast.Inspect(d, func(n ast.Node) bool {
					if format := errorFormat(n); format != "" && !slices.Contains(internal, format) {
						all = append(all, format)
					}
					return true
				})
			}
		}
	}
	if len(all) == 0 || len(globs) > 1 && len(all) < 35 {
		t.Fatalf("found %d errors: the test does not see them", len(all))
	}
	return all
}

// errorFormat is the text of what makes an error: a call, or a row of what is said
// in the place of the decoder.
func errorFormat(n ast.Node) string {
	var made ast.Expr
	switch n := n.(type) {
	case *ast.CallExpr:
		f, ok := n.Fun.(*ast.SelectorExpr)
		if ok && len(n.Args) > 0 && slices.Contains([]string{"Errorf", "New", "Sprintf"}, f.Sel.Name) {
			made = n.Args[0]
		}
	case *ast.CompositeLit:
		if len(n.Elts) == 3 {
			made = n.Elts[1]
		}
	}
	text, ok := made.(*ast.BasicLit)
	if !ok || text.Kind != token.STRING {
		return ""
	}
	format, _ := strconv.Unquote(text.Value)
	return format
}

var verb = regexp.MustCompile(`%[.0-9]*[a-z]`)

// pattern is what a format makes.
func pattern(format string) *regexp.Regexp {
	format = strings.TrimPrefix(format, "table: ") // which the reader does not see
	return regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(verb.ReplaceAllString(format, "\x00")), "\x00", ".+"))
}
