package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tollgate"
	"tollgate/wasm"
)

// underTest is the citation of a rule that has none yet.
var underTest = tollgate.Citation{Name: "under_test", Version: 1}

// ruleSource is a rule as the argument of a command names it.
type ruleSource struct {
	name     string // the argument
	citation tollgate.Citation
	module   []byte
	table    *wasm.Table       // what it was compiled from; nil for a module
	golden   []wasm.GoldenCase // none when it has no golden.json
}

// readRule reads a rule: the citation of one that this binary brings along, a
// directory with rule.toml or rule.wasm, a table, or a module.
func (a *app) readRule(arg string) (*ruleSource, error) {
	if strings.HasPrefix(arg, "rule:") {
		return readShipped(arg)
	}
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
	r := &ruleSource{name: arg, citation: underTest, module: content}
	if filepath.Ext(arg) == ".toml" {
		module, t, err := wasm.Build(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", arg, err)
		}
		r.module, r.table = module, &t
	}
	return r, nil
}

func readShipped(arg string) (*ruleSource, error) {
	c, err := tollgate.ParseCitation(arg)
	if err != nil {
		return nil, err
	}
	all, err := wasm.Shipped()
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Citation == c {
			return shippedSource(r)
		}
	}
	return nil, fmt.Errorf("%s is not a rule that this binary brings along; 'tollgate rule list' lists them", c)
}

func shippedSource(r wasm.ShippedRule) (*ruleSource, error) {
	_, t, err := wasm.Build(r.Source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Citation, err)
	}
	return &ruleSource{r.Citation.String(), r.Citation, r.Module, &t, r.Golden}, nil
}

// readRuleDir reads a directory as `rule new` makes it. The module in it must
// be what its source builds: nobody wants to test yesterday's.
func (a *app) readRuleDir(dir string) (*ruleSource, error) {
	r := &ruleSource{name: dir, citation: underTest}
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
	cases, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	if r.golden, err = wasm.ParseGolden(cases); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "golden.json"), err)
	}
	return r, nil
}

// compile makes a module of what stands in rule.toml: a table, or the
// description of a module that another compiler has made.
func compile(file string, source []byte) ([]byte, *wasm.Table, error) {
	described, ok, err := wasm.ParsePackage(source)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	if !ok {
		module, t, err := wasm.Build(source)
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
	packed, err := wasm.Pack(module, described.Label)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", from, err)
	}
	return packed, nil, nil
}
