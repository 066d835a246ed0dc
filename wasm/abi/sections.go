package abi

const (
	KindFunction = 0
	kindTable    = 1
	KindMemory   = 2
	kindGlobal   = 3
)

func (c *Cursor) valueType() byte {
	t := c.U8()
	if t != TypeI32 && t != TypeI64 {
		c.fail("type 0x%02x: only i32 and i64 are allowed", t)
	}
	return t
}

// constant reads an initial value. With no imports there is no global that it
// could name, so a constant is all that is left.
func (c *Cursor) constant() (v int64) {
	switch op := c.U8(); op {
	case OpI32Const:
		v = c.signed(5)
	case OpI64Const:
		v = c.signed(10)
	default:
		c.fail("an initial value starts with 0x%02x, only integer constants are allowed", op)
	}
	if c.U8() != OpEnd {
		c.fail("an initial value is more than one constant")
	}
	return v
}

func (m *Module) readTypes(c *Cursor) {
	for range c.count("types", maxTypes) {
		if form := c.U8(); form != 0x60 {
			c.fail("type form 0x%02x is not a function", form)
		}
		var t funcType
		for range c.count("parameters", maxParams) {
			t.params = append(t.params, c.valueType())
		}
		for range c.count("results", 1) {
			t.results = append(t.results, c.valueType())
		}
		if c.Err != nil {
			return
		}
		m.types = append(m.types, t)
	}
}

func (m *Module) readFunctions(c *Cursor) {
	for range c.count("functions", maxFunctions) {
		t := c.U32()
		if int64(t) >= int64(len(m.types)) {
			c.fail("function type %d does not exist", t)
		}
		if c.Err != nil {
			return
		}
		m.funcs = append(m.funcs, t)
	}
}

func (m *Module) readTables(c *Cursor) {
	for range c.count("tables", 1) {
		if t := c.U8(); t != 0x70 {
			c.fail("table of 0x%02x, only funcref is allowed", t)
		}
		m.table, _ = c.limits("table entries", maxTable)
	}
}

func (m *Module) readMemory(c *Cursor) {
	if c.count("memories", 1) != 1 {
		c.fail("a memory is needed")
		return
	}
	m.Pages, m.maxPages = c.limits("memory pages", MemoryPages)
}

// limits returns the initial size and the maximum, which is the limit where
// none is declared.
func (c *Cursor) limits(what string, limit int) (initial, maximum int) {
	flags := c.U8()
	if flags > 1 {
		c.fail("limits of kind 0x%02x are not allowed", flags)
	}
	initial, maximum = c.count(what, limit), limit
	if flags == 1 {
		maximum = c.count(what+" as a maximum", limit)
	}
	return initial, maximum
}

func (m *Module) readGlobals(c *Cursor) {
	m.globals = c.count("globals", maxGlobals)
	for range m.globals {
		c.valueType()
		if c.U8() > 1 {
			c.fail("a global is neither constant nor variable")
		}
		c.constant()
		if c.Err != nil {
			return
		}
	}
}

func (m *Module) readExports(c *Cursor) {
	n := c.count("exports", maxExports)
	seen := make(map[string]bool, n)
	m.exports = seen
	for range n {
		name := string(c.Bytes(c.count("bytes in an exported name", maxName)))
		kind, index := c.U8(), c.U32()
		if c.Err != nil {
			return
		}
		if seen[name] || name == FuelExport || name == CallsExport {
			c.fail("export %q is repeated or reserved", name)
			return
		}
		seen[name] = true
		if !m.exportFits(name, kind, index) {
			c.fail("export %q is not what ABI tollgate:rule/1 asks for", name)
			return
		}
	}
	for _, name := range []string{ExportMemory, ExportBuffer, ExportQuote} {
		if !seen[name] {
			c.fail("export %q is missing", name)
		}
	}
}

func (m *Module) exportFits(name string, kind byte, index uint32) bool {
	const i32 = "\x7f"
	var t funcType
	switch {
	case kind > kindGlobal:
		return false
	case kind == KindFunction && int64(index) >= int64(len(m.funcs)):
		return false
	case kind == KindFunction:
		t = m.types[m.funcs[index]]
	}
	switch name {
	case ExportMemory:
		return kind == KindMemory && index == 0
	case ExportBuffer:
		return kind == KindFunction && t.is("", i32)
	case ExportQuote:
		return kind == KindFunction && t.is(i32, i32)
	}
	return true
}

func (m *Module) readElements(c *Cursor) {
	for range c.count("element segments", maxSegments) {
		if flags := c.U32(); flags != 0 {
			c.fail("element segment of kind %d, only active ones of table 0 are allowed", flags)
		}
		offset := uint32(c.constant())
		n := c.count("functions in an element segment", maxTable)
		for range n {
			c.U32()
		}
		// wazero passes over a segment that does not fit; other engines trap.
		if int64(offset)+int64(n) > int64(m.table) {
			c.fail("an element segment lies outside the table")
		}
		if c.Err != nil {
			return
		}
	}
}

func (m *Module) readData(c *Cursor) {
	for range c.count("data segments", maxSegments) {
		if flags := c.U32(); flags != 0 {
			c.fail("data segment of kind %d, only active ones of memory 0 are allowed", flags)
		}
		c.constant()
		c.Bytes(c.count("bytes in a data segment", maxModule))
		if c.Err != nil {
			return
		}
	}
}
