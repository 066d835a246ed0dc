package mcp

import (
	"context"
	"errors"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Serve speaks the protocol over a pair of streams until the reader ends or ctx does:
// with the client that has started this program.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	s, err := New(o)
	if err != nil {
		return err
	}
	err = s.Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(in), Writer: unclosed{out}, MaxLineLength: maxBody})
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return err
}

// unclosed is a writer that is somebody else's to close.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
