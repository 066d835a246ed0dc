package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// maxBody is how many bytes a request to the API has at most.
const maxBody = 1 << 20

// patience is how long the browser may take for a piece of an answer.
const patience = 30 * time.Second

// computing are the requests other than GET that change nothing.
var computing = []string{"/v1/quotes", "/v1/cutoffs/preview"}

// The headers that pass. All others are of one of the two connections, or none of the
// page's business.
var (
	asked    = []string{"Content-Type", "Accept", "Idempotency-Key", "If-None-Match", "Range"}
	answered = []string{
		"Content-Type", "Content-Disposition", "Content-Length", "Etag", "Retry-After", "Request-Id", "Date",
		"Idempotent-Replayed", "Allow", "Link", "Accept-Ranges", "Content-Range",
	}
)

// proxy passes a request on to the API, and what the API says back.
func (c *Console) proxy(w http.ResponseWriter, req *http.Request) {
	path := strings.TrimPrefix(req.URL.EscapedPath(), Home+"/api")
	if !c.Write && !reads(req.Method, path) {
		refuse(w, &Problem{http.StatusForbidden, "console_read_only", "This console only shows. To change something, start it with --write."})
		return
	}
	body, err := readBody(w, req, maxBody)
	if err != nil {
		refuse(w, err)
		return
	}
	if req.URL.RawQuery != "" {
		path += "?" + req.URL.RawQuery
	}
	forward, err := http.NewRequestWithContext(req.Context(), req.Method, path, bytes.NewReader(body))
	if err != nil {
		refuse(w, nothingHere)
		return
	}
	for _, name := range asked {
		if values := req.Header.Values(name); len(values) > 0 {
			forward.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	response, err := c.API(forward)
	if err != nil {
		refuse(w, unreachable(err))
		return
	}
	defer response.Body.Close()
	c.pass(w, response)
}

// reads reports whether a request changes nothing.
func reads(method, path string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodPost && slices.Contains(computing, path)
}

// pass answers with what the API answered. A file goes through in pieces, for as long
// as it takes.
func (c *Console) pass(w http.ResponseWriter, response *http.Response) {
	h := w.Header()
	for _, name := range answered {
		if values := response.Header.Values(name); len(values) > 0 {
			h[name] = values
		}
	}
	if h.Get("Etag") != "" {
		h.Set("Cache-Control", "private, no-cache")
	}
	w.WriteHeader(response.StatusCode)
	if _, err := io.Copy(patient{w, c}, response.Body); err != nil {
		panic(http.ErrAbortHandler) // the browser must not take a part for the whole
	}
}

// patient moves the connection's deadline with each piece that it takes.
type patient struct {
	http.ResponseWriter
	console *Console
}

// Write sends a piece.
func (p patient) Write(b []byte) (int, error) {
	p.console.extend(p.ResponseWriter, patience)
	return p.ResponseWriter.Write(b)
}

// extend gives an answer more time than the server has for others. A writer without
// deadlines needs none.
func (c *Console) extend(w http.ResponseWriter, by time.Duration) {
	control, end := http.NewResponseController(w), c.Clock().Add(by)
	_ = control.SetReadDeadline(end)
	_ = control.SetWriteDeadline(end)
}

// readBody reads a request's body whole: it is sent again where a token was renewed.
func readBody(w http.ResponseWriter, req *http.Request, most int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, most))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, &Problem{http.StatusRequestEntityTooLarge, "body_too_large", fmt.Sprintf("A request to the console has at most %d bytes.", most)}
	}
	if err != nil {
		return nil, &Problem{http.StatusBadRequest, "body_incomplete", "The request's body did not arrive whole."}
	}
	return body, nil
}

// within runs what takes longer than an answer may; the browser hears of its end.
func within[T any](ctx context.Context, most time.Duration, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return do(ctx)
}
