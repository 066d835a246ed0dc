// Package wasm runs pricing rules. It is the only package that knows wazero.
//
// A rule is a WebAssembly module with the ABI "tollgate:rule/1": integers
// only, no imports, no start function, and a manifest in a custom section. The
// Engine checks a module's structure, adds fuel counting to it, compiles it
// and keeps it under its citation; Quote runs a list of rules and returns fee
// lines. The host writes the citation of every line; a module cannot name one.
//
// # The ABI
//
// A module exports memory, tg_buf() → i32 and quote(len i32) → i32. tg_buf
// returns the address of a window of 4096 bytes, 8-aligned, that stays valid.
// The host writes a request there, calls quote with the request's length, and
// reads the reply from the same window. All numbers are little-endian.
//
//	request                          reply
//	 0 u16   abi = 1                  0 u32 status: 0 lines, 1 refusal
//	 2 u16   header length = 64       4 u32 count of lines, at most 16
//	 4 u32   total length             8 u64 zero
//	 8 i64   amount, minor units     16 lines, 24 bytes each:
//	16 u8[8] currency, zero-padded      i64 amount, minor units
//	24 u8    its exponent               u32 label offset
//	25 u8[3] zero                       u32 label length, 0: the manifest's
//	28 u32   payee offset               u64 zero
//	32 u32   payee length            or, when the status is 1, a refusal:
//	36 u32   parameters offset       16 u32 code offset
//	40 u32   parameters length       20 u32 code length
//	44 u32   lines before            24 u32 message offset
//	48 i64   sum of the lines before 28 u32 message length
//	56 u32   capture index
//	60 u32   kind: 0 a payment, 1 a refund
//	64       bytes
//
// quote returns the reply's length, 16…4096; a negative number is a fault.
// Text lies behind the reply's fixed part and inside its length. Anything else
// is a bad reply and fails the rule.
//
// # Refunds
//
// A module takes part in refunds if it has a custom section "tollgate.refund",
// whose content is one byte: 1, the version of what follows. Another version is
// refused. A module without the section is not run for a refund, and its word
// at 60 is always 0. Each module sees in a refund's request:
//
//	amount             what is refunded now, not what was paid
//	currency, payee    the payment's
//	lines before, sum  of the modules before it that take part in the refund
//	capture index      0, for a refund is of the payment and of no capture
//	kind               1
//
// Its lines are charges, as those of a payment are: what was charged for the
// payment stays charged. A refusal refuses the refund. A refund is priced with
// the modules that the payment was created with, whatever is in force by then.
//
// # What a module can do to the service
//
// Fuel ends every call: each function and each loop charges for its
// instructions before it runs them, bulk memory operations by size. Calls are
// nested at most 2000 deep, and memory is at most 1 MiB. The counters and the
// memory's maximum are part of the instrumented module, so a call ends at the
// same point on every machine and in every engine.
//
// Nothing outlives a call. Instances are used again, and before each call
// whatever the one before can have changed becomes as it is in a new instance:
// variable globals and memory. An instance whose memory grew is thrown away.
// What can change is read from the code (state.go). A table writes only near
// its window, so for it this takes a few nanoseconds. Compilers of other languages
// keep a stack in memory: all of the memory is made new, about 2 µs for each
// page of 64 KiB. Golden cases run shuffled on new instances and on used ones
// that are not reset, so that whoever wrote a rule that counts on state learns
// of it before it is released.
package wasm
