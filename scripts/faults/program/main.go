// Command program is `tollgate` as operators run it, but for one thing: webhook endpoints
// may be on this machine.
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

	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/provision"
	"tollgate/cmd/tollgate/server"
)

func main() {
	log.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &cli.App{
		Program: os.Args[0], Env: os.LookupEnv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Clock: time.Now, Entropy: rand.Reader, Loopback: true,
	}
	root := &cobra.Command{Use: "tollgate", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(server.Commands(a)...)
	root.AddCommand(provision.Commands(a)...)
	a.Complete(root)
	os.Exit(a.Run(ctx, root, os.Args[1:]))
}
