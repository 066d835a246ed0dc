package rules

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/examine"
	"tollgate/cmd/tollgate/rules/source"
	"tollgate/wasm"
	"tollgate/wasm/abi"
)

//go:embed node.mjs
var nodeScript string

// nodePatience bounds the run of one rule's cases in Node.js.
const nodePatience = time.Minute

type nodeRequest struct {
	Module   []byte   `json:"module"`
	Fuel     int64    `json:"fuel"`
	Requests [][]byte `json:"requests"`
}

type nodeAnswer struct {
	Version string                       `json:"version"`
	Ways    map[string][]wasm.CaseReport `json:"ways"`
}

// testInNode runs golden cases that were examined here in V8, and returns the
// version of Node.js, empty where there is none. An *wasm.InvalidError says which
// case is another one there.
func testInNode(ctx context.Context, r *source.Rule, report *wasm.Report) (string, error) {
	node, err := exec.LookPath("node")
	if errors.Is(err, exec.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	request := nodeRequest{Fuel: abi.FuelPerCall}
	if request.Module, err = abi.Instrumented(r.Module); err != nil {
		return "", err
	}
	for _, c := range report.Cases {
		request.Requests = append(request.Requests, c.Request)
	}
	input, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, nodePatience)
	defer cancel()
	child := exec.CommandContext(limited, node, "--input-type=module", "--eval", nodeScript)
	child.Env = []string{}
	child.Stdin = bytes.NewReader(input)
	child.WaitDelay = time.Second
	var stdout, stderr examine.Bounded
	child.Stdout, child.Stderr = &stdout, &stderr
	if err := child.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", node, err, cli.Printable(strings.TrimSpace(stderr.Text.String())))
	}
	var answer nodeAnswer
	if err := json.Unmarshal(stdout.Text.Bytes(), &answer); err != nil {
		return "", fmt.Errorf("%s: %w", node, err)
	}
	for way, cases := range answer.Ways {
		if len(cases) != len(report.Cases) {
			return "", fmt.Errorf("%s: %d cases, not %d", node, len(cases), len(report.Cases))
		}
		for i, here := range report.Cases {
			if err := wasm.Agree(cases[i], here); err != nil {
				return "", &wasm.InvalidError{Reason: fmt.Sprintf("golden case %d (%s) in V8 (%s): %v", i+1, r.Golden[i].Name(), way, err)}
			}
		}
	}
	return cli.Printable(answer.Version), nil
}
