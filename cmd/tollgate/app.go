package main

import (
	"context"
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

// run executes one command and returns its exit code.
func (a *app) run(ctx context.Context, args []string) int {
	a.args, a.pinned = args, nil
	root := a.rootCommand()
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

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "tollgate",
		Short: "A payments service that explains every fee",
		Long: `Tollgate prices, authorizes and captures payments, and explains every fee.

Start with 'tollgate dev': it runs the whole service on an embedded Redis and
prints what to paste next.

Exit codes: 0 done, 1 refused by the server, 2 wrong usage or configuration,
3 the server is unavailable.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run the service:"},
		&cobra.Group{ID: "client", Title: "Use it:"},
		&cobra.Group{ID: "webhooks", Title: "Receive its events:"},
		&cobra.Group{ID: "prepare", Title: "Prepare it:"})
	group := func(id string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	group("run", a.devCommand(), a.clockCommand(), a.serveCommand(), a.workCommand())
	group("client", a.whoamiCommand(), a.tokenCommand(), a.accountsCommand(), a.perimetersCommand(), a.perimeterCommand(), a.quoteCommand(), a.payCommand(), a.paymentCommand(), a.paymentsCommand(),
		a.captureCommand(), a.refundCommand(), a.cancelCommand(), a.reviewCommand(), a.ticketCommand(), a.transactionsCommand(), a.eventsCommand(), a.eventCommand(),
		a.payoutCommand(), a.cutoffCommand(), a.exportCommand(), a.exportsCommand())
	group("webhooks", a.webhooksCommand(), a.deliveriesCommand(), a.attemptsCommand(), a.resendCommand(), a.recoverCommand(),
		a.listenCommand(), a.triggerCommand())
	group("prepare", a.provisionCommand(), a.ruleCommand(), a.keyCommand())
	root.AddCommand(a.versionCommand(), a.settingsCommand())
	for _, c := range root.Commands() {
		a.bind(c)
	}
	root.SetHelpCommand(strictHelp(root))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}
