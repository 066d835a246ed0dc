package sandbox

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

func TestShots(t *testing.T) {
	files := httptest.NewServer(http.FileServer(http.Dir("../../bin/sandbox")))
	defer files.Close()
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), chromedp.ExecPath("/usr/bin/chromium"), chromedp.NoSandbox, chromedp.Headless, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1400, 1000))
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(files.URL)); err != nil {
		t.Fatal(err)
	}
	msgs := chromedp.Console(ctx)
	go func() {
		for m, err := range msgs {
			if err != nil {
				return
			}
			t.Logf("%+v", m)
		}
	}()
	shot := func(name string) {
		b, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Error(err)
		}
		os.WriteFile("/tmp/"+name+".png", b, 0o644)
	}
	if err := chromedp.Do(ctx, chromedp.WaitVisible("#main"), chromedp.WaitVisible("#step-token")); err != nil {
		t.Error(err)
	}
	for _, s := range []string{"token", "quote", "pay", "capture-part", "capture", "ticket", "transactions", "events", "deliveries", "ticket"} {
		if err := chromedp.Do(ctx, chromedp.Click("#step-"+s), chromedp.Sleep(700*time.Millisecond)); err != nil {
			t.Error(s, err)
		}
		st, err := chromedp.Run(ctx, chromedp.TextContent("#status"))
		pr, _ := chromedp.Run(ctx, chromedp.TextContent("#problem"))
		t.Log(s, st, pr, err)
	}
	time.Sleep(time.Second)
	shot("a")
	chromedp.Do(ctx, chromedp.Click("#tab-webhooks"))
	chromedp.Do(ctx, chromedp.Click("#deliveries summary"))
	shot("b")
	chromedp.Do(ctx, chromedp.EmulateViewport(400, 1400), chromedp.Click("#tab-events"))
	shot("c")
}
