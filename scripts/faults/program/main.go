// Command program is `tollgate` as operators run it, but for two things: webhook endpoints
// may be on this machine, and its clock is as many seconds off as the file says that
// FAULTS_CLOCK names.
package main

import (
	"context"
	"crypto/rand"
	"io"
	"log"
	"os"
	"os/signal"
	"strconv"
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
		Clock: clock, Entropy: rand.Reader, Loopback: true,
	}
	root := &cobra.Command{Use: "tollgate", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(server.Commands(a)...)
	root.AddCommand(provision.Commands(a)...)
	a.Complete(root)
	os.Exit(a.Run(ctx, root, os.Args[1:]))
}

// clock is the machine's, as it would be if somebody had set it: what only counts is as it
// was.
func clock() time.Time {
	name := os.Getenv("FAULTS_CLOCK")
	if name == "" {
		return time.Now()
	}
	text, _ := os.ReadFile(name)
	off, _ := strconv.Atoi(string(text))
	return time.Now().Add(time.Duration(off) * time.Second)
}
