package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"
)

//go:embed page
var page embed.FS

// mediaTypes are those of the files that are served; others are notes for whoever
// changes the page.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".mjs":  "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

const (
	indexFile  = "index.html"
	workerFile = "rule-worker.js" // the only one that may run modules
)

// file is a part of the page.
type file struct {
	content []byte
	media   string
	policy  string // its Content-Security-Policy
	sum     string
	packed  func() []byte // with gzip, once it was asked for
}

// importMap is the only script that stands in the page itself, for a browser reads no
// import map from a file.
var importMap = regexp.MustCompile(`(?s)<script type="importmap">(.*?)</script>`)

func readFiles() (map[string]*file, error) {
	index, err := page.ReadFile("page/" + indexFile)
	if err != nil {
		return nil, err
	}
	maps := importMap.FindAllSubmatch(index, -1)
	if len(maps) != 1 {
		return nil, fmt.Errorf("%s has %d import maps, and should have one", indexFile, len(maps))
	}
	sum := sha256.Sum256(maps[0][1])
	ofPage := policy("'self' 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'")
	files := map[string]*file{}
	err = fs.WalkDir(page, "page", func(name string, entry fs.DirEntry, err error) error {
		media := mediaTypes[path.Ext(name)]
		if err != nil || entry.IsDir() || media == "" {
			return err
		}
		content, err := page.ReadFile(name)
		sum := sha256.Sum256(content)
		f := &file{content: content, media: media, policy: ofPage, sum: hex.EncodeToString(sum[:12])}
		f.packed = sync.OnceValue(f.pack)
		files[strings.TrimPrefix(name, "page/")] = f
		return err
	})
	if err != nil {
		return nil, err
	}
	worker := files[workerFile]
	if worker == nil {
		return nil, errors.New(workerFile + " is not there")
	}
	worker.policy = policy("'self' 'wasm-unsafe-eval'")
	return files, nil
}

// policy is a Content-Security-Policy: nothing comes from elsewhere.
func policy(scripts string) string {
	return "default-src 'none'; script-src " + scripts + "; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
		"worker-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

func (f *file) pack() []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = w.Write(f.content) // to memory, as Close
	_ = w.Close()
	return b.Bytes()
}

// serveFile answers with a part of the page. What has no extension is an address in it,
// such as /console/payments: the page shows what belongs there.
func (c *Console) serveFile(w http.ResponseWriter, req *http.Request, name string) {
	if path.Ext(name) == "" {
		name = indexFile
	}
	f := c.files[name]
	if f == nil {
		http.Error(w, "The console has no such file.", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.media)
	h.Set("Content-Security-Policy", f.policy)
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept-Encoding")
	content, tag := f.content, f.sum
	if takesGzip(req) {
		content, tag = f.packed(), f.sum+"-gzip"
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(content))
}

// takesGzip reads what browsers send; whoever weighs gzip is answered without it.
func takesGzip(req *http.Request) bool {
	for coding := range strings.SplitSeq(req.Header.Get("Accept-Encoding"), ",") {
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			return true
		}
	}
	return false
}
