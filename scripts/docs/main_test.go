package main

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
)

// What is kept is what the sources make: `make docs` writes it.
func TestSiteIsRendered(t *testing.T) {
	want, err := render("../..")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := readSite("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !bytes.Equal(want[name], kept[name]) {
			t.Errorf("site/%s.gz is not what its sources make: run `make docs`", name)
		}
	}
	for name := range kept {
		if want[name] == nil {
			t.Errorf("site/%s.gz is of a page that is gone: run `make docs`", name)
		}
	}
	again, err := render("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		if !bytes.Equal(want[name], again[name]) {
			t.Errorf("%s comes out differently each time", name)
		}
	}
}

func TestHeadingsAndLinks(t *testing.T) {
	one, err := readPage("../..", "one", []byte("# One\n\nSee [two](two.md#a-b) and `x<y`.\n\n## A `b`!\n\n## A b\n\n| a |\n|---|\n| 1 |\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`href="/docs/two#a-b"`, `id="a-b"`, `id="a-b-1"`, `class="scroll" tabindex="0"`, "x&lt;y"} {
		if !strings.Contains(string(one.body), want) {
			t.Errorf("no %s in\n%s", want, one.body)
		}
	}
	two, err := readPage("../..", "two", []byte("# Two\n\n## A b\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := checkLinks([]*page{one, two}); err != nil {
		t.Error(err)
	}
	if err := checkLinks([]*page{one}); err == nil || !strings.Contains(err.Error(), "there is no page two") {
		t.Errorf("a page that is not there: %v", err)
	}
	two.anchors = nil
	if err := checkLinks([]*page{one, two}); err == nil || !strings.Contains(err.Error(), "has no heading #a-b") {
		t.Errorf("a heading that is not there: %v", err)
	}
	for _, refused := range []string{"no heading", "# One\n\n<b>bold</b>\n", "# One\n\n[x](../nowhere.go)\n", "# One\n\n![](payment.svg)\n"} {
		if _, err := readPage("../..", "one", []byte(refused)); err == nil {
			t.Errorf("taken: %q", refused)
		}
	}
}
