package wasm_test

import (
	"encoding/binary"
	"slices"
)

// guest writes modules by hand, hostile ones too: nothing in it is checked.
// Function 0 is tg_buf, 1 is quote, more follow. Types: 0 is () → i32, 1 is
// (i32) → i32, 2 is () → ().
type guest struct {
	buffer   []byte         // code of tg_buf; nil: address 1024
	quote    []byte         // code of quote
	locals   []byte         // of quote, as in the binary; nil: none
	more     []fn           // functions 2, 3, …
	sections map[int][]byte // instead of or beside the usual ones
	custom   [][]byte       // custom sections; nil: a proper manifest
	tail     []byte
}

type fn struct {
	typ  byte
	code []byte
}

const goodManifest = `{"abi":"tollgate:rule/1","label":"Guest"}`

func (g guest) bytes() []byte {
	buffer := g.buffer
	if buffer == nil {
		buffer = i32(1024)
	}
	locals := g.locals
	if locals == nil {
		locals = []byte{0}
	}
	functions := []byte{byte(2 + len(g.more)), 0, 1}
	code := []byte{byte(2 + len(g.more))}
	body := func(locals, code2 []byte) {
		code = blob(code, slices.Concat(locals, code2, []byte{0x0b}))
	}
	body([]byte{0}, buffer)
	body(locals, g.quote)
	for _, f := range g.more {
		functions = append(functions, f.typ)
		body([]byte{0}, f.code)
	}
	all := map[int][]byte{
		1:  {3, 0x60, 0, 1, 0x7f, 0x60, 1, 0x7f, 1, 0x7f, 0x60, 0, 0},
		3:  functions,
		5:  {1, 0, 1},
		7:  exports("memory", 2, 0, "tg_buf", 0, 0, "quote", 0, 1),
		10: code,
	}
	for id, s := range g.sections {
		all[id] = s
	}
	out := []byte("\x00asm\x01\x00\x00\x00")
	for _, id := range []int{1, 2, 3, 4, 5, 13, 6, 7, 8, 9, 12, 10, 11} {
		if s := all[id]; s != nil {
			out = blob(append(out, byte(id)), s)
		}
	}
	custom := g.custom
	if custom == nil {
		custom = [][]byte{customSection("tollgate.manifest", goodManifest)}
	}
	for _, s := range custom {
		out = blob(append(out, 0), s)
	}
	return append(out, g.tail...)
}

func customSection(name, content string) []byte {
	return append(blob(nil, []byte(name)), content...)
}

func exports(list ...any) []byte {
	out := []byte{byte(len(list) / 3)}
	for ; len(list) > 0; list = list[3:] {
		out = append(blob(out, []byte(list[0].(string))), byte(list[1].(int)), byte(list[2].(int)))
	}
	return out
}

func blob(out, b []byte) []byte {
	return append(binary.AppendUvarint(out, uint64(len(b))), b...)
}

// leb is signed LEB128.
func leb(n int64) []byte {
	var b []byte
	for n < -64 || n > 63 {
		b = append(b, byte(n&0x7f|0x80))
		n >>= 7
	}
	return append(b, byte(n&0x7f))
}

func i32(n int64) []byte { return append([]byte{0x41}, leb(n)...) }
func i64(n int64) []byte { return append([]byte{0x42}, leb(n)...) }

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

// put stores words of 8 bytes from the start of the window at 1024.
func put(words ...uint64) []byte {
	var out []byte
	for i, w := range words {
		out = join(out, i32(0), i64(int64(w)), []byte{0x37, 0}, binary.AppendUvarint(nil, uint64(1024+8*i)))
	}
	return out
}

// says is a guest that replies with these words and a length.
func says(n int64, words ...uint64) guest {
	return guest{quote: join(put(words...), i32(n))}
}

// two 32-bit numbers as one word.
func two(low, high uint32) uint64 { return uint64(low) | uint64(high)<<32 }

// word is up to 8 bytes of text.
func word(s string) uint64 {
	var b [8]byte
	copy(b[:], s)
	return binary.LittleEndian.Uint64(b[:])
}
