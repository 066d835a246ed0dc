package sandbox

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// The first minute of the README, played by clicks, then what else the page has.
func TestFirstMinute(t *testing.T) {
	b := launch(t, t.TempDir())
	began := time.Now()
	b.open(serve(t).URL + "/below/")
	t.Logf("ready after %s, with the browser warm and the network none", time.Since(began).Round(10*time.Millisecond))
	for _, name := range []string{"token", "quote", "pay", "capture-part", "capture", "ticket", "transactions", "events", "deliveries"} {
		b.step(name)
	}
	text := func(id string) string {
		return eval[string](b, `document.getElementById(%s).innerText.replace(/\s+/g, " ")`, id)
	}
	b.within(`document.querySelectorAll("#ticket tbody tr").length === 4`)
	if got := text("ticket"); !strings.Contains(got, "Card fee 1.39 rule:card_fee@v2 2 Platform fee 0.10 rule:platform_fee@v1 2 Card fee 1.01 rule:card_fee@v2 3") || !strings.Contains(got, "Total 2.60 EUR") {
		t.Errorf("the ticket: %s", got)
	}
	b.click("#tab-webhooks")
	b.within(`document.getElementById("deliveries").children.length >= 3`)
	b.click("#deliveries summary")
	if got := text("deliveries"); !strings.Contains(got, "POST /tollgate HTTP/1.1 Host: receiver.example") || !strings.Contains(got, "Webhook-Signature: v1,") {
		t.Errorf("a delivery: %s", got)
	}

	for payee, want := range map[string]string{"deny.test": "403 perimeter_denied", "refuse.test": "422 rule_rejected", "trap.test": "503 rule_failed", "loop.test": "503 rule_failed"} {
		if got := b.magic(payee); got != want {
			t.Errorf("%s: %s", payee, got)
		}
	}

	eval[any](b, `(document.getElementById("receiving").value = "500", document.getElementById("receiving").dispatchEvent(new Event("change")))`)
	b.step("pay")
	b.within(`document.querySelector("#deliveries .bad")?.textContent === "payment.authorized → 500"`)

	moment := func() time.Time {
		at, err := time.Parse(time.DateTime, text("now"))
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	before := moment()
	b.click("#advance-120h")
	b.click("#tab-events")
	b.within(`[...document.querySelectorAll("#log summary span")].some((e) => e.textContent === "payout.paid")`)
	if moved := moment().Sub(before); moved < 120*time.Hour || moved > 121*time.Hour {
		t.Errorf("the clock has moved by %s", moved)
	}

	eval[any](b, `(document.getElementById("request").value = "curl $TOLLGATE_URL/v1/payments | jq", document.getElementById("send").click())`)
	b.within(`!document.getElementById("problem").hidden && document.getElementById("problem").textContent.startsWith("| is more of a shell")`)
	if complaints := b.complaints(); len(complaints) > 0 {
		t.Errorf("%q", complaints)
	}
}

// What the page has answered is there when the browser is killed, and when its tab is
// closed.
func TestKilledBrowserLosesNothing(t *testing.T) {
	host, profile := serve(t), t.TempDir()
	b := launch(t, profile)
	b.open(host.URL + "/below/")
	eval[any](b, `void (async (token) => {
		for (let i = 0; ; i++) {
			const answer = await fetch("v1/payments", {
				method: "POST", headers: { authorization: "Bearer " + token, "content-type": "application/json", "idempotency-key": "key-" + i },
				body: JSON.stringify({ amount: "5.00", currency: "EUR", payee: "shop.example" }),
			});
			console.log("acknowledged " + (await answer.json()).id);
		}
	})(%s)`, b.token())
	acknowledged := func() (ids []string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, m := range b.messages {
			if id, ok := strings.CutPrefix(m, "acknowledged "); ok {
				ids = append(ids, id)
			}
		}
		return ids
	}
	for start := time.Now(); len(acknowledged()) < 40; time.Sleep(time.Millisecond) {
		if time.Since(start) > patience {
			t.Fatalf("%d payments", len(acknowledged()))
		}
	}
	if err := chromedp.FromContext(b.ctx).Browser.Process().Kill(); err != nil {
		t.Fatal(err)
	}
	ids := acknowledged()
	b.end()

	b = launch(t, profile)
	b.open(host.URL + "/below/")
	token := b.token()
	for _, id := range ids {
		if got := b.ask(token, request{Method: "GET", Path: "/v1/payments/" + id}); got[0].Status != 200 {
			t.Errorf("%s was acknowledged: %d", id, got[0].Status)
		}
	}
	again := b.ask(token, request{"POST", "/v1/payments", `{"amount":"5.00","currency":"EUR","payee":"shop.example"}`, "key-0"})
	if !strings.Contains(again[0].Text, ids[0]) {
		t.Errorf("the same key makes %s, and made %s", again[0].Text, ids[0])
	}
	last := b.ask(token, request{"POST", "/v1/payments", `{"amount":"6.00","currency":"EUR","payee":"shop.example"}`, "closing"})
	b.do(chromedp.Navigate("about:blank")) // its worker ends with the last tab
	b.open(host.URL + "/below/")
	if again := b.ask(b.token(), request{"POST", "/v1/payments", `{"amount":"6.00","currency":"EUR","payee":"shop.example"}`, "closing"}); again[0] != last[0] {
		t.Errorf("%v, was %v", again, last)
	}
}

// What is kept is on disk before anybody is told so: behind a transaction that is not
// done, nothing is.
func TestKeptWhenItIsOnDisk(t *testing.T) {
	b := launch(t, t.TempDir())
	b.open(serve(t).URL + "/below/")
	order := eval[[]string](b, `(async () => {
		const { State } = await import("./state.js");
		const state = await State.open("another");
		const order = [];
		const before = state.database.transaction("changes", "readwrite");
		let asked = 0;
		const again = () => { if (asked++ < 100) before.objectStore("changes").count().onsuccess = again; };
		again();
		before.addEventListener("complete", () => order.push("before"));
		await state.add(new Uint8Array([1])).then(() => order.push("kept"));
		state.database.transaction = (...all) => {
			const refused = IDBDatabase.prototype.transaction.apply(state.database, all);
			setTimeout(() => refused.abort());
			return refused;
		};
		await state.add(new Uint8Array([2])).catch(() => order.push("refused"));
		delete state.database.transaction;
		return [...order, (await state.pieces()).join()];
	})()`)
	if want := []string{"before", "kept", "refused", "1"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
}

// After the first load the page needs no network.
func TestOffline(t *testing.T) {
	host := serve(t)
	b := launch(t, t.TempDir())
	b.open(host.URL + "/below/")
	b.within(`(await caches.open((await caches.keys())[0])).match("tollgate.wasm.gz")`)
	host.Close()
	b.do(chromedp.Navigate("about:blank"))
	b.open(host.URL + "/below/")
	b.step("token")
	b.step("pay")
}

// Two tabs have one sandbox, also when the one that began it is closed.
func TestTwoTabs(t *testing.T) {
	neededForAll(t)
	host := serve(t)
	first := launch(t, t.TempDir())
	first.open(host.URL + "/below/")
	second := tab(t, first.ctx)
	second.open(host.URL + "/below/")
	token := first.token()
	made := first.ask(token, request{"POST", "/v1/payments", `{"amount":"5.00","currency":"EUR","payee":"shop.example"}`, "one"})
	if again := second.ask(token, request{"POST", "/v1/payments", `{"amount":"5.00","currency":"EUR","payee":"shop.example"}`, "one"}); again[0] != made[0] || made[0].Status != 201 {
		t.Errorf("%v, was %v", again, made)
	}
	first.do(chromedp.Navigate("about:blank"))
	if again := second.ask(token, request{"POST", "/v1/payments", `{"amount":"5.00","currency":"EUR","payee":"shop.example"}`, "one"}); again[0] != made[0] {
		t.Errorf("%v, was %v", again, made)
	}
}

// A sandbox can be taken along, forgotten, and put back.
func TestExportResetImport(t *testing.T) {
	neededForAll(t)
	host := serve(t)
	b := launch(t, t.TempDir())
	b.open(host.URL + "/below/")
	made := b.ask(b.token(), request{"POST", "/v1/payments", `{"amount":"5.00","currency":"EUR","payee":"shop.example"}`, "one"})
	key := regexp.MustCompile(`"id":"(pay_[^"]*)"`).FindStringSubmatch(made[0].Text)
	eval[any](b, `(window.make = URL.createObjectURL, URL.createObjectURL = (blob) => { window.taken = blob; return window.make.call(URL, blob); })`)
	b.click("#export")
	b.within(`window.taken`)
	state, err := base64.StdEncoding.DecodeString(eval[string](b, `window.taken.arrayBuffer().then((bytes) => btoa(Array.from(new Uint8Array(bytes), (c) => String.fromCharCode(c)).join("")))`))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(state, []byte(key[1])) {
		t.Fatalf("an export of %d bytes has no %s", len(state), key[1])
	}

	reopen := func(act func()) {
		eval[any](b, `(window.old = true, window.confirm = () => true)`)
		act()
		for start := time.Now(); ; time.Sleep(20 * time.Millisecond) { // an evaluation may meet the page that goes
			there, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`!window.old && document.getElementById("main")?.hidden === false`))
			if err == nil && there {
				return
			} else if time.Since(start) > patience {
				t.Fatalf("the page does not start again\n%s", eval[string](b, "document.body.innerText"))
			}
		}
	}
	reopen(func() { b.click("#reset") })
	if got := b.ask(b.token(), request{Method: "GET", Path: "/v1/payments/" + key[1]}); got[0].Status != 404 {
		t.Errorf("it is reset, and has %v", got)
	}
	file := filepath.Join(t.TempDir(), "a.tollgate")
	if err := os.WriteFile(file, []byte("PK, and no sandbox"), 0o600); err != nil {
		t.Fatal(err)
	}
	eval[any](b, `window.confirm = () => true`)
	b.do(chromedp.SetUploadFiles("#import", []string{file}))
	b.within(`/cannot be read/.test(document.getElementById("state").textContent)`)
	if err := os.WriteFile(file, state, 0o600); err != nil {
		t.Fatal(err)
	}
	reopen(func() { b.do(chromedp.SetUploadFiles("#import", []string{file})) })
	if again := b.ask(b.token(), request{"POST", "/v1/payments", `{"amount":"5.00","currency":"EUR","payee":"shop.example"}`, "one"}); again[0] != made[0] {
		t.Errorf("%v, was %v", again, made)
	}
}

// A first load is at most 8 MB, packed, and has every file that it needs offline.
func TestFiles(t *testing.T) {
	serve(t)
	names, err := filepath.Glob(files + "/*")
	if err != nil {
		t.Fatal(err)
	}
	worker, err := os.ReadFile(files + "/service-worker.js")
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`const version = "0"`).Match(worker) {
		t.Error("the service worker has no version: it would never take other files")
	}
	total := 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(name)
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(text); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".gz") { // a host sends it as it is
			total += len(text)
		} else {
			total += min(len(text), packed.Len())
		}
		kept := base
		if base == "index.html" {
			kept = "./"
		}
		if !slices.Contains([]string{"service-worker.js", "tollgate.wasm.gz"}, base) && !bytes.Contains(worker, []byte(`"`+kept+`"`)) {
			t.Errorf("the service worker does not keep %s", base)
		}
	}
	t.Logf("%d bytes in %d files", total, len(names))
	if total > 8_000_000 {
		t.Errorf("a first load of %d bytes", total)
	}
}
