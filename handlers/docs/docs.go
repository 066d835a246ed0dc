// Package docs is the pages of the service: what it is and how it is, and the
// documentation. scripts/docs renders them; this package serves what it has written,
// and links no template engine and no Markdown. It asks nobody, so that the pages are
// there when Redis is not.
package docs

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"

	"tollgate/handlers/input"
)

//go:embed site/*.gz
var site embed.FS

// The addresses that Handler answers: Root, Below, and everything below that.
const (
	Root  = "/"
	Below = "/docs"
)

// Errors is the address that explains an error, without the code at its end.
const Errors = Below + "/errors#"

// policy lets a page load what is beside it and nothing else: no inline script, no
// inline style, no form, and no page of others around it.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// types are the media types of what the generator writes, by the ending; a page has none.
var types = map[string]string{
	"":      "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".json": "application/json",
	".svg":  "image/svg+xml",
	".png":  "image/png",
}

// file is what is sent, packed as it was written.
type file struct {
	packed []byte
	etag   string
	media  string
}

// plain is the file for those who do not take gzip.
func (f *file) plain() ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(f.packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// Handler serves the pages.
type Handler struct {
	files map[string]*file // by name, without .gz
	front front
}

// New reads what the program was built with.
func New(about About) (*Handler, error) {
	entries, err := site.ReadDir("site")
	if err != nil {
		return nil, err
	}
	h := &Handler{files: make(map[string]*file, len(entries))}
	for _, e := range entries {
		packed, err := site.ReadFile("site/" + e.Name())
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(e.Name(), ".gz")
		media, ok := types[path.Ext(name)]
		if !ok {
			return nil, fmt.Errorf("docs: %s has no known media type", name)
		}
		sum := sha256.Sum256(packed)
		h.files[name] = &file{packed, `"` + hex.EncodeToString(sum[:16]) + `"`, media}
	}
	h.front, err = newFront(about, h.files)
	return h, err
}

// ServeHTTP answers GET and HEAD of Root, Below and what is below it.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("Referrer-Policy", "no-referrer")
	name := strings.TrimPrefix(strings.TrimPrefix(req.URL.Path, Below), "/")
	switch {
	case req.URL.Path == Root:
		h.front.serve(w, req)
	case name == "" || name == index:
		h.redirect(w, Below+"/"+first)
	case h.page(name) != nil:
		h.send(w, req, h.page(name), http.StatusOK)
	default:
		for _, ending := range []string{"/", ".md", ".html"} {
			if other, cut := strings.CutSuffix(name, ending); cut && h.page(other) != nil {
				h.redirect(w, Below+"/"+other)
				return
			}
		}
		h.send(w, req, h.files[missing], http.StatusNotFound)
	}
}

// page is the file of an address below Below; nil where there is none.
func (h *Handler) page(name string) *file {
	if name == landing || name == missing {
		return nil
	}
	return h.files[name]
}

// Files with a part of their own: the first page, and those that have no address.
const (
	index   = "index"
	first   = "start"
	landing = "landing"
	missing = "missing"
)

// redirect is temporary: which page is the first may change.
func (h *Handler) redirect(w http.ResponseWriter, to string) {
	if to == Below+"/"+first && h.files[first] == nil { // not written yet
		to = Below + "/api"
	}
	header := w.Header()
	header.Set("Location", to)
	header.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusFound)
}

// send answers with a file, packed for those who take that.
func (h *Handler) send(w http.ResponseWriter, req *http.Request, f *file, status int) {
	header := w.Header()
	header.Add("Vary", "Accept-Encoding")
	header.Set("Cache-Control", "public, max-age=0, must-revalidate") // another version may answer the next request
	if status == http.StatusOK {
		header.Set("ETag", f.etag)
		if input.Matches(req.Header["If-None-Match"], f.etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	body := f.packed
	if takesGzip(req) {
		header.Set("Content-Encoding", "gzip")
		header.Set("ETag", f.etag)
	} else {
		var err error
		if body, err = f.plain(); err != nil { // a test reads all of them
			panic(err)
		}
	}
	write(w, f.media, status, body)
}

// write sends a body whole; net/http keeps that of a HEAD back.
func write(w http.ResponseWriter, media string, status int, body []byte) {
	header := w.Header()
	header.Set("Content-Type", media)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // whoever has gone does not read it
}
