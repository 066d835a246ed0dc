// Package source reads a rule as a command names it: a directory, a file, or a citation.
package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/examine"
	"tollgate/wasm"
	"tollgate/wasm/compiler"
)

// Rule is a rule as the argument of a command names it.
type Rule struct {
	Name     string // the argument
	Citation tollgate.Citation
	Module   []byte
	Table    *compiler.Table   // what it was compiled from; nil for a module
	Golden   []wasm.GoldenCase // after Reader.Golden
	dir      string            // where golden.json may lie; empty for a citation
	lender   *cli.Client       // of a published rule, which has golden cases of its own
}

// Dir is where the rule's golden cases lie, empty of a citation.
func (r *Rule) Dir() string { return r.dir }

// Reader reads the rules that a command names.
type Reader struct {
	App     *cli.App
	Service func() (*cli.Client, error) // asked only for a rule that is not on this machine
}

// NewReader reads with the settings of a command.
func NewReader(a *cli.App, cmd *cobra.Command) *Reader {
	return &Reader{a, sync.OnceValues(func() (*cli.Client, error) { return a.NewClient(a.Config(cmd)) })}
}

// TakenRules says in a command's help what can be named as a rule.
const TakenRules = `A rule is a directory with rule.toml or rule.wasm, one of these files, or a
citation: of a rule that this binary brings along, or of one that the service has.`

// Read reads a rule: the citation of one that this binary brings along or that
// the service has, a directory with rule.toml or rule.wasm, or such a file.
func (r *Reader) Read(ctx context.Context, arg string) (*Rule, error) {
	if strings.HasPrefix(arg, "rule:") {
		return r.cited(ctx, arg)
	}
	source, err := readRule(r.App, arg)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	return source, nil
}

func (r *Reader) cited(ctx context.Context, arg string) (*Rule, error) {
	c, err := tollgate.ParseCitation(arg)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	source, err := Builtin(c)
	if err != nil || source != nil {
		return source, err
	}
	api, err := r.Service()
	if err != nil {
		return nil, cli.UsageError(fmt.Errorf("%s is not a rule that this binary brings along ('%s rule list'); to ask the service for it: %w", c, r.App.Program, err))
	}
	module, err := Module(ctx, api, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c, err)
	}
	return &Rule{Name: arg, Citation: c, Module: module, lender: api}, nil
}

// Golden adds the golden cases of a rule: those that it was published with, or
// those of golden.json beside it. A rule without any is left without.
func (r *Reader) Golden(ctx context.Context, source *Rule) error {
	switch {
	case source.lender != nil:
		body, err := source.lender.Get(ctx, "/v1/rules/"+tollgate.RuleID(source.Citation), nil)
		if err != nil {
			return fmt.Errorf("%s: %w", source.Citation, err)
		}
		var published PublishedRule
		if err := cli.Parse(body, &published); err != nil {
			return err
		}
		source.Golden = published.Golden
	case source.dir != "":
		file := filepath.Join(source.dir, "golden.json")
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		var err error
		if source.Golden, err = ReadGolden(r.App, file); err != nil {
			return cli.UsageError(err)
		}
	}
	return nil
}

// readRule reads a rule from a directory or a file.
func readRule(a *cli.App, arg string) (*Rule, error) {
	info, err := os.Stat(arg)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: no such file or directory, and no citation of the form rule:name@v1", arg)
	case err != nil:
		return nil, err
	case info.IsDir():
		return readRuleDir(a, arg)
	}
	content, err := a.ReadInput(arg)
	if err != nil {
		return nil, err
	}
	r := &Rule{Name: arg, Citation: examine.UnderTest, Module: content, dir: filepath.Dir(arg)}
	if !IsModule(arg, content) {
		r.Module, r.Table, err = Compile(arg, content)
	}
	return r, err
}

// IsModule reports whether a file is a module, by its name or what it begins
// with, or else the source of one.
func IsModule(file string, content []byte) bool {
	return filepath.Ext(file) == ".wasm" || bytes.HasPrefix(content, []byte("\x00asm"))
}

// Builtin is a rule that this binary brings along, nil if it does not.
func Builtin(c tollgate.Citation) (*Rule, error) {
	all, err := wasm.Builtin()
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Citation == c {
			return BuiltinRule(r)
		}
	}
	return nil, nil
}

// BuiltinRule is a rule that is part of the program.
func BuiltinRule(r wasm.BuiltinRule) (*Rule, error) {
	_, t, err := compiler.Build(r.Source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Citation, err)
	}
	return &Rule{Name: r.Citation.String(), Citation: r.Citation, Module: r.Module, Table: &t, Golden: r.Golden}, nil
}

// readRuleDir reads a directory as `rule new` makes it. The module in it must
// be what its source builds: nobody wants to test yesterday's.
func readRuleDir(a *cli.App, dir string) (*Rule, error) {
	r := &Rule{Name: dir, Citation: examine.UnderTest, dir: dir}
	source, err := os.ReadFile(filepath.Join(dir, "rule.toml"))
	hasSource := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	built, err := os.ReadFile(filepath.Join(dir, "rule.wasm"))
	hasModule := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if !hasSource && !hasModule {
		return nil, fmt.Errorf("%s holds neither rule.wasm nor rule.toml", dir)
	}
	r.Module = built
	if hasSource {
		if r.Module, r.Table, err = Compile(filepath.Join(dir, "rule.toml"), source); err != nil {
			return nil, err
		}
		if hasModule && !bytes.Equal(r.Module, built) {
			return nil, fmt.Errorf("%s is not what rule.toml makes; run '%s rule build %s'", filepath.Join(dir, "rule.wasm"), a.Program, dir)
		}
	}
	return r, nil
}

// Compile makes a module of what stands in rule.toml: a table, or the
// description of a module that another compiler has made.
func Compile(file string, source []byte) ([]byte, *compiler.Table, error) {
	described, ok, err := compiler.ParsePackage(source)
	if err != nil {
		return nil, nil, located(file, source, err)
	}
	if !ok {
		module, t, err := compiler.Build(source)
		if err != nil {
			return nil, nil, located(file, source, err)
		}
		return module, &t, nil
	}
	from := filepath.Join(filepath.Dir(file), described.Module)
	module, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%s: %s is not there; run the compiler first", file, from)
	}
	if err != nil {
		return nil, nil, err
	}
	packed, err := described.Pack(module)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", from, err)
	}
	return packed, nil, nil
}

// located says where in a file an error is, what is expected there and what to do.
func located(file string, source []byte, err error) error {
	f := compiler.FaultOf(source, err)
	where := file
	if f.Line > 0 {
		where = fmt.Sprintf("%s:%d", file, f.Line)
	}
	text := fmt.Sprintf("%s: %s", where, cli.Printable(f.What))
	if f.Want != "" {
		text += "\nExpected: " + f.Want
	}
	return fmt.Errorf("%s\nCorrect it and run the command again; 'tollgate rule new DIRECTORY' writes a whole example", text)
}

// Module fetches a published module.
func Module(ctx context.Context, c *cli.Client, rule tollgate.Citation) ([]byte, error) {
	token, err := c.Authorization(ctx)
	if err != nil {
		return nil, err
	}
	return c.Send(ctx, http.MethodGet, "/v1/rules/"+url.PathEscape(tollgate.RuleID(rule))+"/module",
		http.Header{"Authorization": {"Bearer " + token}}, nil)
}

// ReadGolden reads a file of golden cases.
func ReadGolden(a *cli.App, file string) ([]wasm.GoldenCase, error) {
	text, err := a.ReadInput(file)
	if err != nil {
		return nil, err
	}
	cases, err := wasm.ParseGolden(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return cases, nil
}

// PublishedRule is a published rule with its golden cases.
type PublishedRule struct {
	tollgate.Rule
	Golden []wasm.GoldenCase `json:"golden"`
}
