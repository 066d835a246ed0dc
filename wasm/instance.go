package wasm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"tollgate"
	"tollgate/wasm/abi"
)

// rule is a loaded module with its idle instances.
type rule struct {
	ref      tollgate.RuleRef
	builtin  bool // never evicted
	manifest abi.Manifest
	free     abi.Free
	refunds  bool                       // whether it takes part in refunds
	silent   func() []tollgate.Currency // found once, when somebody asks
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	globals  []abi.ExportedGlobal // that a call can change
	initial  initial
	size     *footprint
	idle     sync.Pool    // of *instance
	used     atomic.Int64 // how many loads there had been when it was last quoted
}

// instance is a module with a memory of its own. It is used by one goroutine
// at a time: api.Function is not safe for two.
type instance struct {
	module api.Module
	memory api.Memory
	quote  api.Function
	fuel   api.MutableGlobal // nil in a module that was not instrumented
	buffer uint32            // address of the window
	labels labels
	stack  [1]uint64
	lease  *lease

	globals   []api.MutableGlobal // that a call can change
	requested uint32              // length of the last request; 0 in a new instance

	// Views of the memory. They hold until it moves, which it does when it
	// grows: an instance whose memory grew is not used again.
	view    []byte // the window
	written []byte // what is reset, once it was
}

var (
	errFuel  = fmt.Errorf("more than %d units of fuel", abi.FuelPerCall)
	errDepth = fmt.Errorf("calls nested more than %d deep", abi.MaxCalls)
)

func (i *instance) discard(ctx context.Context) {
	_ = i.module.Close(ctx)
	i.lease.end()
}

func (r *rule) instantiate(ctx context.Context) (*instance, error) {
	// No name, so that there can be many; no _start, which is wazero's default.
	m, err := r.runtime.InstantiateModule(ctx, r.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return nil, fmt.Errorf("instantiate: %w", err)
	}
	i := &instance{module: m, memory: m.Memory(), quote: m.ExportedFunction(abi.ExportQuote), lease: &lease{of: r.size}}
	r.size.count(1)
	i.fuel, _ = m.ExportedGlobal(abi.FuelExport).(api.MutableGlobal)
	for _, g := range r.globals {
		i.globals = append(i.globals, m.ExportedGlobal(g.Name).(api.MutableGlobal))
	}
	if err := i.locate(ctx); err != nil {
		i.discard(ctx)
		return nil, fmt.Errorf("%s: %w", abi.ExportBuffer, err)
	}
	// wazero's store refers to every open module: one that the pool drops
	// would stay in memory until the engine closes.
	counted := i.lease
	runtime.AddCleanup(i, func(m api.Module) {
		_ = m.Close(context.Background())
		counted.end()
	}, m)
	return i, nil
}

// locate asks the module where its window is.
func (i *instance) locate(ctx context.Context) error {
	if err := i.call(ctx, i.module.ExportedFunction(abi.ExportBuffer)); err != nil {
		return err
	}
	i.buffer = uint32(i.stack[0])
	if i.buffer%8 != 0 {
		return fmt.Errorf("address %d is not a multiple of 8", i.buffer)
	}
	var err error
	i.view, err = i.window()
	return err
}

var errWindow = errors.New("the window lies outside the memory")

// window is the memory that host and module share during a call. It is valid
// until the module runs again, because its memory may then move.
func (i *instance) window() ([]byte, error) {
	w, ok := i.memory.Read(i.buffer, abi.WindowSize)
	if !ok {
		return nil, errWindow
	}
	return w, nil
}

// call runs a function on i.stack with fresh fuel.
func (i *instance) call(ctx context.Context, f api.Function) error {
	if i.fuel == nil {
		return f.CallWithStack(ctx, i.stack[:])
	}
	i.fuel.Set(abi.FuelPerCall)
	err := f.CallWithStack(ctx, i.stack[:])
	if err == nil {
		return nil
	}
	if calls := i.module.ExportedGlobal(abi.CallsExport); calls != nil && int64(calls.Get()) < 0 {
		return errDepth
	}
	if int64(i.fuel.Get()) < 0 {
		return errFuel
	}
	return err
}
