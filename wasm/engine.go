package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"tollgate"
	"tollgate/wasm/abi"
)

// Engine holds compiled rules by citation and exact bytes: two organizations
// may publish the same citation, and a payment is priced to its end with the
// bytes that it began with. It is safe for concurrent use.
type Engine struct {
	// Observe, when set, is told of every run of a rule in a Quote: how long it
	// took and nil or the error that Quote returns. ObserveShadow is told of
	// those in a Shadow. Set them and Now before the first Quote. Without an
	// observer no clock is read.
	Observe, ObserveShadow func(ref tollgate.RuleRef, d time.Duration, err error)
	Now                    func() time.Time

	runtime wazero.Runtime
	checker wazero.Runtime // an interpreter: validates without compiling

	closing sync.RWMutex // read-held while loading: what is compiled must not lose its engine

	mu    sync.Mutex // held while rules is replaced
	rules atomic.Pointer[map[tollgate.RuleRef]*rule]
	loads atomic.Int64 // the clock by which rules age

	held      atomic.Int64                // bytes of rules that may be evicted
	room      int64                       // how many those may be
	least     int                         // rules that stay in any case
	preferred func(tollgate.RuleRef) bool // in force; nil: nobody has said
}

// features are those whose instructions package abi knows. Reference types
// are among them only because compilers then write the table index of
// call_indirect in five bytes; the parser refuses all that they bring.
const features = api.CoreFeatureMutableGlobal | api.CoreFeatureSignExtensionOps |
	api.CoreFeatureBulkMemoryOperations | api.CoreFeatureReferenceTypes

// NewEngine returns an engine without rules. Modules are compiled to machine
// code where wazero can and interpreted elsewhere.
func NewEngine(ctx context.Context) (*Engine, error) {
	return newEngine(ctx, wazero.NewRuntimeConfig()), nil
}

func newEngine(ctx context.Context, config wazero.RuntimeConfig) *Engine {
	limited := func(c wazero.RuntimeConfig) wazero.Runtime {
		return wazero.NewRuntimeWithConfig(ctx, c.WithCoreFeatures(features).
			WithMemoryLimitPages(abi.MemoryPages).WithDebugInfoEnabled(false))
	}
	e := &Engine{runtime: limited(config), checker: limited(wazero.NewRuntimeConfigInterpreter()), room: DefaultRoom, least: leastKept}
	e.rules.Store(&map[tollgate.RuleRef]*rule{})
	return e
}

// Load checks a module, compiles it and makes it ready under c. The reference
// that it returns pins the SHA-256 of the module as it was given. Loading the
// same bytes again changes nothing; other bytes for a citation stand beside
// the first.
func (e *Engine) Load(ctx context.Context, c tollgate.Citation, binary []byte) (tollgate.RuleRef, error) {
	return e.load(ctx, c, binary, false)
}

func (e *Engine) load(ctx context.Context, c tollgate.Citation, binary []byte, builtin bool) (tollgate.RuleRef, error) {
	ref := RefOf(c, binary)
	if e.Has(ref) {
		return ref, nil
	}
	// Compiling takes long: whoever needs another rule does not wait for it.
	e.closing.RLock()
	defer e.closing.RUnlock()
	r, err := e.prepare(ctx, binary)
	if err != nil {
		return tollgate.RuleRef{}, fmt.Errorf("load %s: %w", c, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Has(ref) { // somebody else was faster; nobody refers to this one
		return ref, nil
	}
	r.ref, r.builtin = ref, builtin
	r.used.Store(e.loads.Add(1))
	after := maps.Clone(*e.rules.Load())
	after[ref] = r
	if !builtin {
		r.size.enter(&e.held)
	}
	e.makeRoom(after)
	e.rules.Store(&after)
	return ref, nil
}

// RefOf pins a module's bytes.
func RefOf(c tollgate.Citation, binary []byte) tollgate.RuleRef {
	sum := sha256.Sum256(binary)
	return tollgate.RuleRef{Rule: c, SHA256: hex.EncodeToString(sum[:])}
}

// prepare goes all the way from bytes to a first instance.
func (e *Engine) prepare(ctx context.Context, binary []byte) (*rule, error) {
	m, err := abi.Parse(binary)
	if err != nil {
		return nil, err
	}
	// The original is validated too: an instruction that names a global which
	// does not exist would name the fuel once that is added.
	original, err := e.checker.CompileModule(ctx, m.Bare())
	if err != nil {
		return nil, fmt.Errorf("validate: %w", err)
	}
	if err := original.Close(ctx); err != nil {
		return nil, fmt.Errorf("validate: %w", err)
	}
	return e.compile(ctx, m, m.Instrument(), m.ExportedGlobals())
}

// compile makes a rule of what the module has become. globals are those that a
// call can change.
func (e *Engine) compile(ctx context.Context, m *abi.Module, binary []byte, globals []abi.ExportedGlobal) (*rule, error) {
	compiled, err := e.runtime.CompileModule(ctx, binary)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	r := &rule{
		manifest: m.Manifest, free: m.Free, refunds: m.Refunds, runtime: e.runtime, compiled: compiled, globals: globals,
		size: &footprint{fixed: ruleBytes + codeFactor*int64(len(binary)), each: instanceBytes + int64(m.Pages)<<16},
	}
	i, err := r.instantiate(ctx)
	if err != nil {
		_ = compiled.Close(ctx)
		return nil, err
	}
	r.initial = initialOf(i, &m.Reach)
	r.size.each = instanceBytes + int64(r.initial.size) // tg_buf may have made it larger than it was declared
	r.silent = sync.OnceValue(r.findSilent)
	r.size.fixed += int64(len(r.initial.written.bytes) + len(r.initial.request.bytes))
	r.idle.Put(i)
	runtime.AddCleanup(r, func(c wazero.CompiledModule) { _ = c.Close(context.Background()) }, compiled)
	return r, nil
}

// Has reports whether Quote would find a rule.
func (e *Engine) Has(ref tollgate.RuleRef) bool {
	_, ok := (*e.rules.Load())[ref]
	return ok
}

// Close frees all machine code. No Quote may run or start any more.
func (e *Engine) Close(ctx context.Context) error {
	e.closing.Lock()
	defer e.closing.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rules.Store(&map[tollgate.RuleRef]*rule{})
	if err := e.checker.Close(ctx); err != nil {
		return fmt.Errorf("close the engine: %w", err)
	}
	if err := e.runtime.Close(ctx); err != nil {
		return fmt.Errorf("close the engine: %w", err)
	}
	return nil
}
