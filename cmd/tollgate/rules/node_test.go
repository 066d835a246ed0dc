package rules

import (
	"os/exec"
	"testing"

	"tollgate/cmd/tollgate/clitest"
	"tollgate/cmd/tollgate/examine"
	"tollgate/cmd/tollgate/rules/source"
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
	for what, r := range map[string]source.Rule{
		"a memory that cannot grow": {Module: clitest.Module(clitest.OneLine(0x41, 0xe4, 0, 0x40, 0, 0x41, 0x7f, 0x46, 0xad)), Golden: []wasm.GoldenCase{ // grow(100) == -1
			{Amount: "1.00", Currency: "EUR", Lines: line("0.01")},
		}},
		"deep calls": {Module: clitest.Module(clitest.OneLine(0x20, 1, 0x10, 2, 0xad), recursion), Golden: []wasm.GoldenCase{
			{Amount: "19.98", Currency: "EUR", Lines: line("19.98")},
			{Amount: "19.99", Currency: "EUR", Failed: true},
			{Amount: "30.00", Currency: "EUR", Failed: true},
		}},
	} {
		report, err := wasm.Examine(t.Context(), examine.UnderTest, r.Module, r.Golden)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if version, err := testInNode(t.Context(), &r, &report); err != nil || version == "" {
			t.Errorf("%s: %s, %v", what, version, err)
		}
	}
}
