package handlers

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"tollgate"
	"tollgate/handlers/problem"
	"tollgate/handlers/share"
)

// downloadPatience is how long the client may take for each piece of a file.
const downloadPatience = 30 * time.Second

// maxRanges are as many pieces of a file as one answer has; who asks for more
// is sent the whole.
const maxRanges = 8

// getExportFile sends the file, whole or in ranges (RFC 9110 §14). Each
// download is audited before anything of it is sent.
func (s *Server) getExportFile(c *call) (*answer, error) {
	e, err := s.export(c)
	if err != nil {
		return nil, err
	}
	if err := e.HasFile(); err != nil {
		return nil, err
	}
	// A file takes longer than a request may; each read from Redis is bounded.
	ctx := context.WithoutCancel(c.ctx)
	content, err := s.store.ExportFile(ctx, c.caller(http.StatusOK), &e.Export)
	if err != nil {
		return nil, err
	}
	return &answer{file: &download{&e.Export, content}}, nil
}

// download is a file on its way.
type download struct {
	*tollgate.Export
	content io.ReadSeeker
}

// exportMedia is the media type of each format.
var exportMedia = map[string]string{
	tollgate.FormatCSV: "text/csv; charset=utf-8", tollgate.FormatNDJSON: "application/x-ndjson",
}

// fileMedia are what a client may accept to be sent a file.
var fileMedia = []string{"text/csv", "text/*", "application/x-ndjson", "multipart/byteranges"}

// sendFile answers with a file. The standard library reads Range, If-Range and
// If-None-Match; other preconditions are for changes, and this is none.
func (s *Server) sendFile(c *call, d *download) {
	sum, _ := hex.DecodeString(d.Result.SHA256) // our own
	headers := map[string]string{
		"Cache-Control": keptByClient, "Content-Type": exportMedia[d.Format], "ETag": `"` + d.Result.SHA256 + `"`,
		"Content-Disposition": fmt.Sprintf(`attachment; filename="%s-%s.%s"`, d.Dataset, d.ID, d.Format), // an id has nothing to escape
		"Repr-Digest":         "sha-256=:" + base64.StdEncoding.EncodeToString(sum) + ":",                // RFC 9530 §3
	}
	h := c.Header()
	for name, value := range headers {
		h.Set(name, value)
	}
	req := c.request.Clone(c.ctx)
	for _, name := range []string{"If-Match", "If-Unmodified-Since", "If-Modified-Since"} {
		req.Header.Del(name)
	}
	// A unit that is not known is ignored, and so are an abundance of ranges and
	// the ranges of a HEAD (RFC 9110 §14.2, interface §11).
	if ranges := req.Header.Get("Range"); req.Method == http.MethodHead || !strings.HasPrefix(ranges, "bytes=") || strings.Count(ranges, ",") >= maxRanges {
		req.Header.Del("Range")
	}
	w := &fileWriter{call: c, sending: s.shares.Sending, holds: &s.shares.Holds, size: d.Result.Bytes, begin: func(status int) error {
		return s.store.Audit(c.ctx, c.caller(status), tollgate.AuditEntry{
			Type: "export.download", Outcome: "succeeded", Reason: string(d.Dataset), Target: tollgate.AuditTarget{Type: "export", ID: d.ID},
		})
	}}
	http.ServeContent(w, req, "", time.Time{}, d.content)
	if w.refused != nil {
		for name := range headers {
			h.Del(name)
		}
		for _, name := range []string{"Accept-Ranges", "Content-Length"} {
			h.Del(name)
		}
		s.fail(c, w.refused)
	}
}

// fileWriter stands between the standard library and the client: its errors
// become problems, as all are; nothing of a file goes out that begin has not
// agreed to; and a client has time for each piece, not for the whole.
type fileWriter struct {
	*call
	sending *share.Queue
	holds   *share.Holds
	size    int64
	begin   func(status int) error
	refused error
}

// WriteHeader begins the answer, unless it is refused.
func (w *fileWriter) WriteHeader(status int) {
	switch {
	case status == http.StatusRequestedRangeNotSatisfiable:
		w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", w.size)) // also of a range without sense
		w.refused = problem.New(tollgate.CodeRangeNotSatisfiable, "The file has nothing at this range; Content-Range says how long it is.")
	case status < 300:
		w.refused = w.begin(status)
	}
	if w.refused == nil {
		w.call.WriteHeader(status)
	}
}

// Write sends a piece.
func (w *fileWriter) Write(b []byte) (int, error) {
	if w.refused != nil {
		return 0, w.refused
	}
	// The connection's deadlines are real time, not the service's clock; not
	// every ResponseWriter of a test has them.
	ctx, cancel := context.WithTimeout(context.Background(), downloadPatience)
	end, _ := ctx.Deadline()
	cancel()
	control := http.NewResponseController(w.call)
	_ = control.SetReadDeadline(end)
	_ = control.SetWriteDeadline(end)
	done, err := w.sending.Turn(context.WithoutCancel(w.ctx), w.org, w.client)
	if err != nil {
		return 0, err
	}
	defer w.holds.Soon(done).End()
	return w.call.Write(b)
}
