package exports

import (
	"testing"

	"tollgate/rediskv"
)

// A preview is what was written, or has grown since by a release that makes no sums.
func TestPreviewIs(t *testing.T) {
	const was = `[{"amount":"1.00"}]`
	sum := previewSum("exp_1", was)
	for preview, want := range map[string]bool{
		was:                                     true,
		"":                                      true,
		`[{"amount":"9.00"}]`:                   false,
		`[{"amount":"1.00"},{"amount":"2.00"}]`: true,
		`[{"amount":"1.10"},{"amount":"2.00"}]`: false,
		`[{"amount":"1.00"}`:                    false,
	} {
		if got := previewIs("exp_1", rediskv.Fields{"prev": preview, "psum": sum}); got != want {
			t.Errorf("%s: %v", preview, got)
		}
	}
	for i := range sum {
		for bit := range 8 {
			turned := []byte(sum)
			turned[i] ^= 1 << bit
			if previewIs("exp_1", rediskv.Fields{"prev": was, "psum": string(turned)}) {
				t.Errorf("%q is taken for %q", turned, sum)
			}
		}
	}
	if previewIs("exp_2", rediskv.Fields{"prev": was, "psum": sum}) || !previewIs("exp_2", rediskv.Fields{"prev": was}) {
		t.Error("of another export, or of before")
	}
}
