package cli

import (
	"context"
	"os/exec"
	"runtime"
)

// Browse shows a file or an address in the person's browser. Other users of the
// machine can read it while the browser starts. Without a screen nothing happens.
func (a *App) Browse(ctx context.Context, target string) error {
	opener := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		opener = []string{"open"}
	case "windows":
		opener = []string{"rundll32", "url.dll,FileProtocolHandler"}
	default:
		_, x := a.Env("DISPLAY")
		_, wayland := a.Env("WAYLAND_DISPLAY")
		if !x && !wayland {
			return nil
		}
	}
	c := exec.CommandContext(context.WithoutCancel(ctx), opener[0], append(opener[1:], target)...)
	if err := c.Start(); err != nil {
		return err
	}
	go func() { _ = c.Wait() }() // some openers last as long as the browser
	return nil
}
