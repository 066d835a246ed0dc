package sandbox

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

func TestOpen(t *testing.T) {
	files := httptest.NewServer(http.FileServer(http.Dir("../../bin/sandbox")))
	defer files.Close()
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), chromedp.ExecPath("/usr/bin/chromium"), chromedp.NoSandbox, chromedp.Headless, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()))
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(files.URL)); err != nil {
		t.Fatal(err)
	}
	msgs := chromedp.Console(ctx)
	go func() {
		for m, err := range msgs {
			t.Logf("%+v %v", m, err)
			if err != nil {
				return
			}
		}
	}()
	out, err := chromedp.Run(ctx, chromedp.Poll[string](`document.getElementById("out").textContent`, chromedp.WithPollingTimeout(20*time.Second)))
	if err != nil {
		t.Error(err)
	}
	t.Log(out)
	_ = context.Background
	more, err := chromedp.Run(ctx, chromedp.Evaluate[string](`(async () => { const r = await fetch(sandbox.base + "/v1/quotes", {method: "POST", body: "{}"}); return r.status + await r.text() + JSON.stringify(steps.slice(-3)); })()`, chromedp.EvalAwaitPromise))
	t.Log(more, err)
}
