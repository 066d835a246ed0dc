package abi

import (
	"errors"
	"fmt"
	"slices"
)

// Identifiers of sections, in the order in which they must stand.
const (
	SecCustom    = 0
	SecType      = 1
	secImport    = 2
	SecFunction  = 3
	secTable     = 4
	SecMemory    = 5
	secGlobal    = 6
	SecExport    = 7
	secStart     = 8
	secElement   = 9
	SecDataCount = 12
	SecCode      = 10
	SecData      = 11
)

var sectionOrder = []byte{
	SecType, secImport, SecFunction, secTable, SecMemory, secGlobal, SecExport,
	secStart, secElement, SecDataCount, SecCode, SecData,
}

const (
	Magic   = "\x00asm\x01\x00\x00\x00"
	TypeI32 = 0x7f
	TypeI64 = 0x7e

	FuelExport  = "tollgate.fuel"
	CallsExport = "tollgate.calls"

	// globalExport and a number are under what the module's own globals are
	// exported that a call can change.
	globalExport = "tollgate.global."
)

type funcType struct{ params, results []byte }

func (t funcType) is(params, results string) bool {
	return string(t.params) == params && string(t.results) == results
}

// Module is a module that keeps within the structural limits. Its sections
// are slices of the original bytes; custom sections are gone, except that the
// manifest was read.
type Module struct {
	sections [SecDataCount + 1][]byte
	types    []funcType
	funcs    []uint32 // type index by function
	table    int      // initial entries
	Pages    int      // of memory, initially
	maxPages int
	globals  int
	exports  map[string]bool // names
	bodies   []body
	calls    bool // whether any function calls another
	Reach    Reach
	Manifest Manifest
	Free     Free
	Refunds  bool // whether it takes part in refunds
}

// ErrNotModule is the fault of bytes that do not begin as a module does.
var ErrNotModule = errors.New("not a WebAssembly module of version 1")

// Parse reads a module and refuses whatever the ABI and the limits do not
// allow. Whether the code is valid is left to wazero.
func Parse(b []byte) (*Module, error) {
	if len(b) > maxModule {
		return nil, fmt.Errorf("%d bytes, at most %d are allowed", len(b), maxModule)
	}
	c := &Cursor{B: b}
	if string(c.Bytes(len(Magic))) != Magic {
		return nil, ErrNotModule
	}
	m := new(Module)
	last, custom := -1, map[string]int{}
	for c.Left() > 0 && c.Err == nil {
		id := c.U8()
		payload := c.Bytes(int(c.U32()))
		if c.Err != nil {
			break
		}
		if id == SecCustom {
			custom[m.custom(c, payload)]++
			continue
		}
		place := slices.Index(sectionOrder, id)
		if place <= last {
			return nil, fmt.Errorf("section %d is unknown, repeated or out of order", id)
		}
		last = place
		m.sections[id] = payload
	}
	switch {
	case c.Err != nil:
		return nil, c.Err
	case custom[ManifestSection] != 1:
		return nil, fmt.Errorf("%d sections %q, exactly 1 is needed", custom[ManifestSection], ManifestSection)
	case custom[CurrenciesSection] > 1:
		return nil, fmt.Errorf("%d sections %q, at most 1 is allowed", custom[CurrenciesSection], CurrenciesSection)
	case custom[RefundSection] > 1:
		return nil, fmt.Errorf("%d sections %q, at most 1 is allowed", custom[RefundSection], RefundSection)
	case m.sections[secImport] != nil:
		return nil, errors.New("imports are not allowed")
	case m.sections[secStart] != nil:
		return nil, errors.New("a start function is not allowed")
	}
	return m, m.readSections()
}

// custom reads a custom section, if it is one of the host's, and returns its name.
func (m *Module) custom(c *Cursor, payload []byte) string {
	in := Cursor{B: payload}
	name := in.Bytes(in.count("bytes in a section's name", len(payload)))
	if in.Err != nil {
		c.Err = in.Err
		return ""
	}
	var err error
	switch string(name) {
	case ManifestSection:
		m.Manifest, err = parseManifest(payload[in.Pos:])
	case CurrenciesSection:
		m.Free, err = parseFree(payload[in.Pos:])
	case RefundSection:
		m.Refunds, err = parseRefund(payload[in.Pos:])
	}
	if err != nil && c.Err == nil {
		c.Err = err
	}
	return string(name)
}

// readSections reads each section in turn and sees that nothing is left over.
func (m *Module) readSections() error {
	readers := [...]struct {
		id   int
		read func(*Cursor)
	}{
		{SecType, m.readTypes},
		{SecFunction, m.readFunctions},
		{secTable, m.readTables},
		{SecMemory, m.readMemory},
		{secGlobal, m.readGlobals},
		{SecExport, m.readExports},
		{secElement, m.readElements},
		{SecDataCount, func(c *Cursor) { c.count("data segments", maxSegments) }},
		{SecCode, m.readCode},
		{SecData, m.readData},
	}
	for _, s := range readers {
		payload := m.sections[s.id]
		if payload == nil {
			if s.id == SecMemory || s.id == SecExport || s.id == SecCode {
				return fmt.Errorf("section %d is missing", s.id)
			}
			continue
		}
		c := &Cursor{B: payload}
		s.read(c)
		if c.Err == nil && c.Left() > 0 {
			c.fail("%d bytes are left over", c.Left())
		}
		if c.Err != nil {
			return fmt.Errorf("section %d: %w", s.id, c.Err)
		}
	}
	return nil
}
