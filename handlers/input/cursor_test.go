package input

import (
	"maps"
	"strings"
	"testing"

	"tollgate"
	"tollgate/handlers/secret"
)

var transactions = listing{"/v1/transactions", "org_1"}

func newCursors(t testing.TB, key byte) *Cursors {
	t.Helper()
	v, err := secret.NewVault(append(make([]byte, 31), key))
	if err != nil {
		t.Fatal(err)
	}
	return &Cursors{Vault: v}
}

func TestCursor(t *testing.T) {
	c := newCursors(t, 1)
	want := cursor[int64]{Filters: map[string]string{"payee": "shop.example"}, Order: "asc", Position: 1<<62 + 1}
	text, err := sealCursor(c, transactions, want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := openCursor[int64](c, transactions, text)
	if err != nil || got.Order != want.Order || got.Position != want.Position || !maps.Equal(got.Filters, want.Filters) {
		t.Fatalf("%+v, %v", got, err)
	}
	again, err := sealCursor(c, transactions, want)
	if err != nil || again == text {
		t.Errorf("two cursors for one place are alike: %v", err)
	}
	if strings.Contains(text, "shop") || strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		t.Errorf("%s", text)
	}

	refused := func(name string, c *Cursors, of listing, text string) {
		t.Helper()
		if _, err := openCursor[int64](c, of, text); codeOf(err) != tollgate.CodeCursorInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused("another listing", c, listing{"/v1/events", "org_1"}, text)
	refused("another organization", c, listing{"/v1/transactions", "org_2"}, text)
	refused("another key", newCursors(t, 2), transactions, text)
	refused("empty", c, transactions, "")
	refused("cut", c, transactions, text[:len(text)-4])
	refused("longer", c, transactions, text+"AAAA")
	refused("padded", c, transactions, text+"=")
	refused("newline inside", c, transactions, text[:8]+"\n"+text[8:])
	for i := range text {
		other := byte('A')
		if text[i] == 'A' {
			other = 'B'
		}
		refused("one character changed", c, transactions, text[:i]+string(other)+text[i+1:])
	}
}

// Nobody makes a cursor that this service did not give out: whatever opens,
// opens as the one that the fuzzer was shown.
func FuzzCursor(f *testing.F) {
	c := newCursors(f, 1)
	genuine, err := sealCursor(c, transactions, cursor[int64]{Order: "asc", Position: 7})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(genuine)
	f.Add("")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := openCursor[int64](c, transactions, text)
		if err == nil && (got.Order != "asc" || got.Position != 7 || len(got.Filters) != 0) {
			t.Fatalf("%q opens as %+v", text, got)
		}
		if err != nil && codeOf(err) != tollgate.CodeCursorInvalid {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
