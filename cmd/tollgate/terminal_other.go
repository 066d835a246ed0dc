//go:build !unix

package main

// atTerminal says no where it cannot be told.
func (a *app) atTerminal() bool { return false }

// width is that of an output that is no terminal.
func (a *app) width() int { return 80 }
