package wasm

import (
	"fmt"
	"slices"

	"github.com/BurntSushi/toml"
	"github.com/go-json-experiment/json"
)

// Package is the description of a module that another compiler makes: a file
// rule.toml that names it instead of a table.
//
//	module = "build/rule.wasm"   # what the compiler writes, beside this file
//	label  = "Card fee"          # the manifest that Pack adds; absent: it has one
//	free   = ["CHF"]             # currencies that it leaves free on purpose,
//	otherwise = "free"           # or all in which it charges nothing
type Package struct {
	Module string `toml:"module"`
	Label  string `toml:"label"`
	Free
}

// ParsePackage reads a description. ok is false when the text has no key
// "module": then it is a table, or nothing at all.
func ParsePackage(source []byte) (p Package, ok bool, err error) {
	if len(source) > maxTableSource {
		return p, false, nil
	}
	found, err := toml.Decode(string(source), &p)
	if err != nil || !found.IsDefined("module") {
		return Package{}, false, nil // for Build to say what is wrong
	}
	if unknown := found.Undecoded(); len(unknown) > 0 {
		return p, true, fmt.Errorf("unknown key %s beside module", unknown[0])
	}
	if p.Module == "" {
		return p, true, fmt.Errorf("module names no file")
	}
	return p, true, p.Free.check()
}

// Pack turns what a compiler made into a module that can be released: without
// names and other custom sections, with a manifest that has the label, or with
// its own when label is "", and with what it leaves free, or its own when free
// says nothing. The error says which limit or which part of the ABI the module
// does not keep.
func Pack(module []byte, label string, free Free) ([]byte, error) {
	stripped, manifests, own, err := split(module)
	if err != nil {
		return nil, fmt.Errorf("module: %w", err)
	}
	switch {
	case label != "" && len(manifests) > 0:
		return nil, fmt.Errorf("module: it has a manifest already, and a label is given")
	case label != "":
		m := Manifest{ABI, label}
		if err := m.check(); err != nil {
			return nil, err
		}
		text, err := json.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
		manifests = [][]byte{append(appendBytes(nil, manifestSection), text...)}
	case len(manifests) == 0:
		return nil, fmt.Errorf("module: it has no section %q, and no label is given for one", manifestSection)
	}
	said, err := free.section()
	if err != nil {
		return nil, err
	}
	if said != nil {
		if own != nil {
			return nil, fmt.Errorf("module: it has a section %q already, and free or otherwise is given", currenciesSection)
		}
		own = [][]byte{said}
	}
	for _, section := range slices.Concat(manifests, own) {
		stripped = appendBytes(append(stripped, secCustom), section)
	}
	if _, err := parse(stripped); err != nil {
		return nil, fmt.Errorf("module: %w", err)
	}
	return stripped, nil
}

// split returns a module without custom sections, its manifests, and its
// sections about currencies.
func split(module []byte) (stripped []byte, manifests, currencies [][]byte, err error) {
	c := &cursor{b: module}
	if string(c.bytes(len(magic))) != magic {
		return nil, nil, nil, errNotModule
	}
	stripped = slices.Clone(module[:len(magic)])
	for c.left() > 0 && c.err == nil {
		from := c.pos
		id := c.u8()
		payload := c.bytes(int(c.u32()))
		if id != secCustom {
			stripped = append(stripped, module[from:c.pos]...)
			continue
		}
		in := cursor{b: payload}
		switch string(in.bytes(int(in.u32()))) {
		case manifestSection:
			manifests = append(manifests, payload)
		case currenciesSection:
			currencies = append(currencies, payload)
		}
	}
	return stripped, manifests, currencies, c.err
}
