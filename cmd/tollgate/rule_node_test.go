package main

import (
	"os/exec"
	"strings"
	"testing"
	"tollgate/wasm"
)

// TestV8Agrees: memory and calls end in V8 where they end here, whatever limits
// it has of its own.
func TestV8Agrees(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip(err)
	}
	// f(n) is 1 + f(n-1), with 250 variables in each frame.
	recursion := []byte{
		1, 0xfa, 0x01, 0x7e, 0x20, 0, 0x45, 0x04, 0x7f, 0x41, 0, 0x05,
		0x20, 0, 0x41, 1, 0x6b, 0x10, 2, 0x41, 1, 0x6a, 0x0b, 0x0b,
	}
	line := func(amount string) []wasm.GoldenLine { return []wasm.GoldenLine{{Label: "Fee", Amount: amount}} }
	for what, r := range map[string]ruleSource{
		"a memory that cannot grow": {module: handmade(oneLine(0x41, 0xe4, 0, 0x40, 0, 0x41, 0x7f, 0x46, 0xad)), golden: []wasm.GoldenCase{ // grow(100) == -1
			{Amount: "1.00", Currency: "EUR", Lines: line("0.01")},
		}},
		"deep calls": {module: handmade(oneLine(0x20, 1, 0x10, 2, 0xad), recursion), golden: []wasm.GoldenCase{
			{Amount: "19.98", Currency: "EUR", Lines: line("19.98")},
			{Amount: "19.99", Currency: "EUR", Failed: true},
			{Amount: "30.00", Currency: "EUR", Failed: true},
		}},
	} {
		report, err := wasm.Examine(t.Context(), underTest, r.module, r.golden)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if engine, err := new(app).testInNode(t.Context(), &r, &report); err != nil || !strings.Contains(engine, "in V8") {
			t.Errorf("%s: %s, %v", what, engine, err)
		}
	}
}
