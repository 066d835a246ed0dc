package auditor_test

import (
	"encoding/base64"
	"fmt"
	"testing"

	"tollgate/handlers/tlog"
	"tollgate/handlers/tlog/auditor"
	"tollgate/handlers/tlog/checkpoint"
)

func text(number int64) string { return fmt.Sprintf(`{"id":"aud_%d","seq":%d}`, number, number) }

// sealed is a tree whose leaves are the entries 1 to size, kept from a leaf on, and whose
// log has these instead.
func sealed(t *testing.T, size, keptFrom int64, log ...int64) *auditor.Tree {
	t.Helper()
	var hashes []tlog.Hash
	for n := range size {
		hashes = append(hashes, tlog.LeafHash(text(n+1)))
	}
	tree := tlog.New(0, nil)
	if err := tree.Append(hashes...); err != nil {
		t.Fatal(err)
	}
	root, err := tree.Root()
	if err != nil {
		t.Fatal(err)
	}
	judge := auditor.New(checkpoint.Checkpoint{Size: size, Root: root, KeptFrom: keptFrom})
	for row := int64(0); row < size || len(log) > 0; row++ {
		var hash, entry *string
		if row < size {
			hash = new(base64.StdEncoding.EncodeToString(hashes[row][:]))
		}
		if row >= keptFrom && len(log) > 0 {
			entry, log = new(text(log[0])), log[1:]
		}
		if err := judge.Row(row, hash, entry); err != nil {
			t.Fatal(err)
		}
	}
	return judge
}

// Entries behind those that are sealed are not sealed yet, by their place and by their
// number. Any other that has no leaf was put there.
func TestUnsealedAndInserted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size, keptFrom int64
		log            []int64
		unsealed       int64
		found          string
	}{
		"nothing is sealed":                         {0, 0, []int64{1, 2}, 2, "[]"},
		"two are not":                               {4, 0, []int64{1, 2, 3, 4, 5, 6}, 2, "[]"},
		"of what is sealed nothing is kept":         {4, 4, []int64{5, 6}, 2, "[]"},
		"a number of before at the end":             {4, 0, []int64{1, 2, 3, 4, 2}, 0, "[inserted 2]"},
		"a number of before, and nothing is kept":   {4, 4, []int64{2, 5}, 1, "[inserted 2]"},
		"a number of behind in the middle":          {4, 0, []int64{1, 9, 2, 3, 4}, 0, "[inserted 9]"},
		"a number of behind before the last":        {4, 0, []int64{1, 2, 3, 5, 4}, 0, "[inserted 5]"},
		"the same in the place of one that is gone": {4, 0, []int64{2, 9, 3, 4}, 0, "[missing 1 inserted 9]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judge := sealed(t, c.size, c.keptFrom, c.log...)
			found := []string{}
			for _, f := range judge.End() {
				found = append(found, fmt.Sprint(f.Kind, " ", f.Seq))
			}
			if fmt.Sprint(found) != c.found || judge.Unsealed != c.unsealed {
				t.Errorf("found %v, and %d are not sealed", found, judge.Unsealed)
			}
		})
	}
}
