package compiler

import (
	"encoding/binary"
	"fmt"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/wasm/abi"
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
	texts  map[abi.Refusal]int // address; a label is the message of a refusal without a code
	label  string              // of the line; empty: the manifest's
	window int
}

const dataStart = 16

// module writes the plan as a module of ABI tollgate:rule/1: two functions
// without loops or calls, one page of memory. It has one endless loop for each
// payee condition "loop".
func (p *plan) compile() ([]byte, error) {
	t := &tableCode{texts: map[abi.Refusal]int{}}
	t.place(p)
	if p.refund != nil {
		t.place(p.refund)
		t.text(abi.Refusal{Message: p.refund.label})
	}
	t.window = (dataStart + len(t.data) + 7) &^ 7
	t.quote(p)
	manifest, err := json.Marshal(abi.Manifest{ABI: abi.ABI, Label: p.label})
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	free, err := p.free.Section()
	if err != nil {
		return nil, err
	}
	binary := t.assemble(manifest)
	if free != nil {
		binary = abi.AppendBytes(append(binary, abi.SecCustom), free)
	}
	if p.refunds {
		binary = abi.AppendBytes(append(binary, abi.SecCustom), abi.RefundContent())
	}
	return binary, nil
}

// place gives the texts of a plan's refusals their addresses.
func (t *tableCode) place(p *plan) {
	for _, r := range p.payees {
		if r.then == "refuse" {
			t.text(r.Refusal)
		}
	}
	for _, r := range p.refuses {
		t.text(r.Refusal)
	}
	if p.refuseRest != nil {
		t.text(*p.refuseRest)
	}
}

func (t *tableCode) text(r abi.Refusal) {
	if _, ok := t.texts[r]; !ok {
		t.texts[r] = dataStart + len(t.data)
		t.data = append(append(t.data, r.Code...), r.Message...)
	}
}

func (t *tableCode) quote(p *plan) {
	t.i32(0).memory(abi.OpI64Load, t.window+8).set(locAmount)
	t.i32(0).memory(abi.OpI64Load, t.window+16).set(locCurrency)
	if len(p.payees) > 0 || p.refund != nil && len(p.refund.payees) > 0 {
		t.i32(0).memory(abi.OpI32Load, t.window+28).set(locPayee)
	}
	if p.refund != nil {
		t.i32(0).memory(abi.OpI32Load, t.window+abi.RequestKind).i32(abi.RequestRefund).op(abi.OpI32Eq)
		t.begin(abi.OpIf)
		t.label = p.refund.label
		t.answer(p.refund)
		t.label = ""
		t.op(abi.OpEnd)
	}
	t.answer(p)
	t.op(abi.OpEnd)
}

// answer replies as a plan says.
func (t *tableCode) answer(p *plan) {
	for _, r := range p.payees {
		t.payee(r)
	}
	for _, r := range p.refuses {
		t.isOneOf(r.currencies)
		if r.except {
			t.op(abi.OpI32Eqz)
		}
		t.begin(abi.OpIf)
		t.refuse(r.Refusal)
		t.op(abi.OpEnd)
	}
	if len(p.rows) > 0 || p.rest != nil || p.refuseRest != nil {
		t.rates(p)
		t.fee()
	}
	t.reply(0)
}

// isOneOf leaves whether the currency is one of a list.
func (t *tableCode) isOneOf(list []tollgate.Currency) {
	for i, c := range list {
		t.get(locCurrency).i64(int64(wordOf(string(c)))).op(abi.OpI64Eq)
		if i > 0 {
			t.op(abi.OpI32Or)
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
	t.i32(0).memory(abi.OpI32Load, t.window+32).i32(int32(len(r.name))).op(abi.OpI32Eq)
	t.begin(abi.OpIf).i32(1)
	for at := 0; at < len(r.name); {
		size, load := 8, byte(abi.OpI64Load)
		if len(r.name)-at < 8 {
			size, load = 1, abi.OpI32Load8U
		}
		part := r.name[at : at+size]
		t.get(locPayee).memory(load, t.window+at)
		if size == 1 {
			t.op(abi.OpI64ExtendU)
		}
		t.i64(int64(letterBits(part))).op(abi.OpI64Or).i64(int64(wordOf(part))).op(abi.OpI64Eq, abi.OpI32And)
		at += size
	}
	t.begin(abi.OpIf)
	switch r.then {
	case "refuse":
		t.refuse(r.Refusal)
	case "trap":
		t.op(abi.OpUnreachable)
	case "loop":
		t.begin(abi.OpLoop).op(abi.OpBr, 0, abi.OpEnd)
	}
	t.op(abi.OpEnd, abi.OpEnd)
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
func (t *tableCode) refuse(r abi.Refusal) {
	size := len(r.Code) + len(r.Message)
	t.copy(t.window+abi.RefusalSize, t.texts[r], size)
	t.store(t.window, abi.StatusRefusal)
	t.store(t.window+8, 0)
	t.store(t.window+16, abi.RefusalSize|uint64(len(r.Code))<<32)
	t.store(t.window+24, uint64(abi.RefusalSize+len(r.Code))|uint64(len(r.Message))<<32)
	t.i32(int32(abi.RefusalSize + size)).op(abi.OpReturn)
}

// reply returns a reply of no line, or of one line with the fee.
func (t *tableCode) reply(lines int) {
	size := abi.ReplyHeader + lines*abi.LineSize
	t.store(t.window, abi.StatusLines|uint64(lines)<<32)
	t.store(t.window+8, 0)
	if lines == 1 {
		t.i32(0).get(locFee).memory(abi.OpI64Store, t.window+16)
		t.store(t.window+24, t.lineLabel())
		t.store(t.window+32, 0)
		size += len(t.label)
	}
	t.i32(int32(size)).op(abi.OpReturn)
}

// lineLabel puts the line's label behind it, and returns where that is and its
// length; both are zero for the manifest's.
func (t *tableCode) lineLabel() uint64 {
	if t.label == "" {
		return 0
	}
	const at = abi.ReplyHeader + abi.LineSize
	t.copy(t.window+at, t.texts[abi.Refusal{Message: t.label}], len(t.label))
	return at | uint64(len(t.label))<<32
}

func (t *tableCode) assemble(manifest []byte) []byte {
	var s [abi.SecDataCount + 1][]byte
	// Types: () → i32 and (i32) → i32, for functions 0 and 1.
	s[abi.SecType] = []byte{2, 0x60, 0, 1, abi.TypeI32, 0x60, 1, abi.TypeI32, 1, abi.TypeI32}
	s[abi.SecFunction] = []byte{2, 0, 1}
	s[abi.SecMemory] = []byte{1, 1, 1, 1}
	exports := []byte{3}
	exports = append(abi.AppendBytes(exports, abi.ExportMemory), abi.KindMemory, 0)
	exports = append(abi.AppendBytes(exports, abi.ExportBuffer), abi.KindFunction, 0)
	s[abi.SecExport] = append(abi.AppendBytes(exports, abi.ExportQuote), abi.KindFunction, 1)

	buffer := new(assembler).op(0).i32(int32(t.window)).op(abi.OpEnd)
	quote := []byte{2, 1, abi.TypeI32, locFee - locPayee, abi.TypeI64}
	s[abi.SecCode] = abi.AppendBytes(abi.AppendBytes([]byte{2}, buffer.code), append(quote, t.code...))
	if len(t.data) > 0 {
		place := new(assembler).op(1, 0).i32(dataStart).op(abi.OpEnd)
		s[abi.SecData] = abi.AppendBytes(place.code, t.data)
	}
	out := abi.Assemble(s)
	return abi.AppendBytes(append(out, abi.SecCustom), append(abi.AppendBytes(nil, abi.ManifestSection), manifest...))
}
