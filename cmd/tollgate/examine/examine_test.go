package examine

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/wasm"
	"tollgate/wasm/abi"
)

// bomb is a module within all structural limits that takes a compiler seconds:
// functions of many variables with jumps to the heads of many nested loops.
func bomb(functions int) []byte {
	const loops, tables, targets, variables = 120, 4, 1000, 200
	var code []byte
	emit := func(b ...byte) { code = append(code, b...) }
	local := func(op byte, n int) { code = binary.AppendUvarint(append(code, op), uint64(1+n%variables)) }
	for range loops {
		emit(0x03, 0x40)
	}
	for n := range 2400 {
		local(0x20, n)
		local(0x20, 7*n)
		emit(0x7c)
		local(0x21, n)
		if n%(2400/tables) == 0 {
			emit(0x02, 0x40)
			local(0x20, n)
			code = binary.AppendUvarint(append(code, 0xa7, 0x0e), targets)
			for i := range targets + 1 {
				emit(byte(i % loops))
			}
			emit(0x0b)
		}
	}
	for range loops {
		emit(0x0b)
	}
	emit(0x41, 16, 0x0b)
	locals := append(binary.AppendUvarint([]byte{1}, variables), 0x7e)
	return clitest.Module(slices.Repeat([][]byte{append(locals, code...)}, functions)...)
}

var good = []wasm.GoldenCase{{Amount: "10.00", Currency: "EUR", Payee: "shop.example", Lines: []wasm.GoldenLine{{Label: "Card fee", Amount: "0.44"}}}}

// TestBombIsKilled: a module that takes too long is given up at the limit of
// processor time, whatever it is, while others are examined and rules go on
// running in this process.
func TestBombIsKilled(t *testing.T) {
	ctx := context.Background()
	module := bomb(4)
	if _, err := abi.Instrumented(module); err != nil {
		t.Fatalf("the bomb breaks a structural limit: %v", err)
	}
	limits := DefaultLimits
	limits.cpu, limits.wall = time.Second, time.Minute
	engine, err := wasm.NewEngine(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close(ctx)
	card := tollgate.Citation{Name: "card_fee", Version: 2}
	ref, err := engine.Load(ctx, card, clitest.BuiltinModule(t, card))
	if err != nil {
		t.Fatal(err)
	}
	killed := make(chan error, 1)
	go func() {
		_, err := New(limits)(ctx, UnderTest, module, nil)
		killed <- err
	}()
	quotes := 0
	for deadline := time.After(limits.wall); ; quotes++ {
		in := tollgate.PricingInput{Amount: tollgate.Money{Minor: 1000, Currency: "EUR"}, Payee: "shop.example"}
		if lines, err := engine.Quote(nil, []tollgate.RuleRef{ref}, in); err != nil || len(lines) != 1 {
			t.Fatalf("a rule beside it: %v, %v", lines, err)
		}
		select {
		case err := <-killed:
			var invalid *wasm.InvalidError
			if !errors.As(err, &invalid) || !strings.Contains(invalid.Reason, "more than 1s") {
				t.Errorf("the bomb: %v", err)
			}
			if quotes < 1000 {
				t.Errorf("%d quotes beside it", quotes)
			}
			return
		case <-deadline:
			t.Fatal("the bomb is not killed")
		default:
		}
	}
}

// TestLittleMemory: a child that does not get the memory that it needs says so
// or dies; the module is refused either way, and this process goes on.
func TestLittleMemory(t *testing.T) {
	limits := DefaultLimits
	limits.memory = 1 << 30
	_, err := New(limits)(context.Background(), UnderTest, bomb(4), nil)
	if err == nil {
		t.Error("1 GiB of address space is enough for the bomb")
	}
}

func TestExamineInChild(t *testing.T) {
	ctx := context.Background()
	card := tollgate.Citation{Name: "card_fee", Version: 2}
	module := clitest.BuiltinModule(t, card)
	examine := New(DefaultLimits)
	report, err := examine(ctx, card, module, good)
	if err != nil {
		t.Fatal(err)
	}
	here, err := wasm.Examine(ctx, card, module, good)
	if err != nil {
		t.Fatal(err)
	}
	if report.CompileMicroseconds <= 0 {
		t.Errorf("it compiled in %d µs", report.CompileMicroseconds)
	}
	report.CompileMicroseconds = 0
	if report.SHA256 != here.SHA256 || report.MaxFuel != here.MaxFuel || report.Label != here.Label || len(report.Cases) != 1 ||
		wasm.Agree(report.Cases[0], here.Cases[0]) != nil {
		t.Errorf("the child reports %+v, this process %+v", report, here)
	}

	wrong := []wasm.GoldenCase{good[0], good[0]}
	wrong[1].Lines = []wasm.GoldenLine{{Label: "Card fee", Amount: "0.45"}}
	for what, k := range map[string]struct {
		module []byte
		golden []wasm.GoldenCase
		reason string
	}{
		"golden cases":   {module, wrong, "golden case 2 (10.00 EUR shop.example): 0.44 (Card fee), want 0.45 (Card fee)"},
		"nothing":        {nil, good, "not a WebAssembly module"},
		"a module":       {module[:len(module)-1], good, "too early"},
		"too much of it": {make([]byte, checkInput), good, "larger than 4 MiB"},
	} {
		_, err := examine(ctx, card, k.module, k.golden)
		var invalid *wasm.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(invalid.Reason, k.reason) {
			t.Errorf("%s: %v, want %q", what, err, k.reason)
		}
	}

	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := examine(stopped, card, module, good); !errors.Is(err, context.Canceled) {
		t.Errorf("an examination that was stopped: %v", err)
	}
}

func TestMain(m *testing.M) {
	clitest.Main(m, func(a *cli.App) []*cobra.Command { return []*cobra.Command{clitest.Under("rule", Command(a))} })
}
