package dev

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"tollgate/cmd/tollgate/cli"
	"tollgate/handlers/console"
)

// plainHandler prints log records for a person who watches: a request as
// "18:16:28 POST /v1/payments 201 3.1ms", anything else as its message and
// attributes.
type plainHandler struct {
	mu    *sync.Mutex
	w     io.Writer
	clock func() time.Time
	attrs []slog.Attr
}

func newPlainHandler(w io.Writer, clock func() time.Time) *plainHandler {
	return &plainHandler{mu: new(sync.Mutex), w: w, clock: clock}
}

func (h *plainHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (h *plainHandler) WithGroup(string) slog.Handler { return h }

func (h *plainHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.attrs = append(append([]slog.Attr{}, h.attrs...), attrs...)
	return &with
}

func (h *plainHandler) Handle(_ context.Context, r slog.Record) error {
	attrs := h.attrs
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	var line strings.Builder
	line.WriteString(h.clock().Format(time.TimeOnly))
	if r.Message == "request" {
		value := map[string]string{}
		for _, a := range attrs {
			value[a.Key] = a.Value.String()
		}
		if _, path, _ := strings.Cut(value["route"], " "); (path == console.Home || strings.HasPrefix(path, console.Home+"/")) && value["status"] < "400" {
			return nil // a file, or what the console asks the API itself, which has a line
		}
		took, _ := strconv.ParseFloat(value["took_ms"], 64)
		fmt.Fprintf(&line, "  %-4s %-40s %s  %6.1f ms  %s", value["method"], strings.TrimPrefix(value["route"], value["method"]+" "),
			value["status"], took, value["request_id"])
	} else {
		fmt.Fprintf(&line, "  %s", r.Message)
		if r.Level != slog.LevelInfo {
			fmt.Fprintf(&line, " (%s)", strings.ToLower(r.Level.String()))
		}
		for _, a := range attrs {
			fmt.Fprintf(&line, "  %s=%s", a.Key, a.Value)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := fmt.Fprintln(h.w, cli.Printable(line.String()))
	return err
}
