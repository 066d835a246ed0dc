// Package cli is what every command is made of: settings, the client of the service,
// tables and exit codes.
package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"tollgate"
)

// App is everything that the commands have from the world, so that a test can
// run the real program with a world of its own.
type App struct {
	Program        string // as it was called, for commands that are printed to be pasted
	args           []string
	pinned         []pinnedFlag // see pin
	Env            func(name string) (string, bool)
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Clock          func() time.Time
	Entropy        io.Reader
	StoreTimeout   time.Duration // of calls to Redis; zero: rediskv's own
	Loopback       bool          // serve and work deliver to this machine too; for tests
}

// The exit codes, part of the interface of the command line.
const (
	ExitOK          = 0
	ExitRefused     = 1 // the server refused (4xx), or a check said no
	ExitUsage       = 2 // wrong flags, arguments, configuration or files
	ExitUnavailable = 3 // no answer, one that says to try again (5xx), or one that was erased
)

// ExitError is an error that decides the exit code.
type ExitError struct {
	Code int
	err  error
}

func (e *ExitError) Error() string { return e.err.Error() }
func (e *ExitError) Unwrap() error { return e.err }

// UsageError is an error of whoever called the program.
func UsageError(err error) error { return &ExitError{ExitUsage, err} }

// RefusedError is an error with the exit code of a check that says no.
func RefusedError(err error) error { return &ExitError{ExitRefused, err} }

// ErrErased is of a ticket that nobody can verify, now or later.
var ErrErased = errors.New("erased: the rules of this ticket cannot be run again")

// UnavailableError is an error of a service that gives no answer.
func UnavailableError(err error) error { return &ExitError{ExitUnavailable, err} }

// StartError gives what kept a command from beginning its exit code: Redis is away, or
// the settings are wrong.
func StartError(err error) error {
	if e, ok := errors.AsType[*tollgate.Error](err); ok && e.Code == tollgate.CodeStoreUnavailable {
		return UnavailableError(err)
	}
	if _, ok := errors.AsType[*ExitError](err); ok || err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return UsageError(err)
}

// Run executes one command of a tree and returns its exit code.
func (a *App) Run(ctx context.Context, root *cobra.Command, args []string) int {
	a.args, a.pinned = args, nil
	root.SetArgs(args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	started := false
	strict(root, func() { started = true })
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	var exit *ExitError
	var refused *Refusal
	if errors.As(err, &refused) && refused.AsJSON {
		fmt.Fprintln(a.Stderr, refused)
	} else {
		fmt.Fprintf(a.Stderr, "tollgate: %v\n", err)
	}
	var open *repeatableError
	if errors.As(err, &open) {
		fmt.Fprintf(a.Stderr, "The request may have been carried out. Repeat it with the same key, and it is carried out once:\n  %s\n", open.command)
		return ExitUnavailable
	}
	if next := a.next(err); next != "" && (refused == nil || !refused.AsJSON) {
		fmt.Fprintf(a.Stderr, "Try: %s\n", next)
	}
	switch {
	case refused != nil:
		return refused.exit()
	case errors.As(err, &exit):
		return exit.Code
	case !started: // cobra's own: unknown command, flag or number of arguments
		fmt.Fprintf(a.Stderr, "Run '%s --help' for how it is used.\n", cmd.CommandPath())
		return ExitUsage
	default:
		return ExitRefused
	}
}

// Complete adds to the tree of commands what all of them have in common: the flags
// of their settings, help, completion, and what tells of the program itself.
func (a *App) Complete(root *cobra.Command) {
	root.AddCommand(a.versionCommand(), a.settingsCommand())
	for _, c := range root.Commands() {
		a.bind(c)
	}
	root.SetHelpCommand(strictHelp(root))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
}

// RandomText is 128 random bits in hex: a jti, an idempotency key.
func (a *App) RandomText() string {
	var b [16]byte
	if _, err := io.ReadFull(a.Entropy, b[:]); err != nil {
		panic(err) // crypto/rand never fails
	}
	return hex.EncodeToString(b[:])
}
