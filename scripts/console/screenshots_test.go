package console

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestScreenshots writes pictures of all pages for people to look at; it judges none.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("TOLLGATE_TEST_SCREENSHOTS")
	if dir == "" {
		t.Skip("runs in `make screenshots`")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := dev(t)
	pages := s.world()
	for path := range lists {
		pages[path] = path
	}
	s.rows(20)
	pages["why"] = "rul_card_fee_v2?ticket=" + pages["ticket"] + "&evaluation=2"
	b := launch(t)
	b.open(s.entry)
	for name, path := range pages {
		for _, width := range []int64{1400, 390} {
			b.size(width, 900)
			for _, scheme := range []string{"light", "dark"} {
				b.dark(scheme == "dark")
				b.open(s.console + "/" + path)
				b.within(`!location.pathname.includes("rul_") || document.querySelector(".plot canvas")`)
				picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), picture, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
