package wasm_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"tollgate"
)

// TestLoadsTogether: many goroutines load the same modules at once, and other
// ones; each is there once and gives its fee, and what two compiled is freed
// without taking the other's code along.
func TestLoadsTogether(t *testing.T) {
	for name, e := range engines(t) {
		var all sync.WaitGroup
		refs := make([][]tollgate.RuleRef, 8)
		for worker := range refs {
			refs[worker] = make([]tollgate.RuleRef, 6)
			all.Go(func() {
				for n := range refs[worker] {
					c := tollgate.Citation{Name: fmt.Sprintf("fee_%d", n), Version: 1}
					ref, err := e.Load(t.Context(), c, says(40, two(0, 1), 0, uint64(n), 0, 0).bytes())
					if err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
					refs[worker][n] = ref
					lines, err := e.Quote(nil, []tollgate.RuleRef{ref}, input(1, "JPY", "x"))
					if err != nil || len(lines) != 1 || lines[0].Amount.Minor != int64(n) {
						t.Errorf("%s: %v, %v", name, lines, err)
					}
				}
			})
		}
		all.Wait()
		runtime.GC()
		for worker := range refs {
			if fmt.Sprint(refs[worker]) != fmt.Sprint(refs[0]) {
				t.Errorf("%s: %v, not %v", name, refs[worker], refs[0])
			}
		}
		lines, err := e.Quote(nil, refs[0], input(1, "JPY", "x"))
		if err != nil || len(lines) != len(refs[0]) {
			t.Errorf("%s, after what is not used was freed: %v, %v", name, lines, err)
		}
	}
}
