package rediskv_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv/exports"
)

// TestExportsOfBefore lists exports that were made before the list was kept, as
// long as they are unfinished or have a file, once each and in order.
func TestExportsOfBefore(t *testing.T) {
	f := newFixture(t)
	var made []string
	for range 2 { // these have files
		f.Clock.Advance(time.Second)
		made = append(made, f.export(t, tollgate.DatasetEvents, tollgate.FormatNDJSON, tollgate.ExportFilter{}).ID)
	}
	for range 4 {
		f.Clock.Advance(time.Second)
		e, err := f.createExport(t, tollgate.DatasetEvents, tollgate.FormatNDJSON, tollgate.ExportFilter{})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, e.ID)
	}
	raw, events := f.raw(t)
	if n, err := raw.ZRem(t.Context(), strings.TrimSuffix(events, ":events")+":exports:all", made[0], made[3]).Result(); err != nil || n != 2 {
		t.Fatalf("%d taken off the list, %v", n, err)
	}
	slices.Reverse(made)
	for limit := 1; limit <= 7; limit++ {
		var listed []string
		before, more := "", true
		for more {
			var rows []exports.StoredExport
			var err error
			if rows, more, err = f.Exports(t.Context(), f.Caller, before, limit); err != nil || len(rows) == 0 {
				t.Fatalf("limit %d: %d rows, %v", limit, len(rows), err)
			}
			for _, row := range rows {
				listed = append(listed, row.ID)
				before = row.ID
			}
		}
		if !slices.Equal(listed, made) {
			t.Errorf("limit %d: %q, not %q", limit, listed, made)
		}
	}
}
