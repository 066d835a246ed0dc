package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"tollgate"
)

// Engine holds compiled rules by citation. It is safe for concurrent use.
type Engine struct {
	// Observe, when set, is told of every run of a rule: how long it took and
	// nil or the error that Quote returns. Set it and Now before the first
	// Quote. Without it Quote reads no clock.
	Observe func(c tollgate.Citation, d time.Duration, err error)
	Now     func() time.Time

	runtime wazero.Runtime
	checker wazero.Runtime // an interpreter: validates without compiling

	mu    sync.Mutex // held while loading
	rules atomic.Pointer[map[tollgate.Citation]*rule]
}

// features are those whose instructions package wasm knows. Reference types
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
			WithMemoryLimitPages(memoryPages).WithDebugInfoEnabled(false))
	}
	e := &Engine{runtime: limited(config), checker: limited(wazero.NewRuntimeConfigInterpreter())}
	e.rules.Store(&map[tollgate.Citation]*rule{})
	return e
}

// Load checks a module, compiles it and puts it in force under c. Loading the
// same bytes again changes nothing; other bytes for a citation that exists are
// an error, for a released version never changes (spec §9).
func (e *Engine) Load(ctx context.Context, c tollgate.Citation, module []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	sum := sha256.Sum256(module)
	digest := hex.EncodeToString(sum[:])
	before := *e.rules.Load()
	if r, ok := before[c]; ok {
		if r.sha256 != digest {
			return fmt.Errorf("load %s: another module has this citation: %s, not %s", c, r.sha256, digest)
		}
		return nil
	}
	r, err := e.prepare(ctx, c, module)
	if err != nil {
		return fmt.Errorf("load %s: %w", c, err)
	}
	r.sha256 = digest
	after := maps.Clone(before)
	after[c] = r
	e.rules.Store(&after)
	return nil
}

// prepare goes all the way from bytes to a first instance.
func (e *Engine) prepare(ctx context.Context, c tollgate.Citation, module []byte) (*rule, error) {
	m, err := parse(module)
	if err != nil {
		return nil, err
	}
	// The original is validated too: an instruction that names a global which
	// does not exist would name the fuel once that is added.
	original, err := e.checker.CompileModule(ctx, m.bare())
	if err != nil {
		return nil, fmt.Errorf("validate: %w", err)
	}
	if err := original.Close(ctx); err != nil {
		return nil, fmt.Errorf("validate: %w", err)
	}
	return e.compile(ctx, c, m.manifest, m.instrument())
}

func (e *Engine) compile(ctx context.Context, c tollgate.Citation, m Manifest, module []byte) (*rule, error) {
	compiled, err := e.runtime.CompileModule(ctx, module)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	r := &rule{citation: c, manifest: m, runtime: e.runtime, compiled: compiled}
	i, err := r.instantiate(ctx)
	if err != nil {
		_ = compiled.Close(ctx)
		return nil, err
	}
	r.idle.Put(i)
	return r, nil
}

// Ref pins the bytes of a loaded rule: the SHA-256 of the module as it was
// given to Load. It is false for a citation that is not loaded.
func (e *Engine) Ref(c tollgate.Citation) (tollgate.RuleRef, bool) {
	r, ok := (*e.rules.Load())[c]
	if !ok {
		return tollgate.RuleRef{}, false
	}
	return tollgate.RuleRef{Rule: c, SHA256: r.sha256}, true
}

// Close frees all machine code. No Quote may run or start any more.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rules.Store(&map[tollgate.Citation]*rule{})
	if err := e.checker.Close(ctx); err != nil {
		return fmt.Errorf("close the engine: %w", err)
	}
	if err := e.runtime.Close(ctx); err != nil {
		return fmt.Errorf("close the engine: %w", err)
	}
	return nil
}
