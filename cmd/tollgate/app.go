package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// app is everything that the commands have from the world, so that a test can
// run the real program with a world of its own.
type app struct {
	program        string // as it was called, for commands that are printed to be pasted
	args           []string
	pinned         []pinnedFlag // see pin
	env            func(name string) (string, bool)
	stdin          io.Reader
	stdout, stderr io.Writer
	clock          func() time.Time
	entropy        io.Reader
	storeTimeout   time.Duration // of calls to Redis; zero: rediskv's own
}

// The exit codes, part of the interface of the command line.
const (
	exitOK          = 0
	exitRefused     = 1 // the server refused (4xx), or a check said no
	exitUsage       = 2 // wrong flags, arguments, configuration or files
	exitUnavailable = 3 // no answer, or one that says to try again (5xx)
)

// exitError is an error that decides the exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usageError(err error) error       { return &exitError{exitUsage, err} }
func unavailableError(err error) error { return &exitError{exitUnavailable, err} }

// run executes one command of a tree and returns its exit code.
func (a *app) run(ctx context.Context, root *cobra.Command, args []string) int {
	a.args, a.pinned = args, nil
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	started := false
	strict(root, func() { started = true })
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	var exit *exitError
	var refused *refusal
	if errors.As(err, &refused) && refused.asJSON {
		fmt.Fprintln(a.stderr, refused)
	} else {
		fmt.Fprintf(a.stderr, "tollgate: %v\n", err)
	}
	var open *repeatableError
	if errors.As(err, &open) {
		fmt.Fprintf(a.stderr, "The request may have been carried out. Repeat it with the same key, and it is carried out once:\n  %s\n", open.command)
		return exitUnavailable
	}
	switch {
	case refused != nil:
		return refused.exit()
	case errors.As(err, &exit):
		return exit.code
	case !started: // cobra's own: unknown command, flag or number of arguments
		fmt.Fprintf(a.stderr, "Run '%s --help' for how it is used.\n", cmd.CommandPath())
		return exitUsage
	default:
		return exitRefused
	}
}

// complete adds to the tree of commands what all of them have in common: the flags
// of their settings, help, completion, and what tells of the program itself.
func (a *app) complete(root *cobra.Command) {
	root.AddCommand(a.versionCommand(), a.settingsCommand())
	for _, c := range root.Commands() {
		a.bind(c)
	}
	root.SetHelpCommand(strictHelp(root))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
}

// randomText is 128 random bits in hex: a jti, an idempotency key.
func (a *app) randomText() string {
	var b [16]byte
	if _, err := io.ReadFull(a.entropy, b[:]); err != nil {
		panic(err) // crypto/rand never fails
	}
	return hex.EncodeToString(b[:])
}
