//go:build unix

package cli

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// AtTerminal reports whether standard input is a terminal, where a person can
// be asked.
func (a *App) AtTerminal() bool {
	f, ok := a.Stdin.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// Width is how many characters a line of the output may have: $COLUMNS, the
// terminal's width, or 80 when the output goes elsewhere.
func (a *App) Width() int {
	if text, ok := a.Env("COLUMNS"); ok {
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			return n
		}
	}
	if f, ok := a.Stdout.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			return int(size.Col)
		}
	}
	return 80
}
