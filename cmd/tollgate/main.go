// Command tollgate is the payments service and its command line: `tollgate
// serve` and `tollgate work` are the processes that an operator runs,
// `tollgate dev` is both on an embedded Redis, and the other commands are
// clients of them. It is the only package that reads flags, the environment,
// signals and the wall clock; everything below gets them as parameters.
package main

import (
	"context"
	"crypto/rand"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"tollgate/cmd/tollgate/cli"
)

func main() { start(0, false) }

// start runs the program. storeTimeout is for tests, on machines that stall, and so is
// loopback, for receivers of webhooks there.
func start(storeTimeout time.Duration, loopback bool) {
	// net/http's client tells the standard logger what the other side does
	// wrong, each time: a webhook receiver could fill the log. What matters of
	// it is in the attempt.
	log.SetOutput(io.Discard)
	// A second signal ends the process at once: the default action is back
	// before the first one shows. NotifyContext has it the other way round, and
	// a second one in between is lost.
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals)
		cancel()
	}()
	a := &cli.App{
		Program: os.Args[0], Env: os.LookupEnv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Clock: time.Now, Entropy: rand.Reader, StoreTimeout: storeTimeout, Loopback: loopback,
	}
	os.Exit(a.Run(ctx, rootCommand(a), os.Args[1:]))
}
