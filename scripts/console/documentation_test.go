package console

import (
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// The pages of documentation: each loads without a complaint and asks nobody else, is
// accessible in light and dark, and scrolls sideways on no screen. Search finds, and a
// block of commands can be copied.
func TestDocumentation(t *testing.T) {
	s := dev(t)
	axe, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	b := launch(t)
	b.do(chromedp.Navigate(s.url + "/"))
	pages := eval[[]string](b, `[...new Set([...document.querySelectorAll("a[href^='/docs/']")].map((a) => a.pathname))]`)
	if len(pages) < 20 {
		t.Fatalf("the front page leads to %d pages", len(pages))
	}
	for _, path := range append(pages, "/", "/docs/nothing") {
		if !often[path] && !all() {
			continue
		}
		b.size(1400, 1000)
		b.do(chromedp.Navigate(s.url + path))
		if title := eval[string](b, `document.querySelector("h1")?.innerText ?? ""`); title == "" {
			t.Errorf("%s has no title", path)
		}
		b.quiet(path, missing(path)...)
		for _, width := range []int64{360, 3840} {
			b.size(width, 900)
			if wide := eval[int64](b, `document.scrollingElement.scrollWidth`); wide > width {
				t.Errorf("%s scrolls sideways: %d of %d pixels", path, wide, width)
			}
		}
		b.size(1400, 1000)
		if path == "/docs/api" && !all() { // where axe looks for many seconds
			continue
		}
		eval[any](b, string(axe)+"; void 0")
		for _, scheme := range []string{"light", "dark"} {
			b.dark(scheme == "dark")
			for _, v := range violations(b) {
				t.Errorf("%s, %s: %s", path, scheme, v)
			}
		}
	}

	b.do(chromedp.Navigate(s.url + "/docs/start"))
	b.press("/")
	b.within(`document.activeElement.id === "search"`)
	b.fill("#search", "idempotency_key_reused")
	b.within(`[...document.querySelectorAll("#results a")].some((a) => a.hash === "#idempotency_key_reused")`)
	b.press("\r")
	b.within(`location.pathname.startsWith("/docs/")  && location.pathname !== "/docs/start"`)
	b.do(chromedp.Navigate(s.url + "/docs/start"))
	b.click(".code .copy", "Copy")
	b.within(`/Copied|Selected/.test(document.querySelector(".code .copy").textContent)`)
	if n := eval[int](b, `document.querySelectorAll(".code [data-language=text]").length`); n != 0 {
		t.Errorf("%d outputs have a button that copies them", n)
	}
}

// often are the pages of every commit: one of each layout, and those with most in them.
var often = map[string]bool{"/": true, "/docs/start": true, "/docs/rules": true, "/docs/errors": true, "/docs/api": true, "/docs/nothing": true}

// missing is what the browser says where there is no page.
func missing(path string) []string {
	if strings.HasSuffix(path, "/nothing") {
		return []string{"404"}
	}
	return nil
}
