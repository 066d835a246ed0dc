package main

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
	"tollgate"
	"tollgate/wasm"
	"tollgate/wasm/compiler"

	"github.com/spf13/cobra"
)

// ruleSource is a rule as the argument of a command names it.
type ruleSource struct {
	name     string // the argument
	citation tollgate.Citation
	module   []byte
	table    *compiler.Table   // what it was compiled from; nil for a module
	golden   []wasm.GoldenCase // after ruleReader.golden
	dir      string            // where golden.json may lie; empty for a citation
	lender   *client           // of a published rule, which has golden cases of its own
}

// ruleReader reads the rules that a command names.
type ruleReader struct {
	a       *app
	service func() (*client, error) // asked only for a rule that is not on this machine
}

func (a *app) ruleReader(cmd *cobra.Command) *ruleReader {
	return &ruleReader{a, sync.OnceValues(func() (*client, error) { return a.newClient(a.config(cmd)) })}
}

// takenRules says in a command's help what can be named as a rule.
const takenRules = `A rule is a directory with rule.toml or rule.wasm, one of these files, or a
citation: of a rule that this binary brings along, or of one that the service has.`

// read reads a rule: the citation of one that this binary brings along or that
// the service has, a directory with rule.toml or rule.wasm, or such a file.
func (r *ruleReader) read(ctx context.Context, arg string) (*ruleSource, error) {
	if strings.HasPrefix(arg, "rule:") {
		return r.cited(ctx, arg)
	}
	source, err := r.a.readRule(arg)
	if err != nil {
		return nil, usageError(err)
	}
	return source, nil
}

func (r *ruleReader) cited(ctx context.Context, arg string) (*ruleSource, error) {
	c, err := tollgate.ParseCitation(arg)
	if err != nil {
		return nil, usageError(err)
	}
	source, err := shipped(c)
	if err != nil || source != nil {
		return source, err
	}
	api, err := r.service()
	if err != nil {
		return nil, usageError(fmt.Errorf("%s is not a rule that this binary brings along ('%s rule list'); to ask the service for it: %w", c, r.a.program, err))
	}
	module, err := api.module(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c, err)
	}
	return &ruleSource{name: arg, citation: c, module: module, lender: api}, nil
}

// golden adds the golden cases of a rule: those that it was published with, or
// those of golden.json beside it. A rule without any is left without.
func (r *ruleReader) golden(ctx context.Context, source *ruleSource) error {
	switch {
	case source.lender != nil:
		body, err := source.lender.get(ctx, "/v1/rules/"+tollgate.RuleID(source.citation), nil)
		if err != nil {
			return fmt.Errorf("%s: %w", source.citation, err)
		}
		var published publishedRule
		if err := parse(body, &published); err != nil {
			return err
		}
		source.golden = published.Golden
	case source.dir != "":
		file := filepath.Join(source.dir, "golden.json")
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		var err error
		if source.golden, err = r.a.readGolden(file); err != nil {
			return usageError(err)
		}
	}
	return nil
}

// readRule reads a rule from a directory or a file.
func (a *app) readRule(arg string) (*ruleSource, error) {
	info, err := os.Stat(arg)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: no such file or directory, and no citation of the form rule:name@v1", arg)
	case err != nil:
		return nil, err
	case info.IsDir():
		return a.readRuleDir(arg)
	}
	content, err := a.readInput(arg)
	if err != nil {
		return nil, err
	}
	r := &ruleSource{name: arg, citation: underTest, module: content, dir: filepath.Dir(arg)}
	if !isModule(arg, content) {
		r.module, r.table, err = compile(arg, content)
	}
	return r, err
}

// isModule reports whether a file is a module, by its name or what it begins
// with, or else the source of one.
func isModule(file string, content []byte) bool {
	return filepath.Ext(file) == ".wasm" || bytes.HasPrefix(content, []byte("\x00asm"))
}

// shipped is a rule that this binary brings along, nil if it does not.
func shipped(c tollgate.Citation) (*ruleSource, error) {
	all, err := wasm.Shipped()
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Citation == c {
			return shippedSource(r)
		}
	}
	return nil, nil
}

func shippedSource(r wasm.ShippedRule) (*ruleSource, error) {
	_, t, err := compiler.Build(r.Source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Citation, err)
	}
	return &ruleSource{name: r.Citation.String(), citation: r.Citation, module: r.Module, table: &t, golden: r.Golden}, nil
}

// readRuleDir reads a directory as `rule new` makes it. The module in it must
// be what its source builds: nobody wants to test yesterday's.
func (a *app) readRuleDir(dir string) (*ruleSource, error) {
	r := &ruleSource{name: dir, citation: underTest, dir: dir}
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
	r.module = built
	if hasSource {
		if r.module, r.table, err = compile(filepath.Join(dir, "rule.toml"), source); err != nil {
			return nil, err
		}
		if hasModule && !bytes.Equal(r.module, built) {
			return nil, fmt.Errorf("%s is not what rule.toml makes; run '%s rule build %s'", filepath.Join(dir, "rule.wasm"), a.program, dir)
		}
	}
	return r, nil
}

// compile makes a module of what stands in rule.toml: a table, or the
// description of a module that another compiler has made.
func compile(file string, source []byte) ([]byte, *compiler.Table, error) {
	described, ok, err := compiler.ParsePackage(source)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	if !ok {
		module, t, err := compiler.Build(source)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
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

// module fetches a published module.
func (c *client) module(ctx context.Context, rule tollgate.Citation) ([]byte, error) {
	token, err := c.authorization(ctx)
	if err != nil {
		return nil, err
	}
	return c.send(ctx, http.MethodGet, "/v1/rules/"+url.PathEscape(tollgate.RuleID(rule))+"/module",
		http.Header{"Authorization": {"Bearer " + token}}, nil)
}

func (a *app) readGolden(file string) ([]wasm.GoldenCase, error) {
	text, err := a.readInput(file)
	if err != nil {
		return nil, err
	}
	cases, err := wasm.ParseGolden(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return cases, nil
}

// publishedRule is a published rule with its golden cases.
type publishedRule struct {
	tollgate.Rule
	Golden []wasm.GoldenCase `json:"golden"`
}
