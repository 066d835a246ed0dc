// Package sandbox tests the sandbox in a page in a real browser: what `make sandbox`
// wrote, served by a plain file server.
package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

const (
	files    = "../../bin/sandbox"
	patience = time.Minute
)

// all is whether everything is tried, not a part as on every commit.
func all() bool { return os.Getenv("TOLLGATE_TEST_SANDBOX") == "all" }

// neededForAll skips a test that takes too long for every commit.
func neededForAll(t *testing.T) {
	t.Helper()
	if !all() {
		t.Skip("runs in `make sandbox-test SANDBOX=all`")
	}
}

// browser is a Chromium with a profile, and the tab that is used.
type browser struct {
	t   *testing.T
	ctx context.Context
	end func()

	mu       sync.Mutex
	messages []string // what the page has written to its console
}

func launch(t *testing.T, profile string) *browser {
	t.Helper()
	ctx, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath("/usr/bin/chromium"), chromedp.NoSandbox, chromedp.Headless, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.UserDataDir(profile), chromedp.WindowSize(1400, 1000))
	b := tab(t, ctx)
	closeTab := b.end
	b.end = sync.OnceFunc(func() {
		closeTab()
		stop()
	})
	t.Cleanup(b.end)
	return b
}

// tab opens one, in the browser of ctx if it is of a tab.
func tab(t *testing.T, ctx context.Context) *browser {
	t.Helper()
	ctx, stop := chromedp.NewContext(ctx)
	b := &browser{t: t, ctx: ctx, end: stop}
	b.do(chromedp.Navigate("about:blank"))
	written := chromedp.Console(ctx)
	go func() {
		for m, err := range written {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.messages = append(b.messages, m.Text)
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
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[T](fmt.Sprintf(expression, literals...), chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.200s: %v", expression, err)
	}
	return got
}

// within waits until an expression of the page is true.
func (b *browser) within(expression string, values ...any) {
	b.t.Helper()
	for start := time.Now(); !eval[bool](b, "(async () => Boolean(await ("+expression+")))()", values...); time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > patience {
			b.t.Fatalf("never: "+expression+"\n%s", append(values, eval[string](b, "document.body.innerText"))...)
		}
	}
}

// open loads the page, and waits until it has started.
func (b *browser) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
	b.within(`!document.getElementById("main").hidden`)
}

// click has the mouse click on an element, again where it misses: what the page shows
// meanwhile may move the element from under it.
func (b *browser) click(selector string) {
	b.t.Helper()
	b.within(`Boolean(document.querySelector(%s))`, selector)
	for start := time.Now(); ; {
		eval[any](b, `void ((e) => { window.hit = false; e.addEventListener("click", () => { window.hit = true; }, { capture: true, once: true }); })(document.querySelector(%s))`, selector)
		b.do(chromedp.Click(selector))
		if eval[bool](b, `window.hit !== false`) { // or the page is another by now
			return
		}
		if time.Since(start) > patience {
			b.t.Fatalf("the mouse never hits %s", selector)
		}
	}
}

// step clicks a step of the first minute, and waits until it is done.
func (b *browser) step(name string) {
	b.t.Helper()
	b.within(`!document.getElementById("step-" + %s).disabled`, name)
	eval[any](b, `document.getElementById("status").textContent = ""`)
	b.click("#step-" + name)
	b.within(`/^2/.test(document.getElementById("status").textContent) && "done" in document.getElementById("step-" + %s).dataset`, name)
}

// magic puts a payment to a payee into the editor, by its button, and sends it.
func (b *browser) magic(payee string) (status string) {
	b.t.Helper()
	eval[any](b, `(document.getElementById("status").textContent = "", [...document.querySelectorAll("#payees button")].find((e) => e.textContent.startsWith(%s)).click())`, payee)
	b.click("#send")
	b.within(`document.getElementById("status").textContent !== ""`)
	return eval[string](b, `document.getElementById("status").textContent`)
}

// token is what the first step has fetched.
func (b *browser) token() string {
	b.t.Helper()
	b.step("token")
	return eval[string](b, `JSON.parse(document.getElementById("answer").textContent).access_token`)
}

type answer struct {
	Status int
	Text   string
}

// ask sends requests from the page, one after the other.
func (b *browser) ask(token string, requests ...request) []answer {
	b.t.Helper()
	return eval[[]answer](b, `(async (token, requests) => {
		const answers = [];
		for (const { Method, Path, Body, Key } of requests) {
			const headers = { authorization: "Bearer " + token };
			if (Body) headers["content-type"] = "application/json";
			if (Key) headers["idempotency-key"] = Key;
			const answer = await fetch(new URL(Path.slice(1), location.href), { method: Method, headers, body: Body || undefined });
			answers.push({ Status: answer.status, Text: await answer.text() });
		}
		return answers;
	})(%s, %s)`, token, requests)
}

type request struct{ Method, Path, Body, Key string }

// serve is a file host, with nothing but files and headers. It can be closed before
// the test ends.
func serve(t *testing.T) *httptest.Server {
	t.Helper()
	if _, err := os.Stat(files + "/tollgate.wasm.gz"); err != nil {
		t.Fatal(errors.Join(errors.New("make sandbox-test builds it"), err))
	}
	page, err := os.ReadFile(files + "/index.html")
	if err != nil {
		t.Fatal(err)
	}
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(string(page))[1]
	below := http.StripPrefix("/below", http.FileServer(http.Dir(files)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy) // of the page, for its workers too
		w.Header().Set("Cache-Control", "no-store")       // what is there offline, the service worker has kept
		below.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// complaints are errors on the console, such as of the content security policy. A
// refused request is none.
func (b *browser) complaints() (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.messages {
		if strings.Contains(m, "Refused") || strings.Contains(m, "Uncaught") || strings.Contains(m, "Security") {
			all = append(all, m)
		}
	}
	return all
}
