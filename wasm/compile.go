package wasm

import (
	"encoding/binary"
	"fmt"

	"github.com/go-json-experiment/json"

	"tollgate"
)

// Locals of quote. The first is its parameter, which a table does not need:
// the request says where everything is.
const (
	_        = iota // len i32
	locPayee        // i32: address of the payee's bytes
	locAmount
	locCurrency
	locRate
	locFixed
	locMinimum
	locMaximum
	locHigh
	locLow
	locFee
)

// tableCode compiles a plan. Texts of refusals lie at the start of the memory,
// the window behind them.
type tableCode struct {
	assembler
	data   []byte
	texts  map[refusal]int // address
	window int
}

const dataStart = 16

// module writes the plan as a module of ABI tollgate:rule/1: two functions
// without loops or calls, one page of memory. It has one endless loop for each
// payee condition "loop".
func (p *plan) compile() ([]byte, error) {
	t := &tableCode{texts: map[refusal]int{}}
	for _, r := range p.payees {
		if r.then == "refuse" {
			t.text(r.refusal)
		}
	}
	for _, r := range p.refuses {
		t.text(r.refusal)
	}
	if p.refuseRest {
		t.text(notPriced)
	}
	t.window = (dataStart + len(t.data) + 7) &^ 7
	t.quote(p)
	manifest, err := json.Marshal(Manifest{ABI, p.label})
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	free, err := p.free.section()
	if err != nil {
		return nil, err
	}
	binary := t.assemble(manifest)
	if free != nil {
		binary = appendBytes(append(binary, secCustom), free)
	}
	return binary, nil
}

func (t *tableCode) text(r refusal) {
	if _, ok := t.texts[r]; !ok {
		t.texts[r] = dataStart + len(t.data)
		t.data = append(append(t.data, r.code...), r.message...)
	}
}

func (t *tableCode) quote(p *plan) {
	t.i32(0).memory(opI64Load, t.window+8).set(locAmount)
	t.i32(0).memory(opI64Load, t.window+16).set(locCurrency)
	if len(p.payees) > 0 {
		t.i32(0).memory(opI32Load, t.window+28).set(locPayee)
	}
	for _, r := range p.payees {
		t.payee(r)
	}
	for _, r := range p.refuses {
		t.isOneOf(r.currencies)
		if r.except {
			t.op(opI32Eqz)
		}
		t.begin(opIf)
		t.refuse(r.refusal)
		t.op(opEnd)
	}
	if len(p.rows) > 0 || p.rest != nil || p.refuseRest {
		t.rates(p)
		t.fee()
	}
	t.reply(0)
	t.op(opEnd)
}

// isOneOf leaves whether the currency is one of a list.
func (t *tableCode) isOneOf(list []tollgate.Currency) {
	for i, c := range list {
		t.get(locCurrency).i64(int64(wordOf(string(c)))).op(opI64Eq)
		if i > 0 {
			t.op(opI32Or)
		}
	}
}

// wordOf is a text of at most 8 bytes as a little-endian number.
func wordOf(s string) uint64 {
	var b [8]byte
	copy(b[:], s)
	return binary.LittleEndian.Uint64(b[:])
}

// payee acts when the payee is r.name, upper and lower case alike. A bit that
// makes a letter small is set in the payee's bytes where the name has a
// letter, so that no other byte can turn into one of the name's.
func (t *tableCode) payee(r payeePlan) {
	t.i32(0).memory(opI32Load, t.window+32).i32(int32(len(r.name))).op(opI32Eq)
	t.begin(opIf).i32(1)
	for at := 0; at < len(r.name); {
		size, load := 8, byte(opI64Load)
		if len(r.name)-at < 8 {
			size, load = 1, opI32Load8U
		}
		part := r.name[at : at+size]
		t.get(locPayee).memory(load, t.window+at)
		if size == 1 {
			t.op(opI64ExtendU)
		}
		t.i64(int64(letterBits(part))).op(opI64Or).i64(int64(wordOf(part))).op(opI64Eq, opI32And)
		at += size
	}
	t.begin(opIf)
	switch r.then {
	case "refuse":
		t.refuse(r.refusal)
	case "trap":
		t.op(opUnreachable)
	case "loop":
		t.begin(opLoop).op(opBr, 0, opEnd)
	}
	t.op(opEnd, opEnd)
}

func letterBits(s string) (mask uint64) {
	for i := range len(s) {
		if s[i] >= 'a' && s[i] <= 'z' {
			mask |= 0x20 << (8 * i)
		}
	}
	return mask
}

// refuse replies with a refusal.
func (t *tableCode) refuse(r refusal) {
	size := len(r.code) + len(r.message)
	t.copy(t.window+refusalSize, t.texts[r], size)
	t.store(t.window, statusRefusal)
	t.store(t.window+8, 0)
	t.store(t.window+16, refusalSize|uint64(len(r.code))<<32)
	t.store(t.window+24, uint64(refusalSize+len(r.code))|uint64(len(r.message))<<32)
	t.i32(int32(refusalSize + size)).op(opReturn)
}

// reply returns a reply of no line, or of one line with the fee.
func (t *tableCode) reply(lines int) {
	t.store(t.window, statusLines|uint64(lines)<<32)
	t.store(t.window+8, 0)
	if lines == 1 {
		t.i32(0).get(locFee).memory(opI64Store, t.window+16)
		t.store(t.window+24, 0)
		t.store(t.window+32, 0)
	}
	t.i32(int32(replyHeader + lines*lineSize)).op(opReturn)
}

func (t *tableCode) assemble(manifest []byte) []byte {
	var s [secDataCount + 1][]byte
	// Types: () → i32 and (i32) → i32, for functions 0 and 1.
	s[secType] = []byte{2, 0x60, 0, 1, typeI32, 0x60, 1, typeI32, 1, typeI32}
	s[secFunction] = []byte{2, 0, 1}
	s[secMemory] = []byte{1, 1, 1, 1}
	exports := []byte{3}
	exports = append(appendBytes(exports, exportMemory), kindMemory, 0)
	exports = append(appendBytes(exports, exportBuffer), kindFunction, 0)
	s[secExport] = append(appendBytes(exports, exportQuote), kindFunction, 1)

	buffer := new(assembler).op(0).i32(int32(t.window)).op(opEnd)
	quote := []byte{2, 1, typeI32, locFee - locPayee, typeI64}
	s[secCode] = appendBytes(appendBytes([]byte{2}, buffer.code), append(quote, t.code...))
	if len(t.data) > 0 {
		place := new(assembler).op(1, 0).i32(dataStart).op(opEnd)
		s[secData] = appendBytes(place.code, t.data)
	}
	out := assemble(s)
	return appendBytes(append(out, secCustom), append(appendBytes(nil, manifestSection), manifest...))
}
