package wasm

const (
	kindFunction = 0
	kindTable    = 1
	kindMemory   = 2
	kindGlobal   = 3
)

func (c *cursor) valueType() byte {
	t := c.u8()
	if t != typeI32 && t != typeI64 {
		c.fail("type 0x%02x: only i32 and i64 are allowed", t)
	}
	return t
}

// constant reads an initial value. With no imports there is no global that it
// could name, so a constant is all that is left.
func (c *cursor) constant() (v int64) {
	switch op := c.u8(); op {
	case opI32Const:
		v = c.signed(5)
	case opI64Const:
		v = c.signed(10)
	default:
		c.fail("an initial value starts with 0x%02x, only integer constants are allowed", op)
	}
	if c.u8() != opEnd {
		c.fail("an initial value is more than one constant")
	}
	return v
}

func (m *module) readTypes(c *cursor) {
	for range c.count("types", maxTypes) {
		if form := c.u8(); form != 0x60 {
			c.fail("type form 0x%02x is not a function", form)
		}
		var t funcType
		for range c.count("parameters", maxParams) {
			t.params = append(t.params, c.valueType())
		}
		for range c.count("results", 1) {
			t.results = append(t.results, c.valueType())
		}
		if c.err != nil {
			return
		}
		m.types = append(m.types, t)
	}
}

func (m *module) readFunctions(c *cursor) {
	for range c.count("functions", maxFunctions) {
		t := c.u32()
		if int64(t) >= int64(len(m.types)) {
			c.fail("function type %d does not exist", t)
		}
		if c.err != nil {
			return
		}
		m.funcs = append(m.funcs, t)
	}
}

func (m *module) readTables(c *cursor) {
	for range c.count("tables", 1) {
		if t := c.u8(); t != 0x70 {
			c.fail("table of 0x%02x, only funcref is allowed", t)
		}
		m.table, _ = c.limits("table entries", maxTable)
	}
}

func (m *module) readMemory(c *cursor) {
	if c.count("memories", 1) != 1 {
		c.fail("a memory is needed")
		return
	}
	m.pages, m.maxPages = c.limits("memory pages", memoryPages)
}

// limits returns the initial size and the maximum, which is the limit where
// none is declared.
func (c *cursor) limits(what string, limit int) (initial, maximum int) {
	flags := c.u8()
	if flags > 1 {
		c.fail("limits of kind 0x%02x are not allowed", flags)
	}
	initial, maximum = c.count(what, limit), limit
	if flags == 1 {
		maximum = c.count(what+" as a maximum", limit)
	}
	return initial, maximum
}

func (m *module) readGlobals(c *cursor) {
	m.globals = c.count("globals", maxGlobals)
	for range m.globals {
		c.valueType()
		if c.u8() > 1 {
			c.fail("a global is neither constant nor variable")
		}
		c.constant()
		if c.err != nil {
			return
		}
	}
}

func (m *module) readExports(c *cursor) {
	n := c.count("exports", maxExports)
	seen := make(map[string]bool, n)
	m.exports = seen
	for range n {
		name := string(c.bytes(c.count("bytes in an exported name", maxName)))
		kind, index := c.u8(), c.u32()
		if c.err != nil {
			return
		}
		if seen[name] || name == fuelExport || name == callsExport {
			c.fail("export %q is repeated or reserved", name)
			return
		}
		seen[name] = true
		if !m.exportFits(name, kind, index) {
			c.fail("export %q is not what ABI tollgate:rule/1 asks for", name)
			return
		}
	}
	for _, name := range []string{exportMemory, exportBuffer, exportQuote} {
		if !seen[name] {
			c.fail("export %q is missing", name)
		}
	}
}

func (m *module) exportFits(name string, kind byte, index uint32) bool {
	const i32 = "\x7f"
	var t funcType
	switch {
	case kind > kindGlobal:
		return false
	case kind == kindFunction && int64(index) >= int64(len(m.funcs)):
		return false
	case kind == kindFunction:
		t = m.types[m.funcs[index]]
	}
	switch name {
	case exportMemory:
		return kind == kindMemory && index == 0
	case exportBuffer:
		return kind == kindFunction && t.is("", i32)
	case exportQuote:
		return kind == kindFunction && t.is(i32, i32)
	}
	return true
}

func (m *module) readElements(c *cursor) {
	for range c.count("element segments", maxSegments) {
		if flags := c.u32(); flags != 0 {
			c.fail("element segment of kind %d, only active ones of table 0 are allowed", flags)
		}
		offset := uint32(c.constant())
		n := c.count("functions in an element segment", maxTable)
		for range n {
			c.u32()
		}
		// wazero passes over a segment that does not fit; other engines trap.
		if int64(offset)+int64(n) > int64(m.table) {
			c.fail("an element segment lies outside the table")
		}
		if c.err != nil {
			return
		}
	}
}

func (m *module) readData(c *cursor) {
	for range c.count("data segments", maxSegments) {
		if flags := c.u32(); flags != 0 {
			c.fail("data segment of kind %d, only active ones of memory 0 are allowed", flags)
		}
		c.constant()
		c.bytes(c.count("bytes in a data segment", maxModule))
		if c.err != nil {
			return
		}
	}
}
