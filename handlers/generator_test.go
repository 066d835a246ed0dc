package handlers_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollgate/handlers/auth"
	"tollgate/rediskv/redistest"
)

// generatorVariable is set for the process that TestGenerator is for.
const generatorVariable = "TOLLGATE_TEST_GENERATOR"

// generator sends requests from a process of its own, so that what they cost the
// client is no part of what this process uses. What it sends is ready: a text with
// places for a number and an assertion.
type generator struct {
	Address     string
	Request     string
	Status      int
	Connections int
	Private     []byte // the key that signs assertions; nil: none are needed
	Client      string

	serial atomic.Int64
}

// ownSerial and ownAssertion stand in a request where each one has its own.
const (
	ownSerial    = "00000000"
	ownAssertion = "{assertion}"
)

// start starts the process. send has it send n requests and waits for their answers.
func (g *generator) start(b *testing.B) (send func(n int)) {
	b.Helper()
	args := redistest.Elsewhere(os.Args[0], "-test.run=^TestGenerator$", "-test.count=1")
	cmd := exec.CommandContext(b.Context(), args[0], args[1:]...)
	cmd.Env, cmd.Stderr = append(os.Environ(), generatorVariable+"=1"), os.Stderr
	in, err := cmd.StdinPipe()
	check(b, err)
	out, err := cmd.StdoutPipe()
	check(b, err)
	check(b, cmd.Start())
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	questions, answers := json.NewEncoder(in), json.NewDecoder(out)
	check(b, questions.Encode(g))
	return func(n int) {
		var fault string
		check(b, questions.Encode(n))
		check(b, answers.Decode(&fault))
		if fault != "" {
			b.Fatal(fault)
		}
	}
}

// TestGenerator is that process.
func TestGenerator(t *testing.T) {
	if os.Getenv(generatorVariable) == "" {
		t.Skip("benchmarks run it")
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var g generator
	check(t, in.Decode(&g))
	lines := make([]*line, g.Connections)
	for i := range lines {
		conn, err := net.Dial("tcp", g.Address)
		check(t, err)
		lines[i] = &line{conn, bufio.NewReader(conn)}
	}
	for n := 0; in.Decode(&n) == nil; {
		fault := ""
		if err := g.send(lines, n); err != nil {
			fault = err.Error()
		}
		check(t, out.Encode(fault))
	}
}

// line is a connection to the service.
type line struct {
	conn    net.Conn
	answers *bufio.Reader
}

// send sends n requests over all lines; each sends its next as soon as it has its
// answer.
func (g *generator) send(lines []*line, n int) (err error) {
	var left atomic.Int64
	left.Store(int64(n))
	faults := make(chan error, len(lines))
	var sending sync.WaitGroup
	for _, l := range lines {
		sending.Go(func() {
			for left.Add(-1) >= 0 {
				if err := g.one(l); err != nil {
					faults <- err
					return
				}
			}
		})
	}
	sending.Wait()
	close(faults)
	return <-faults
}

func (g *generator) one(l *line) error {
	text, err := g.next()
	if err != nil {
		return err
	}
	if _, err := l.conn.Write(text); err != nil {
		return err
	}
	answer, err := http.ReadResponse(l.answers, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != g.Status {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return err
}

// next is a request with a number and an assertion of its own.
func (g *generator) next() ([]byte, error) {
	own := fmt.Sprintf("%0*d", len(ownSerial), g.serial.Add(1))
	text := bytes.ReplaceAll([]byte(g.Request), []byte(ownSerial), []byte(own))
	if g.Private == nil {
		return text, nil
	}
	signed, err := auth.SignAssertion(g.Private, g.Client, issuer, own, time.Now())
	head, body, _ := strings.Cut(string(text), "\r\n\r\n")
	body = strings.Replace(body, ownAssertion, signed, 1)
	return fmt.Appendf(nil, "%s\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body), err
}
