package testkit

import (
	"slices"
	"testing"

	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

// Field is a field of the hash at a key, folded or not.
func Field(t testing.TB, c rediskv.Client, key, name string) string {
	t.Helper()
	f, err := c.HGetAll(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return record.KindOf(key).Unfolded(f)[name]
}

// SetField writes a field of the hash at a key, where it stands, and no checksum.
func SetField(t testing.TB, c rediskv.Client, key, name, value string) {
	t.Helper()
	f, err := c.HGetAll(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	k := record.KindOf(key)
	if _, folded := f[record.FoldField]; folded && slices.Contains(k.Folded, name) {
		is, pairs := k.Unfolded(f), []any{k.Witness, f[k.Witness]}
		for _, one := range k.Folded {
			if one == name {
				is[one] = value
			}
			pairs = append(pairs, one, is[one])
		}
		if err := c.HDel(t.Context(), key, record.Pieces(record.FoldField)...).Err(); err != nil {
			t.Fatal(err)
		}
		if err := c.HSet(t.Context(), key, record.PiecePairs(record.FoldField, k.Fold(pairs))...).Err(); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := c.HSet(t.Context(), key, name, value).Err(); err != nil {
		t.Fatal(err)
	}
}
