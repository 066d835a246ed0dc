//go:build !unix

package cli

// AtTerminal says no where it cannot be told.
func (a *App) AtTerminal() bool { return false }

// Width is that of an output that is no terminal.
func (a *App) Width() int { return 80 }
