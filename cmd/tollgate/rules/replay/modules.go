package replay

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/examine"
	"tollgate/cmd/tollgate/rules/source"
	"tollgate/wasm"
)

// moduleShelf finds the modules that tickets cite, by their exact bytes: those
// that this binary brings along, those in directories, and, when there is a
// client, those that the service has. It is safe for concurrent use.
type moduleShelf struct {
	engine  *wasm.Engine
	examine wasm.Examiner
	client  *cli.Client // nil: nothing is fetched

	mu    sync.Mutex
	bySum map[string][]byte
}

// newShelf reads the directories. Every file *.wasm below them counts; what
// matters is its SHA-256, not its name.
func newShelf(ctx context.Context, engine *wasm.Engine, dirs []string) (*moduleShelf, error) {
	s := &moduleShelf{engine: engine, examine: examine.New(examine.DefaultLimits), bySum: map[string][]byte{}}
	if err := engine.LoadBuiltin(ctx); err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(file) != ".wasm" {
				return err
			}
			module, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			s.bySum[wasm.RefOf(tollgate.Citation{}, module).SHA256] = module
			return nil
		})
		if err != nil {
			return nil, cli.UsageError(fmt.Errorf("--modules: %w", err))
		}
	}
	return s, nil
}

// load makes a module ready to run. What did not come with this binary is
// compiled by a child first, for a ticket may cite anything.
func (s *moduleShelf) load(ctx context.Context, ref tollgate.RuleRef) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine.Has(ref) {
		return nil
	}
	module, ok := s.bySum[ref.SHA256]
	if !ok && s.client == nil {
		return fmt.Errorf("%s: no module with SHA-256 %.64q among those given with --modules", ref.Rule, ref.SHA256)
	}
	if !ok {
		var err error
		if module, err = source.Module(ctx, s.client, ref.Rule); err != nil {
			return fmt.Errorf("%s: %w", ref.Rule, err)
		}
		if got := wasm.RefOf(ref.Rule, module); got != ref {
			return fmt.Errorf("%s: the service has a module with SHA-256 %s, not %s", ref.Rule, got.SHA256, ref.SHA256)
		}
	}
	if _, err := s.examine(ctx, ref.Rule, module, nil); err != nil {
		return fmt.Errorf("%s: %w", ref.Rule, err)
	}
	_, err := s.engine.Load(ctx, ref.Rule, module)
	return err
}

// candidate loads a rule that a command names.
func (s *moduleShelf) candidate(ctx context.Context, r *source.Rule) (tollgate.RuleRef, error) {
	if _, err := s.examine(ctx, r.Citation, r.Module, nil); err != nil {
		return tollgate.RuleRef{}, examine.RuleProblem(r.Name, err)
	}
	return s.engine.Load(ctx, r.Citation, r.Module)
}
