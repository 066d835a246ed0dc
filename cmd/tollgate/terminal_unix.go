//go:build unix

package main

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// atTerminal reports whether standard input is a terminal, where a person can
// be asked.
func (a *app) atTerminal() bool {
	f, ok := a.stdin.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// width is how many characters a line of the output may have: $COLUMNS, the
// terminal's width, or 80 when the output goes elsewhere.
func (a *app) width() int {
	if text, ok := a.env("COLUMNS"); ok {
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			return n
		}
	}
	if f, ok := a.stdout.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			return int(size.Col)
		}
	}
	return 80
}
