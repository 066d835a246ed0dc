package replay

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sync/errgroup"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/wasm"
)

const (
	chunkSize = 256 << 10 // of lines that go to one worker at a time
	maxLine   = 8 << 20   // of one ticket
)

// ticketStream reads tickets, one JSON object a line, and prices them on all
// cores. Only what the workers have in hand is in memory.
type ticketStream struct {
	app     *cli.App
	since   tollgate.Instant
	account string
	read    atomic.Int64 // tickets
}

// chunk is some whole lines.
type chunk struct {
	first int // number of its first line
	text  []byte
}

func (s *ticketStream) run(ctx context.Context, in io.Reader, largest int, worker func() *wasm.Backtest) (*wasm.BacktestResult, error) {
	stop := s.progress()
	defer stop()
	workers := runtime.GOMAXPROCS(0)
	chunks := make(chan chunk, workers)
	results := make([]*wasm.BacktestResult, workers)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(chunks)
		return readChunks(ctx, in, chunks)
	})
	for i := range workers {
		group.Go(func() (err error) {
			results[i], err = worker().Run(s.tickets(ctx, chunks))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for _, r := range results[1:] {
		results[0].Add(r, largest)
	}
	return results[0], nil
}

// readChunks cuts the input at line ends.
func readChunks(ctx context.Context, in io.Reader, chunks chan<- chunk) error {
	r := bufio.NewReaderSize(in, chunkSize)
	for line := 1; ; {
		text := make([]byte, chunkSize)
		n, err := io.ReadFull(r, text)
		text = text[:n]
		if err == nil && text[n-1] != '\n' {
			var rest []byte
			for err = bufio.ErrBufferFull; err == bufio.ErrBufferFull; {
				rest, err = r.ReadSlice('\n')
				if text = append(text, rest...); len(text) > chunkSize+maxLine {
					return cli.UsageError(fmt.Errorf("tickets: a line of more than %d MiB behind line %d", maxLine>>20, line))
				}
			}
		}
		if len(text) > 0 {
			select {
			case chunks <- chunk{line, text}:
			case <-ctx.Done():
				return ctx.Err()
			}
			line += bytes.Count(text, []byte("\n"))
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return fmt.Errorf("tickets: %w", err)
		}
	}
}

// tickets are those of the chunks that this worker gets.
func (s *ticketStream) tickets(ctx context.Context, chunks <-chan chunk) iter.Seq2[*tollgate.Ticket, error] {
	return func(yield func(*tollgate.Ticket, error) bool) {
		for c := range chunks {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			n := c.first - 1
			for line := range bytes.Lines(c.text) {
				n++
				if len(bytes.TrimSpace(line)) == 0 {
					continue
				}
				t := new(tollgate.Ticket)
				if err := json.Unmarshal(line, t); err != nil {
					yield(nil, cli.UsageError(fmt.Errorf("line %d: %w", n, err)))
					return
				}
				s.read.Add(1)
				if t.CreatedAt < s.since || (s.account != "" && t.MerchantAccountID != s.account) {
					continue
				}
				if !yield(t, nil) {
					return
				}
			}
		}
	}
}

// progress tells on standard error how far it is, until it is stopped.
func (s *ticketStream) progress() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	begin := s.app.Clock()
	go func() {
		defer close(ended)
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				n := s.read.Load()
				fmt.Fprintf(s.app.Stderr, "%d tickets, %.0f a second\n", n, float64(n)/s.app.Clock().Sub(begin).Seconds())
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}
