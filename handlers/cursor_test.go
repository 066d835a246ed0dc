package handlers_test

import (
	"maps"
	"strings"
	"testing"

	"tollgate"
	"tollgate/handlers"
)

const listing, org = "/v1/transactions", "org_1"

func newCursors(t testing.TB, key byte) handlers.Cursors {
	t.Helper()
	c, err := handlers.NewCursors([32]byte{key})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCursor(t *testing.T) {
	c := newCursors(t, 1)
	want := handlers.TestCursor{Filters: map[string]string{"payee": "shop.example"}, Order: "asc", Position: 1<<62 + 1}
	text, err := c.Seal(listing, org, want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Open(listing, org, text)
	if err != nil || got.Order != want.Order || got.Position != want.Position || !maps.Equal(got.Filters, want.Filters) {
		t.Fatalf("%+v, %v", got, err)
	}
	again, err := c.Seal(listing, org, want)
	if err != nil || again == text {
		t.Errorf("two cursors for one place are alike: %v", err)
	}
	if strings.Contains(text, "shop") || strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		t.Errorf("%s", text)
	}

	refused := func(name string, c handlers.Cursors, listing, org, text string) {
		t.Helper()
		if _, err := c.Open(listing, org, text); codeOf(err) != tollgate.CodeCursorInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused("another listing", c, "/v1/events", org, text)
	refused("another organization", c, listing, "org_2", text)
	refused("another key", newCursors(t, 2), listing, org, text)
	refused("empty", c, listing, org, "")
	refused("cut", c, listing, org, text[:len(text)-4])
	refused("longer", c, listing, org, text+"AAAA")
	refused("padded", c, listing, org, text+"=")
	refused("newline inside", c, listing, org, text[:8]+"\n"+text[8:])
	for i := range text {
		other := byte('A')
		if text[i] == 'A' {
			other = 'B'
		}
		refused("one character changed", c, listing, org, text[:i]+string(other)+text[i+1:])
	}
}

// Nobody makes a cursor that this service did not give out: whatever opens,
// opens as the one that the fuzzer was shown.
func FuzzCursor(f *testing.F) {
	c := newCursors(f, 1)
	genuine, err := c.Seal(listing, org, handlers.TestCursor{Order: "asc", Position: 7})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(genuine)
	f.Add("")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := c.Open(listing, org, text)
		if err == nil && (got.Order != "asc" || got.Position != 7 || len(got.Filters) != 0) {
			t.Fatalf("%q opens as %+v", text, got)
		}
		if err != nil && codeOf(err) != tollgate.CodeCursorInvalid {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
