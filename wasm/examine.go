package wasm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"tollgate"
)

// Report is what an examination found out about a module that passed.
type Report struct {
	SHA256              string       `json:"sha256"`
	Bytes               int          `json:"bytes"`
	Label               string       `json:"label"`
	MaxFuel             int64        `json:"max_fuel"` // of the golden cases with a reply
	CompileMicroseconds int64        `json:"compile_us"`
	Refunds             bool         `json:"refunds,omitzero"` // whether it takes part in refunds
	Cases               []CaseReport `json:"cases"`            // in the order of the golden cases

	// Silent are the currencies in which it charges nothing without saying that
	// this is meant (Engine.Silent).
	Silent []tollgate.Currency `json:"silent"`
}

// CaseReport is how a golden case ran: the same on every machine.
type CaseReport struct {
	Fuel    int64  `json:"fuel"`
	Request []byte `json:"request"`
	Reply   []byte `json:"reply"` // none when the module trapped or reported a fault
}

// Examiner judges a module that is to be released under a citation. The error
// is an *InvalidError when the module or its golden cases are at fault; any
// other error means that nobody could tell.
type Examiner func(ctx context.Context, c tollgate.Citation, module []byte, golden []GoldenCase) (Report, error)

// InvalidError says why a module cannot be released.
type InvalidError struct {
	Reason string
	Cases  []string // what every golden case says that does not hold; the first is the reason
}

func (e *InvalidError) Error() string { return e.Reason }

func invalid(format string, args ...any) error {
	return &InvalidError{Reason: fmt.Sprintf(format, args...)}
}

// Examine is an Examiner in this process: structure, validation, compilation,
// and the golden cases, if there are any, on fresh and used instances, shuffled, compiled and
// interpreted, which must agree in every byte and in fuel. Compiling hostile
// bytes can take seconds and much memory, and cannot be stopped: for modules
// of unknown origin run it in a process that can be killed.
func Examine(ctx context.Context, c tollgate.Citation, module []byte, golden []GoldenCase) (Report, error) {
	return examine(ctx, nil, c, module, golden)
}

// NewExaminer is Examine with a clock, for the time that compiling takes.
func NewExaminer(now func() time.Time) Examiner {
	return func(ctx context.Context, c tollgate.Citation, module []byte, golden []GoldenCase) (Report, error) {
		return examine(ctx, now, c, module, golden)
	}
}

func examine(ctx context.Context, now func() time.Time, c tollgate.Citation, module []byte, golden []GoldenCase) (Report, error) {
	if len(golden) > 0 {
		if err := checkGolden(golden); err != nil {
			return Report{}, invalid("%v", err)
		}
	}
	r := Report{SHA256: RefOf(c, module).SHA256, Bytes: len(module)}
	for _, interpreted := range []bool{false, true} {
		var begin time.Time
		if now != nil {
			begin = now()
		}
		t, err := NewTrial(ctx, c, module, interpreted)
		if err != nil {
			return Report{}, invalid("%v", err)
		}
		if now != nil && !interpreted {
			r.CompileMicroseconds = now().Sub(begin).Microseconds()
		}
		r.Label, r.Refunds = t.Label(), t.rule.refunds
		err = t.examine(ctx, golden, &r, interpreted)
		if err == nil && !interpreted {
			r.Silent = t.rule.silent()
		}
		if closing := t.Close(context.WithoutCancel(ctx)); err == nil {
			err = closing
		}
		if err != nil {
			return Report{}, err
		}
	}
	return r, nil
}

// rounds are the orders in which used instances see the cases: as written,
// backwards, and shuffled.
const rounds = 4

func (t *Trial) examine(ctx context.Context, golden []GoldenCase, r *Report, interpreted bool) error {
	var failing []string
	for i := range golden {
		got, wrong, err := t.examineCase(ctx, golden, i, true)
		switch {
		case err != nil:
			return err
		case wrong != nil:
			failing = append(failing, fmt.Sprintf("golden case %d (%s): %v", i+1, golden[i].Name(), wrong))
		case interpreted:
			if err := Agree(got, r.Cases[i]); err != nil {
				return invalid("golden case %d (%s), interpreted: %v", i+1, golden[i].Name(), err)
			}
		default:
			r.Cases = append(r.Cases, got)
			if len(got.Reply) > 0 {
				r.MaxFuel = max(r.MaxFuel, got.Fuel)
			}
		}
	}
	if len(failing) > 0 {
		return &InvalidError{Reason: failing[0], Cases: failing}
	}
	for round := range rounds {
		for _, i := range order(len(golden), round, r.SHA256) {
			got, wrong, err := t.examineCase(ctx, golden, i, false)
			if err != nil {
				return err
			}
			if wrong == nil {
				wrong = Agree(got, r.Cases[i])
			}
			if wrong != nil {
				return invalid("golden case %d (%s) on an instance that was used before: %v; a module must not keep anything from call to call",
					i+1, golden[i].Name(), wrong)
			}
		}
	}
	return nil
}

// examineCase runs one case. wrong says how the outcome differs from the
// case's.
func (t *Trial) examineCase(ctx context.Context, golden []GoldenCase, i int, fresh bool) (got CaseReport, wrong, err error) {
	if err := ctx.Err(); err != nil {
		return got, nil, fmt.Errorf("golden cases: %w", err)
	}
	in, err := golden[i].Input()
	if err != nil {
		return got, nil, invalid("golden case %d: %v", i+1, err)
	}
	o, err := t.Run(ctx, in, fresh)
	if err != nil {
		return got, nil, invalid("golden case %d (%s): %v", i+1, golden[i].Name(), err)
	}
	return CaseReport{o.Fuel, o.Request, o.Reply}, golden[i].holds(&o), nil
}

// Agree compares two runs of a case and says how they differ. What ends a call
// that never returns, fuel or the stack, depends on the machine: the fuel of a
// run without a reply is not compared.
func Agree(got, want CaseReport) error {
	switch {
	case !bytes.Equal(got.Reply, want.Reply):
		return fmt.Errorf("the reply %x is not %x", got.Reply, want.Reply)
	case len(got.Reply) > 0 && got.Fuel != want.Fuel:
		return fmt.Errorf("it takes %d units of fuel, not %d", got.Fuel, want.Fuel)
	}
	return nil
}

// order is a permutation of n cases, the same for the same module everywhere.
func order(n, round int, seed string) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
		if round == 1 {
			all[i] = n - 1 - i
		}
	}
	if round < 2 {
		return all
	}
	for i := n - 1; i > 0; i-- {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", seed, round, i))
		j := int(binary.LittleEndian.Uint64(sum[:]) % uint64(i+1))
		all[i], all[j] = all[j], all[i]
	}
	return all
}
