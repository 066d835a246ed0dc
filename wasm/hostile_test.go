package wasm_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/wasm"
)

var (
	loopForever = []byte{0x03, 0x40, 0x0c, 0, 0x0b, 0x00} // loop br 0 end unreachable
	hostile     = tollgate.Citation{Name: "hostile", Version: 1}
)

// hostileCalls are modules that load and then misbehave when they are called.
// Each must fail the rule, for the given reason.
var hostileCalls = map[string]struct {
	guest guest
	cause string
}{
	"endless loop":        {guest{quote: loopForever}, "fuel"},
	"endless br_if":       {guest{quote: join([]byte{0x03, 0x40}, i32(1), []byte{0x0d, 0, 0x0b}, i32(16))}, "fuel"},
	"endless br_table":    {guest{quote: join([]byte{0x03, 0x40}, i32(7), []byte{0x0e, 3, 0, 0, 0, 0, 0x0b, 0x00})}, "fuel"},
	"endless nested loop": {guest{quote: []byte{0x03, 0x40, 0x03, 0x40, 0x0c, 1, 0x0b, 0x0b, 0x00}}, "fuel"},
	"loop with an endless if": {guest{quote: join([]byte{0x03, 0x40}, i32(1),
		[]byte{0x04, 0x40, 0x0c, 1, 0x05, 0x0c, 1, 0x0b, 0x0b, 0x00})}, "fuel"},
	"endless recursion": {guest{quote: []byte{0x20, 0, 0x10, 1}}, "nested"},
	"endless recursion with large frames": {guest{
		locals: []byte{1, 0xfa, 1, 0x7e}, // 250 locals that stay in use over the call
		quote: func() []byte {
			var set, sum []byte
			for n := byte(1); n < 120; n++ {
				set = append(set, 0x20, 0, 0xad, 0x21, n)
				sum = append(sum, 0x20, n, 0x7c)
			}
			return join(set, []byte{0x20, 0, 0x10, 1, 0xad}, sum, []byte{0xa7})
		}(),
	}, "fuel"},
	"mutual recursion":  {guest{quote: []byte{0x10, 2}, more: []fn{{0, []byte{0x10, 3}}, {0, []byte{0x10, 2}}}}, "nested"},
	"exponential calls": {exponential(40), "fuel"},
	"recursion through a table": {guest{
		quote:    join(i32(5), i32(0), []byte{0x11, 1, 0}),
		sections: map[int][]byte{4: {1, 0x70, 0, 1}, 9: {1, 0, 0x41, 0, 0x0b, 1, 1}},
	}, "nested"},
	"endless memory.grow 0":      {guest{quote: join([]byte{0x03, 0x40}, i32(0), []byte{0x40, 0, 0x1a, 0x0c, 0, 0x0b, 0x00})}, "fuel"},
	"endless memory.grow 1":      {guest{quote: join([]byte{0x03, 0x40}, i32(1), []byte{0x40, 0, 0x1a, 0x0c, 0, 0x0b, 0x00})}, "fuel"},
	"memory.grow to 4 GiB":       {guest{quote: join(i32(65535), []byte{0x40, 0}, i32(0), []byte{0x4e, 0x04, 0x40, 0x0b, 0x00})}, "unreachable"},
	"endless memory.fill":        {guest{quote: join([]byte{0x03, 0x40}, i32(0), i32(1), i32(65536), []byte{0xfc, 11, 0, 0x0c, 0, 0x0b, 0x00})}, "fuel"},
	"endless memory.copy":        {guest{quote: join([]byte{0x03, 0x40}, i32(0), i32(8), i32(65528), []byte{0xfc, 10, 0, 0, 0x0c, 0, 0x0b, 0x00})}, "fuel"},
	"memory.fill of 4 GiB":       {guest{quote: join(i32(0), i32(1), i32(-1), []byte{0xfc, 11, 0}, i32(16))}, "fuel"},
	"memory.copy out of bounds":  {guest{quote: join(i32(65530), i32(0), i32(100), []byte{0xfc, 10, 0, 0}, i32(16))}, "out of bounds"},
	"trap":                       {guest{quote: []byte{0x00}}, "unreachable"},
	"division by zero":           {guest{quote: join(i32(1), i32(0), []byte{0x6e})}, "divide by zero"},
	"read out of bounds":         {guest{quote: join(i32(-1), []byte{0x28, 0, 0})}, "out of bounds"},
	"write out of bounds":        {guest{quote: join(i32(65535), i64(1), []byte{0x37, 0, 0}, i32(16))}, "out of bounds"},
	"call of a wrong type":       {guest{quote: join(i32(5), i32(0), []byte{0x11, 1, 0}), sections: map[int][]byte{4: {1, 0x70, 0, 1}, 9: {1, 0, 0x41, 0, 0x0b, 1, 0}}}, "indirect call"},
	"call of nothing":            {guest{quote: join(i32(5), i32(0), []byte{0x11, 1, 0}), sections: map[int][]byte{4: {1, 0x70, 0, 1}}}, "table"},
	"the request as a reply":     {guest{quote: []byte{0x20, 0}}, "bytes 8 to 15"},
	"a negative return":          {says(-7), "fault -7"},
	"a return of zero":           {says(0, 0, 0), "reply of 0 bytes"},
	"a return of 15":             {says(15, 0, 0), "reply of 15 bytes"},
	"longer than the window":     {says(4097, 0, 0), "reply of 4097 bytes"},
	"the longest number":         {says(0x7fffffff, 0, 0), "reply of 2147483647 bytes"},
	"17 lines":                   {says(4096, two(0, 17), 0), "17 lines"},
	"4 billion lines":            {says(4096, two(0, 1<<32-1), 0), "4294967295 lines"},
	"more lines than bytes":      {says(39, two(0, 1), 0), "1 lines in a reply of 39"},
	"status 2":                   {says(16, two(2, 0), 0), "status 2"},
	"refusal with lines":         {says(64, two(1, 1), 0), "status 1"},
	"reserved bytes":             {says(16, two(0, 0), 1), "bytes 8 to 15"},
	"reserved bytes of a line":   {says(40, two(0, 1), 0, 100, 0, 1), "last 8 bytes"},
	"a negative fee":             {says(40, two(0, 1), 0, 1<<64-1, 0, 0), "line of -1"},
	"a fee of 16 digits":         {says(40, two(0, 1), 0, 1e15, 0, 0), "line of 1000000000000000"},
	"fees that overflow":         {says(64, two(0, 2), 0, tollgate.MaxMinor, 0, 0, 1, 0, 0), "add up to"},
	"label behind the reply":     {says(48, two(0, 1), 0, 1, two(40, 9), 0, word("aaaaaaaa")), "outside 40…48"},
	"label over the lines":       {says(48, two(0, 1), 0, 1, two(39, 4), 0, word("aaaaaaaa")), "outside 40…48"},
	"label at the end of 2^32":   {says(48, two(0, 1), 0, 1, two(1<<32-1, 1<<32-1), 0, 0), "outside 40…48"},
	"label whose end wraps":      {says(48, two(0, 1), 0, 1, two(1<<32-8, 56), 0, 0), "outside 40…48"},
	"label with a line break":    {says(48, two(0, 1), 0, 1, two(40, 3), 0, word("a\nb")), "printable"},
	"label in broken UTF-8":      {says(48, two(0, 1), 0, 1, two(40, 2), 0, word("\xc3\x28")), "printable"},
	"label that turns direction": {says(48, two(0, 1), 0, 1, two(40, 4), 0, word("a\u202e")), "printable"},
	"label of 65 bytes":          {says(4096, two(0, 1), 0, 1, two(40, 65), 0), "printable"},
	"refusal of 31 bytes":        {says(31, two(1, 0), 0, 0, 0), "refusal of 31"},
	"refusal without a code":     {says(40, two(1, 0), 0, two(32, 0), two(32, 1), word("x")), "code: text"},
	"refusal code in capitals":   {says(40, two(1, 0), 0, two(32, 2), two(32, 2), word("No")), "whose code"},
	"refusal message outside":    {says(40, two(1, 0), 0, two(32, 2), two(32, 9), word("no")), "message: text"},
	"refusal over its own head":  {says(40, two(1, 0), 0, two(16, 2), two(32, 2), word("no")), "outside 32…40"},
}

// exponential is n functions without a loop, each calling the next twice.
func exponential(n int) guest {
	g := guest{quote: []byte{0x10, 2}}
	for i := range n - 1 {
		next := byte(3 + i)
		g.more = append(g.more, fn{0, []byte{0x10, next, 0x1a, 0x10, next}})
	}
	g.more = append(g.more, fn{0, i32(16)})
	return g
}

// endless is longer than whatever ends takes on a busy machine.
const endless = 5 * time.Minute

// within fails the test when f takes longer than any call with bounded fuel
// can; without the bound most of the modules here would never come back.
func within(t *testing.T, limit time.Duration, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("still running after %v", limit)
	}
}

// TestHostileCalls: no module hangs the service, every one fails with its
// citation and with nothing of the cause in what the caller reads, and the
// next rule works on.
func TestHostileCalls(t *testing.T) {
	for name, e := range engines(t) {
		version := 0
		good := tollgate.Citation{Name: "good", Version: 1}
		load(t, e, good, says(40, two(0, 1), 0, 5, 0, 0).bytes())
		for what, h := range hostileCalls {
			version++
			c := tollgate.Citation{Name: "hostile", Version: version}
			t.Run(name+"/"+what, func(t *testing.T) {
				load(t, e, c, h.guest.bytes())
				for range 2 { // the second call gets a fresh instance
					within(t, 20*time.Second, func() {
						room := make([]tollgate.FeeLine, 1, 40)
						lines, err := e.Quote(room, e.Refs(good, c, good), input(100, "EUR", "shop.example"))
						var te *tollgate.Error
						if !errors.As(err, &te) || te.Code != tollgate.CodeRuleFailed || te.Rule == nil || *te.Rule != c {
							t.Errorf("error %v", err)
							return
						}
						stack := strings.Contains(te.Cause.Error(), "stack overflow") // the interpreter's own limit
						if !strings.Contains(te.Cause.Error(), h.cause) && (name != "interpreter" || !stack) {
							t.Errorf("cause %v, want %q", te.Cause, h.cause)
						}
						if want := "The pricing rule " + c.String() + " could not be evaluated."; te.Message != want {
							t.Errorf("message %q", te.Message)
						}
						if len(lines) != 1 {
							t.Errorf("%d lines, want the one that was there", len(lines))
						}
					})
				}
				if lines, err := e.Quote(nil, e.Refs(good), input(100, "EUR", "shop.example")); err != nil || len(lines) != 1 {
					t.Errorf("the rule beside it: %v, %v", lines, err)
				}
			})
		}
	}
}

// hostileLoads are modules that Load must refuse, with the reason.
var hostileLoads = map[string]struct {
	module []byte
	reason string
}{
	"nothing":                    {nil, "not a WebAssembly module"},
	"a text":                     {[]byte("(module)"), "not a WebAssembly module"},
	"a component":                {[]byte("\x00asm\x0d\x00\x01\x00"), "not a WebAssembly module"},
	"an empty module":            {[]byte("\x00asm\x01\x00\x00\x00"), "manifest"},
	"too many bytes":             {append(says(16, 0, 0).bytes(), make([]byte, 256<<10)...), "at most 262144"},
	"a section cut off":          {guest{quote: i32(16), tail: []byte{11, 50, 1}}.bytes(), "too early"},
	"a section of 4 GiB":         {guest{quote: i32(16), tail: []byte{11, 0xff, 0xff, 0xff, 0xff, 0x0f}}.bytes(), "too early"},
	"a size of six bytes":        {guest{quote: i32(16), tail: []byte{11, 0x80, 0x80, 0x80, 0x80, 0x80, 0}}.bytes(), "wrong form"},
	"an unknown section":         {guest{quote: i32(16), tail: []byte{99, 0}}.bytes(), "section 99"},
	"sections out of order":      {guest{quote: i32(16), tail: []byte{1, 1, 0}}.bytes(), "section 1"},
	"two code sections":          {guest{quote: i32(16), tail: []byte{10, 1, 0}}.bytes(), "section 10"},
	"tags":                       {guest{quote: i32(16), sections: map[int][]byte{13: {1, 0, 2}}}.bytes(), "section 13"},
	"an import":                  {guest{quote: i32(16), sections: map[int][]byte{2: join([]byte{1}, blob(nil, []byte("env")), blob(nil, []byte("f")), []byte{0, 2})}}.bytes(), "imports"},
	"a start function":           {guest{quote: i32(16), more: []fn{{2, loopForever}}, sections: map[int][]byte{8: {2}}}.bytes(), "a start function is not allowed"},
	"a billion types":            {guest{quote: i32(16), sections: map[int][]byte{1: {0xff, 0xff, 0xff, 0x7f}}}.bytes(), "types, at most"},
	"a float parameter":          {guest{quote: i32(16), sections: map[int][]byte{1: {3, 0x60, 0, 1, 0x7f, 0x60, 1, 0x7d, 1, 0x7f, 0x60, 0, 0}}}.bytes(), "type 0x7d"},
	"two results":                {guest{quote: i32(16), sections: map[int][]byte{1: {3, 0x60, 0, 2, 0x7f, 0x7f, 0x60, 1, 0x7f, 1, 0x7f, 0x60, 0, 0}}}.bytes(), "results, at most"},
	"a struct type":              {guest{quote: i32(16), sections: map[int][]byte{1: {1, 0x5f, 0}}}.bytes(), "type form"},
	"float locals":               {guest{quote: i32(16), locals: []byte{1, 1, 0x7c}}.bytes(), "type 0x7c"},
	"vector locals":              {guest{quote: i32(16), locals: []byte{1, 1, 0x7b}}.bytes(), "type 0x7b"},
	"4 billion locals":           {guest{quote: i32(16), locals: []byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x7f}}.bytes(), "locals, at most"},
	"256 locals and a parameter": {guest{quote: i32(16), locals: []byte{2, 0x80, 1, 0x7f, 0x80, 1, 0x7f}}.bytes(), "more than 256 locals"},
	"float constants":            {guest{quote: join([]byte{0x43, 0, 0, 0, 0, 0x1a}, i32(16))}.bytes(), "0x43"},
	"float arithmetic":           {guest{quote: join([]byte{0x92}, i32(16))}.bytes(), "0x92"},
	"float loads":                {guest{quote: join(i32(0), []byte{0x2a, 0, 0, 0x1a}, i32(16))}.bytes(), "0x2a"},
	"float conversion":           {guest{quote: join([]byte{0xfc, 0}, i32(16))}.bytes(), "0xfc 0"},
	"vectors":                    {guest{quote: join([]byte{0xfd, 12}, i32(16))}.bytes(), "0xfd"},
	"threads":                    {guest{quote: join([]byte{0xfe, 0}, i32(16))}.bytes(), "0xfe"},
	"a tail call":                {guest{quote: []byte{0x20, 0, 0x12, 1}}.bytes(), "0x12"},
	"an exception":               {guest{quote: []byte{0x06, 0x40, 0x0b, 0x00}}.bytes(), "0x06"},
	"a reference":                {guest{quote: join([]byte{0xd0, 0x70, 0x1a}, i32(16))}.bytes(), "0xd0"},
	"table.grow":                 {guest{quote: join([]byte{0xfc, 15, 0}, i32(16))}.bytes(), "0xfc 15"},
	"memory.init":                {guest{quote: join([]byte{0xfc, 8, 0, 0}, i32(16))}.bytes(), "0xfc 8"},
	"a block with a type":        {guest{quote: join([]byte{0x02, 0x02, 0x0b}, i32(16))}.bytes(), "block type"},
	"blocks 200 deep":            {guest{quote: join(repeat([]byte{0x02, 0x40}, 200), repeat([]byte{0x0b}, 200), i32(16))}.bytes(), "nested deeper"},
	"5000 loops":                 {guest{quote: join(repeat([]byte{0x03, 0x40, 0x0b}, 5000), i32(16))}.bytes(), "more than 256 loops"},
	"3000 memory.fill":           {guest{quote: join(repeat([]byte{0x20, 0, 0x20, 0, 0x20, 0, 0xfc, 11, 0}, 3000), i32(16))}.bytes(), "more than 256 loops"},
	"a body of 40 KiB":           {guest{quote: join(repeat([]byte{0x01}, 40<<10), i32(16))}.bytes(), "bytes in a function, at most"},
	"5000 jumps":                 {guest{quote: join(repeat([]byte{0x02, 0x40, 0x0c, 0, 0x0b}, 5000), i32(16))}.bytes(), "more than 4096 jumps"},
	"5000 ifs":                   {guest{quote: join(repeat([]byte{0x20, 0, 0x04, 0x40, 0x0b}, 5000), i32(16))}.bytes(), "more than 4096 jumps"},
	"5000 targets": {
		guest{quote: join(repeat(join([]byte{0x20, 0, 0x0e, 0xe8, 7}, make([]byte, 1001)), 5), i32(16))}.bytes(),
		"more than 4096 jumps",
	},
	"20000 jumps": {
		guest{quote: i32(16), more: slices.Repeat([]fn{{2, repeat([]byte{0x02, 0x40, 0x0c, 0, 0x0b}, 4000)}}, 5)}.bytes(),
		"more than 16384 jumps in all",
	},
	"a br_table of 4 billion": {guest{quote: []byte{0x41, 0, 0x0e, 0xff, 0xff, 0xff, 0xff, 0x0f}}.bytes(), "targets of a br_table"},
	"code that does not end":  {guest{quote: []byte{0x02, 0x40}}.bytes(), "too early"},
	"code behind the end":     {guest{quote: join(i32(16), []byte{0x0b, 0x01})}.bytes(), "follows the end"},
	"a type error":            {guest{quote: i64(16)}.bytes(), "validate"},
	"an empty stack":          {guest{quote: []byte{0x6a}}.bytes(), "validate"},
	"a call of nothing":       {guest{quote: []byte{0x10, 77}}.bytes(), "validate"},
	"the fuel by its index": {
		guest{quote: join(i64(1<<60), []byte{0x24, 0}, i32(16))}.bytes(), "validate",
	},
	"the fuel by its name": {guest{
		quote: i32(16),
		sections: map[int][]byte{
			6: {1, 0x7e, 1, 0x42, 0, 0x0b},
			7: exports("memory", 2, 0, "tg_buf", 0, 0, "quote", 0, 1, "tollgate.fuel", 3, 0),
		},
	}.bytes(), "reserved"},
	"no memory":                   {guest{quote: i32(16), sections: map[int][]byte{5: {0}}}.bytes(), "a memory is needed"},
	"two memories":                {guest{quote: i32(16), sections: map[int][]byte{5: {2, 0, 1, 0, 1}}}.bytes(), "memories, at most"},
	"a memory of 17 pages":        {guest{quote: i32(16), sections: map[int][]byte{5: {1, 0, 17}}}.bytes(), "memory pages"},
	"a memory that may be 4 GiB":  {guest{quote: i32(16), sections: map[int][]byte{5: {1, 1, 1, 0x80, 0x80, 4}}}.bytes(), "memory pages as a maximum"},
	"a shared memory":             {guest{quote: i32(16), sections: map[int][]byte{5: {1, 3, 1, 1}}}.bytes(), "limits of kind"},
	"a table of a million":        {guest{quote: i32(16), sections: map[int][]byte{4: {1, 0x70, 0, 0xc0, 0x84, 0x3d}}}.bytes(), "table entries"},
	"a table of references":       {guest{quote: i32(16), sections: map[int][]byte{4: {1, 0x6f, 0, 1}}}.bytes(), "only funcref"},
	"a segment outside the table": {guest{quote: i32(16), sections: map[int][]byte{4: {1, 0x70, 0, 1}, 9: {1, 0, 0x41, 5, 0x0b, 1, 0}}}.bytes(), "outside the table"},
	"a passive segment":           {guest{quote: i32(16), sections: map[int][]byte{11: {1, 1, 0}}}.bytes(), "data segment of kind 1"},
	"data outside the memory":     {guest{quote: i32(16), sections: map[int][]byte{11: join([]byte{1, 0}, i32(65536), []byte{0x0b, 1, 7})}}.bytes(), "instantiate"},
	"a global from an expression": {guest{quote: i32(16), sections: map[int][]byte{6: {1, 0x7f, 0, 0x23, 0, 0x0b}}}.bytes(), "initial value"},
	"no export":                   {guest{quote: i32(16), sections: map[int][]byte{7: {0}}}.bytes(), `"memory" is missing`},
	"quote without a parameter":   {guest{quote: i32(16), sections: map[int][]byte{7: exports("memory", 2, 0, "tg_buf", 0, 0, "quote", 0, 0)}}.bytes(), `"quote" is not`},
	"tg_buf with one":             {guest{quote: i32(16), sections: map[int][]byte{7: exports("memory", 2, 0, "tg_buf", 0, 1, "quote", 0, 1)}}.bytes(), `"tg_buf" is not`},
	"an export of nothing":        {guest{quote: i32(16), sections: map[int][]byte{7: exports("memory", 2, 0, "tg_buf", 0, 0, "quote", 0, 99)}}.bytes(), `"quote" is not`},
	"an export twice":             {guest{quote: i32(16), sections: map[int][]byte{7: exports("memory", 2, 0, "tg_buf", 0, 0, "quote", 0, 1, "quote", 0, 1)}}.bytes(), "repeated"},
	"a window at an odd address":  {guest{quote: i32(16), buffer: i32(1025)}.bytes(), "multiple of 8"},
	"a window over the end":       {guest{quote: i32(16), buffer: i32(65536 - 4088)}.bytes(), "outside the memory"},
	"a window at -8":              {guest{quote: i32(16), buffer: i32(-8)}.bytes(), "outside the memory"},
	"a window that never comes":   {guest{quote: i32(16), buffer: loopForever}.bytes(), "fuel"},
	"a window that traps":         {guest{quote: i32(16), buffer: []byte{0x00}}.bytes(), "unreachable"},
	"no manifest":                 {guest{quote: i32(16), custom: [][]byte{}}.bytes(), "0 sections"},
	"two manifests": {guest{quote: i32(16), custom: [][]byte{
		customSection("tollgate.manifest", goodManifest), customSection("tollgate.manifest", goodManifest),
	}}.bytes(), "2 sections"},
	"a manifest that names a citation": {guest{quote: i32(16), custom: [][]byte{
		customSection("tollgate.manifest", `{"abi":"tollgate:rule/1","label":"Fee","rule":"rule:card_fee@v1"}`),
	}}.bytes(), "rule"},
	"a manifest for another ABI": {guest{quote: i32(16), custom: [][]byte{customSection("tollgate.manifest", `{"abi":"tollgate:rule/2","label":"Fee"}`)}}.bytes(), "abi"},
	"a manifest without a label": {guest{quote: i32(16), custom: [][]byte{customSection("tollgate.manifest", `{"abi":"tollgate:rule/1"}`)}}.bytes(), "label"},
	"a manifest that is no JSON": {guest{quote: i32(16), custom: [][]byte{customSection("tollgate.manifest", `label`)}}.bytes(), "manifest"},
	"a large manifest":           {guest{quote: i32(16), custom: [][]byte{customSection("tollgate.manifest", strings.Repeat(" ", 5000))}}.bytes(), "at most 4096"},
}

// TestInstructions: of the single-byte instructions those that touch floats,
// references, exceptions or tail calls are refused, and no others.
func TestInstructions(t *testing.T) {
	between := func(op, from, to int) bool { return op >= from && op <= to }
	for op := range 256 {
		integer := between(op, 0x00, 0x05) || between(op, 0x0b, 0x11) || op == 0x1a || op == 0x1b ||
			between(op, 0x20, 0x24) || between(op, 0x28, 0x42) || between(op, 0x45, 0x5a) ||
			between(op, 0x67, 0x8a) || op == 0xa7 || op == 0xac || op == 0xad || between(op, 0xc0, 0xc4)
		float := op == 0x2a || op == 0x2b || op == 0x38 || op == 0x39
		_, err := wasm.Check(guest{quote: join([]byte{byte(op)}, make([]byte, 40))}.bytes())
		refused := err != nil && strings.Contains(err.Error(), fmt.Sprintf("instruction 0x%02x is not allowed", op))
		if op != 0xfc && refused == (integer && !float) {
			t.Errorf("0x%02x: %v", op, err)
		}
	}
	for sub := range 20 {
		_, err := wasm.Check(guest{quote: join([]byte{0xfc, byte(sub)}, make([]byte, 40))}.bytes())
		if refused := strings.Contains(fmt.Sprint(err), "not allowed"); refused == (sub == 10 || sub == 11) {
			t.Errorf("0xfc %d: %v", sub, err)
		}
	}
}

// TestStartIsNotRun: _start is an export like any other.
func TestStartIsNotRun(t *testing.T) {
	g := guest{quote: join(put(0, 0), i32(16)), more: []fn{{2, []byte{0x00}}}, sections: map[int][]byte{
		7: exports("memory", 2, 0, "tg_buf", 0, 0, "quote", 0, 1, "_start", 0, 2),
	}}
	load(t, engines(t)["compiler"], hostile, g.bytes())
}

func repeat(b []byte, n int) []byte {
	var out []byte
	for range n {
		out = append(out, b...)
	}
	return out
}

func TestHostileLoads(t *testing.T) {
	for name, e := range engines(t) {
		for what, h := range hostileLoads {
			t.Run(name+"/"+what, func(t *testing.T) {
				within(t, 20*time.Second, func() {
					_, err := e.Load(context.Background(), hostile, h.module)
					if err == nil || !strings.Contains(err.Error(), h.reason) || !strings.Contains(err.Error(), hostile.String()) {
						t.Errorf("error %v, want %q", err, h.reason)
					}
				})
				if e.Has(wasm.RefOf(hostile, h.module)) {
					t.Error("it is in force")
				}
			})
		}
	}
}
