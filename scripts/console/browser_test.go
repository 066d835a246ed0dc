// Package console tests the console in a real browser: the page that `tollgate dev` and
// `tollgate console` serve, on the API that they have.
package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

const patience = time.Minute

// all is whether everything is tried, not a part as on every commit.
func all() bool { return os.Getenv("TOLLGATE_TEST_CONSOLE") == "all" }

// neededForAll skips a test that takes too long for every commit.
func neededForAll(t *testing.T) {
	t.Helper()
	if !all() {
		t.Skip("runs in `make console-test CONSOLE=all`")
	}
}

// browser is a Chromium with a profile of its own, and its tab.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	messages []string // what went wrong in the page
	asked    []string // addresses of all requests
	changes  []string // requests other than GET
}

func launch(t *testing.T) *browser {
	t.Helper()
	ctx, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath("/usr/bin/chromium"), chromedp.NoSandbox, chromedp.Headless, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1400, 1000))
	tab, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		closeTab()
		stop()
	})
	b := &browser{t: t, ctx: tab}
	b.do(chromedp.Navigate("about:blank"))
	written := chromedp.Console(tab)
	go func() {
		for m, err := range written {
			if err != nil {
				return
			}
			if level := string(m.Type); level != "error" && level != "warning" && level != "assert" && level != "exception" {
				continue
			}
			b.mu.Lock()
			b.messages = append(b.messages, m.Text+" "+m.URL)
			b.mu.Unlock()
		}
	}()
	sent := chromedp.Events(tab, network.RequestWillBeSent)
	go func() {
		for e, err := range sent {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.asked = append(b.asked, e.Request.URL)
			if e.Request.Method != "GET" {
				b.changes = append(b.changes, e.Request.Method+" "+e.Request.URL)
			}
			b.mu.Unlock()
		}
	}()
	return b
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := b.ctx, context.CancelFunc(func() {})
	if chromedp.FromContext(ctx).Target != nil { // else the limit would be the tab's own
		ctx, cancel = context.WithTimeout(ctx, patience)
	}
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// eval runs an expression, and waits for a promise.
func eval[T any](b *browser, expression string, values ...any) T {
	b.t.Helper()
	literals := make([]any, len(values))
	for i, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			b.t.Fatal(err)
		}
		literals[i] = string(text)
	}
	if len(values) > 0 {
		expression = fmt.Sprintf(expression, literals...)
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.300s: %v", expression, err)
	}
	return got
}

// within waits until an expression of the page is true.
func (b *browser) within(expression string, values ...any) {
	b.t.Helper()
	for start := time.Now(); !eval[bool](b, "(async () => Boolean(await ("+expression+")))()", values...); time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > patience {
			b.t.Fatalf("never: %s %q\n%s", expression, values, eval[string](b, `(document.querySelector("main") || document.body).innerText`))
		}
	}
}

// shows waits until the page has a text.
func (b *browser) shows(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		b.within(`document.body.innerText.replace(/\s+/g, " ").includes(%s)`, text)
	}
}

// settled is whether the page has all that it asked for, or has said why not.
const settled = `document.querySelector("h1") && !document.querySelector(".loading, .check.soft") && ![...document.querySelectorAll("button")].some((e) => e.textContent.endsWith("…"))`

// open goes to a page by its address, and waits until it is there.
func (b *browser) open(address string) {
	b.t.Helper()
	b.do(chromedp.Navigate(address))
	b.within(settled)
}

// find marks the first visible element of a selector that has a text, for a click.
const find = `(() => {
	document.querySelectorAll("[data-chosen]").forEach((e) => e.removeAttribute("data-chosen"));
	const found = [...document.querySelectorAll(%s)].find((e) => e.checkVisibility() && !e.disabled && e.innerText.replace(/\s+/g, " ").includes(%s));
	found?.setAttribute("data-chosen", "");
	return Boolean(found);
})()`

// click has the mouse click on what a person would: the element of a selector that
// says text. It clicks again where the page has moved the element from under it.
func (b *browser) click(selector, text string) {
	b.t.Helper()
	for start := time.Now(); ; {
		b.within(find, selector, text)
		eval[any](b, `void ((e) => { window.hit = false; e?.addEventListener("click", () => { window.hit = true; }, { capture: true, once: true }); })(document.querySelector("[data-chosen]"))`)
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		err := chromedp.Do(ctx, chromedp.Click("[data-chosen]")) // fails where the page draws it anew
		cancel()
		if err == nil && eval[bool](b, `window.hit !== false`) { // or the page is another by now
			return
		}
		if time.Since(start) > patience {
			b.t.Fatalf("the mouse never hits %s %q: %v", selector, text, err)
		}
	}
}

// fill puts text into a field, as if it was typed.
func (b *browser) fill(selector, text string) {
	b.t.Helper()
	b.within(`document.querySelector(%s)`, selector)
	eval[any](b, `void ((e, v) => { e.value = v; e.dispatchEvent(new Event("input", { bubbles: true })); e.dispatchEvent(new Event("change", { bubbles: true })); })(document.querySelector(%s), %s)`, selector, text)
}

func (b *browser) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// size makes the window another one.
func (b *browser) size(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// dark chooses what the person prefers, light or dark.
func (b *browser) dark(is bool) {
	b.t.Helper()
	scheme := "light"
	if is {
		scheme = "dark"
	}
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
}

// complaints are what the page has written to its console since the last time, without
// the answers of a status that a test has provoked.
func (b *browser) complaints(but ...string) (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.messages {
		if !slices.ContainsFunc(but, func(known string) bool { return strings.Contains(m, known) }) {
			all = append(all, m)
		}
	}
	b.messages = nil
	return all
}

// written are the requests since the last time that could change something.
func (b *browser) written() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	sent := b.changes
	b.changes = nil
	return sent
}

// quiet fails the test if the page has complained, or has asked another origin.
func (b *browser) quiet(what string, but ...string) {
	b.t.Helper()
	for _, m := range b.complaints(but...) {
		b.t.Errorf("%s: the browser's console: %s", what, m)
	}
	here, err := url.Parse(eval[string](b, `location.origin`))
	if err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, address := range b.asked {
		if u, err := url.Parse(address); err != nil || u.Host != here.Host && u.Scheme != "data" && u.Scheme != "about" {
			b.t.Errorf("%s: the page asks %s", what, address)
		}
	}
	b.asked = nil
}

// violations are what axe, which the page must have by then, calls serious or critical.
func violations(b *browser) []string {
	b.t.Helper()
	return eval[[]string](b, `axe.run({ resultTypes: ["violations"] }).then((r) => r.violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => v.id + ": " + v.nodes.map((n) => n.html + " " + n.failureSummary).join("; ").slice(0, 600)))`)
}
