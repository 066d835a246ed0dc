package compiler

import (
	"fmt"
	"slices"

	"github.com/BurntSushi/toml"
	"github.com/go-json-experiment/json"

	"tollgate/wasm/abi"
)

// Package is the description of a module that another compiler makes: a file
// rule.toml that names it instead of a table.
//
//	module = "build/rule.wasm"   # what the compiler writes, beside this file
//	label  = "Card fee"          # the manifest that Pack adds; absent: it has one
//	free   = ["CHF"]             # currencies that it leaves free on purpose,
//	otherwise = "free"           # or all in which it charges nothing
//	refunds = true               # it takes part in refunds
type Package struct {
	Module  string `toml:"module"`
	Label   string `toml:"label"`
	Refunds bool   `toml:"refunds"`
	abi.Free
}

// ParsePackage reads a description. ok is false when the text has no key
// "module": then it is a table, or nothing at all.
func ParsePackage(source []byte) (p Package, ok bool, err error) {
	if len(source) > maxTableSource {
		return p, false, nil
	}
	var keys map[string]any
	if _, err := toml.Decode(string(source), &keys); err != nil || keys["module"] == nil {
		return p, false, nil // for Build to say what is wrong
	}
	found, err := toml.Decode(string(source), &p)
	if err != nil {
		return Package{}, true, err
	}
	if unknown := found.Undecoded(); len(unknown) > 0 {
		return p, true, &unknownKey{unknown[0].String(), "beside module"}
	}
	if p.Module == "" {
		return p, true, fmt.Errorf("module names no file")
	}
	return p, true, p.Free.Check()
}

// Pack turns what a compiler made into a module that can be released: without
// names and other custom sections, with a manifest that has the label, or with
// its own when label is "", and with what it leaves free, or its own when free
// says nothing. A section that says that it takes part in refunds stays. The error says which limit or which part of the ABI the module
// does not keep.
func Pack(module []byte, label string, free abi.Free) ([]byte, error) {
	return Package{Label: label, Free: free}.Pack(module)
}

// Pack is the function Pack with what the description says.
func (p Package) Pack(module []byte) ([]byte, error) {
	stripped, own, err := split(module)
	if err != nil {
		return nil, fmt.Errorf("module: %w", err)
	}
	label, manifests := p.Label, own[abi.ManifestSection]
	switch {
	case label != "" && len(manifests) > 0:
		return nil, fmt.Errorf("module: it has a manifest already, and a label is given")
	case label != "":
		m := abi.Manifest{ABI: abi.ABI, Label: label}
		if err := m.Check(); err != nil {
			return nil, err
		}
		text, err := json.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
		manifests = [][]byte{append(abi.AppendBytes(nil, abi.ManifestSection), text...)}
	case len(manifests) == 0:
		return nil, fmt.Errorf("module: it has no section %q, and no label is given for one", abi.ManifestSection)
	}
	currencies, refunds := own[abi.CurrenciesSection], own[abi.RefundSection]
	said, err := p.Section()
	if err != nil {
		return nil, err
	}
	if said != nil {
		if currencies != nil {
			return nil, fmt.Errorf("module: it has a section %q already, and free or otherwise is given", abi.CurrenciesSection)
		}
		currencies = [][]byte{said}
	}
	if p.Refunds {
		if refunds != nil {
			return nil, fmt.Errorf("module: it has a section %q already, and refunds is given", abi.RefundSection)
		}
		refunds = [][]byte{abi.RefundContent()}
	}
	for _, section := range slices.Concat(manifests, currencies, refunds) {
		stripped = abi.AppendBytes(append(stripped, abi.SecCustom), section)
	}
	if _, err := abi.Parse(stripped); err != nil {
		return nil, fmt.Errorf("module: %w", err)
	}
	return stripped, nil
}

// split returns a module without custom sections, and those that Pack keeps, by
// name.
func split(module []byte) (stripped []byte, own map[string][][]byte, err error) {
	c := &abi.Cursor{B: module}
	if string(c.Bytes(len(abi.Magic))) != abi.Magic {
		return nil, nil, abi.ErrNotModule
	}
	own = map[string][][]byte{}
	stripped = slices.Clone(module[:len(abi.Magic)])
	for c.Left() > 0 && c.Err == nil {
		from := c.Pos
		id := c.U8()
		payload := c.Bytes(int(c.U32()))
		if id != abi.SecCustom {
			stripped = append(stripped, module[from:c.Pos]...)
			continue
		}
		in := abi.Cursor{B: payload}
		switch name := string(in.Bytes(int(in.U32()))); name {
		case abi.ManifestSection, abi.CurrenciesSection, abi.RefundSection:
			own[name] = append(own[name], payload)
		}
	}
	return stripped, own, c.Err
}
