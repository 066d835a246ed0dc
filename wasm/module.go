package wasm

import (
	"errors"
	"fmt"
	"slices"
)

// Identifiers of sections, in the order in which they must stand.
const (
	secCustom    = 0
	secType      = 1
	secImport    = 2
	secFunction  = 3
	secTable     = 4
	secMemory    = 5
	secGlobal    = 6
	secExport    = 7
	secStart     = 8
	secElement   = 9
	secDataCount = 12
	secCode      = 10
	secData      = 11
)

var sectionOrder = []byte{
	secType, secImport, secFunction, secTable, secMemory, secGlobal, secExport,
	secStart, secElement, secDataCount, secCode, secData,
}

const (
	magic   = "\x00asm\x01\x00\x00\x00"
	typeI32 = 0x7f
	typeI64 = 0x7e

	fuelExport  = "tollgate.fuel"
	callsExport = "tollgate.calls"

	// globalExport and a number are under what the module's own globals are
	// exported that a call can change.
	globalExport = "tollgate.global."
)

type funcType struct{ params, results []byte }

func (t funcType) is(params, results string) bool {
	return string(t.params) == params && string(t.results) == results
}

// module is a module that keeps within the structural limits. Its sections
// are slices of the original bytes; custom sections are gone, except that the
// manifest was read.
type module struct {
	sections [secDataCount + 1][]byte
	types    []funcType
	funcs    []uint32 // type index by function
	table    int      // initial entries
	pages    int      // of memory, initially
	maxPages int
	globals  int
	exports  map[string]bool // names
	bodies   []body
	calls    bool // whether any function calls another
	reach    reach
	manifest Manifest
	free     Free
}

var errNotModule = errors.New("not a WebAssembly module of version 1")

// parse reads a module and refuses whatever the ABI and the limits do not
// allow. Whether the code is valid is left to wazero.
func parse(b []byte) (*module, error) {
	if len(b) > maxModule {
		return nil, fmt.Errorf("%d bytes, at most %d are allowed", len(b), maxModule)
	}
	c := &cursor{b: b}
	if string(c.bytes(len(magic))) != magic {
		return nil, errNotModule
	}
	m := new(module)
	last, custom := -1, map[string]int{}
	for c.left() > 0 && c.err == nil {
		id := c.u8()
		payload := c.bytes(int(c.u32()))
		if c.err != nil {
			break
		}
		if id == secCustom {
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
	case c.err != nil:
		return nil, c.err
	case custom[manifestSection] != 1:
		return nil, fmt.Errorf("%d sections %q, exactly 1 is needed", custom[manifestSection], manifestSection)
	case custom[currenciesSection] > 1:
		return nil, fmt.Errorf("%d sections %q, at most 1 is allowed", custom[currenciesSection], currenciesSection)
	case m.sections[secImport] != nil:
		return nil, errors.New("imports are not allowed")
	case m.sections[secStart] != nil:
		return nil, errors.New("a start function is not allowed")
	}
	return m, m.readSections()
}

// custom reads a custom section, if it is one of the host's, and returns its name.
func (m *module) custom(c *cursor, payload []byte) string {
	in := cursor{b: payload}
	name := in.bytes(in.count("bytes in a section's name", len(payload)))
	if in.err != nil {
		c.err = in.err
		return ""
	}
	var err error
	switch string(name) {
	case manifestSection:
		m.manifest, err = parseManifest(payload[in.pos:])
	case currenciesSection:
		m.free, err = parseFree(payload[in.pos:])
	}
	if err != nil && c.err == nil {
		c.err = err
	}
	return string(name)
}

// readSections reads each section in turn and sees that nothing is left over.
func (m *module) readSections() error {
	readers := [...]struct {
		id   int
		read func(*cursor)
	}{
		{secType, m.readTypes},
		{secFunction, m.readFunctions},
		{secTable, m.readTables},
		{secMemory, m.readMemory},
		{secGlobal, m.readGlobals},
		{secExport, m.readExports},
		{secElement, m.readElements},
		{secDataCount, func(c *cursor) { c.count("data segments", maxSegments) }},
		{secCode, m.readCode},
		{secData, m.readData},
	}
	for _, s := range readers {
		payload := m.sections[s.id]
		if payload == nil {
			if s.id == secMemory || s.id == secExport || s.id == secCode {
				return fmt.Errorf("section %d is missing", s.id)
			}
			continue
		}
		c := &cursor{b: payload}
		s.read(c)
		if c.err == nil && c.left() > 0 {
			c.fail("%d bytes are left over", c.left())
		}
		if c.err != nil {
			return fmt.Errorf("section %d: %w", s.id, c.err)
		}
	}
	return nil
}
