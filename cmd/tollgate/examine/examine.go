// Package examine examines modules of unknown origin in a child process that has
// little time and memory.
package examine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/wasm"
)

// Limits end the child of this process that examines a module of unknown origin.
// Compiling hostile bytes takes time and memory out of proportion, and wazero cannot
// be asked to stop: the kernel ends the child.
type Limits struct {
	cpu    time.Duration // whole seconds
	wall   time.Duration
	memory uint64 // bytes of address space; an idle Go program reserves over one GiB
}

// DefaultLimits are those of the service. A proper module takes a tenth of a second;
// the rest is for machines that are busy.
var DefaultLimits = Limits{cpu: slowness * 5 * time.Second, wall: slowness * 20 * time.Second, memory: 4 << 30}

const (
	checkInput  = 4 << 20 // bytes of a request
	checkAtOnce = 1       // the other cores are the service's
)

// checkRequest is what the child reads, checkAnswer what it writes.
type checkRequest struct {
	Rule   tollgate.Citation `json:"rule"`
	Module []byte            `json:"module"`
	Golden []wasm.GoldenCase `json:"golden"`
}

type checkAnswer struct {
	Report  *wasm.Report       `json:"report"`
	Invalid *wasm.InvalidError `json:"invalid"`
}

// Command is the child.
func Command(a *cli.App) *cobra.Command {
	limits := DefaultLimits
	c := &cobra.Command{
		Use:     "check-module",
		Short:   "Examine a module in a process of its own, for this program itself",
		Hidden:  true,
		Example: "  tollgate rule check-module < request.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := limitProcess(limits); err != nil {
				return err
			}
			text, err := io.ReadAll(io.LimitReader(a.Stdin, checkInput))
			if err != nil {
				return err
			}
			var request checkRequest
			if err := json.Unmarshal(text, &request); err != nil {
				return cli.UsageError(err)
			}
			var answer checkAnswer
			report, err := wasm.NewExaminer(a.Clock)(cmd.Context(), request.Rule, request.Module, request.Golden)
			switch {
			case err == nil:
				answer.Report = &report
			case !errors.As(err, &answer.Invalid):
				return err
			}
			return json.MarshalWrite(a.Stdout, answer)
		},
	}
	c.Flags().DurationVar(&limits.cpu, "cpu", limits.cpu, "processor time")
	c.Flags().Uint64Var(&limits.memory, "memory", limits.memory, "bytes of address space")
	return c
}

// New returns an examiner that works in child processes. It is safe
// for concurrent use.
func New(limits Limits) wasm.Examiner {
	slots := make(chan struct{}, checkAtOnce)
	return func(ctx context.Context, c tollgate.Citation, module []byte, golden []wasm.GoldenCase) (wasm.Report, error) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return wasm.Report{}, fmt.Errorf("examine %s: %w", c, ctx.Err())
		}
		report, err := examineInChild(ctx, limits, checkRequest{c, module, golden})
		var invalid *wasm.InvalidError
		if err != nil && !errors.As(err, &invalid) {
			err = fmt.Errorf("examine %s: %w", c, err)
		}
		return report, err
	}
}

func examineInChild(ctx context.Context, limits Limits, request checkRequest) (wasm.Report, error) {
	input, err := json.Marshal(request)
	if err != nil {
		return wasm.Report{}, err
	}
	if len(input) >= checkInput {
		return wasm.Report{}, &wasm.InvalidError{Reason: fmt.Sprintf("module and golden cases are larger than %d MiB", checkInput>>20)}
	}
	program, err := os.Executable()
	if err != nil {
		return wasm.Report{}, err
	}
	limited, cancel := context.WithTimeout(ctx, limits.wall)
	defer cancel()
	child := exec.CommandContext(limited, program, "rule", "check-module",
		"--cpu", limits.cpu.String(), "--memory", strconv.FormatUint(limits.memory, 10))
	child.Args[0] = "tollgate"
	child.Env = []string{"GOMAXPROCS=1"} // and nothing of this process: no keys
	child.Stdin = bytes.NewReader(input)
	child.WaitDelay = time.Second
	var stdout, stderr Bounded
	child.Stdout, child.Stderr = &stdout, &stderr
	err = child.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return wasm.Report{}, ctx.Err()
	case limited.Err() != nil, errors.As(err, &exit) && !exit.Exited():
		return wasm.Report{}, &wasm.InvalidError{Reason: fmt.Sprintf("compiling it and running its golden cases takes more than %v", limits.cpu)}
	case err != nil && strings.Contains(stderr.Text.String(), "out of memory"):
		return wasm.Report{}, &wasm.InvalidError{Reason: "compiling it takes too much memory"}
	case err != nil:
		return wasm.Report{}, fmt.Errorf("%w: %s", err, cli.Printable(strings.TrimSpace(stderr.Text.String())))
	}
	var answer checkAnswer
	if err := json.Unmarshal(stdout.Text.Bytes(), &answer); err != nil {
		return wasm.Report{}, err
	}
	switch {
	case answer.Invalid != nil:
		return wasm.Report{}, answer.Invalid
	case answer.Report == nil:
		return wasm.Report{}, errors.New("the examining process gave no answer")
	}
	return *answer.Report, nil
}

// Bounded keeps the beginning of what is written to it: what a child writes
// after running hostile code is not trusted to end.
type Bounded struct{ Text bytes.Buffer }

func (b *Bounded) Write(p []byte) (int, error) {
	b.Text.Write(p[:min(len(p), max(0, checkInput-b.Text.Len()))])
	return len(p), nil
}

// RuleProblem gives a fault of a module the exit code of wrong files; that it
// could not be examined is something else.
func RuleProblem(name string, err error) error {
	var invalid *wasm.InvalidError
	if errors.As(err, &invalid) {
		return cli.UsageError(fmt.Errorf("%s: %s", name, cli.Printable(invalid.Reason)))
	}
	return fmt.Errorf("%s: %w", name, err)
}

// UnderTest is the citation of a rule that has none yet.
var UnderTest = tollgate.Citation{Name: "under_test", Version: 1}
