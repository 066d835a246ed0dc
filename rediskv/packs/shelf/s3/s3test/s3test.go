// Package s3test is a server of S3 on this machine, for tests. It keeps everything in memory,
// counts its requests, and fails as it is told to.
package s3test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Name is the bucket that every server has.
const Name = "archive"

// AccessKey and SecretKey are what requests are signed with. The server compares the first.
const (
	AccessKey = "AKIDOFATEST"
	SecretKey = "secret-of-a-test"
)

// Server is a server of S3.
type Server struct {
	URL string // http://127.0.0.1:port

	http  *httptest.Server
	fake  http.Handler
	kept  gofakes3.Backend
	lock  sync.Mutex
	asked []string
	fault Fault
}

// Fault is what becomes of a request; right is what a server does where nothing goes wrong.
type Fault func(w http.ResponseWriter, r *http.Request, right http.Handler)

// New starts a server, which ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(Name); err != nil {
		t.Fatal(err)
	}
	s := &Server{fake: gofakes3.New(backend).Server(), kept: backend}
	s.http = httptest.NewServer(s)
	s.URL = s.http.URL
	t.Cleanup(s.Close)
	return s
}

// Close ends the server: nothing answers at its address then.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// At is the URL of a shelf in the bucket; prefix is empty, or begins with a slash.
func (s *Server) At(prefix string) string {
	return "s3://" + Name + prefix + "?region=eu-central-1&endpoint=" + s.URL
}

// Fail has a fault befall all requests from now on; nil: none.
func (s *Server) Fail(f Fault) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.fault = f
}

// Lay puts an object there, in place of any other.
func (s *Server) Lay(t testing.TB, key, text string) {
	t.Helper()
	made := map[string]string{"Last-Modified": time.Now().UTC().Format(http.TimeFormat)}
	if _, err := s.kept.PutObject(Name, key, made, strings.NewReader(text), int64(len(text)), nil); err != nil {
		t.Fatal(err)
	}
}

// Keys are those of all objects.
func (s *Server) Keys(t testing.TB) (all []string) {
	t.Helper()
	list, err := s.kept.ListBucket(Name, nil, gofakes3.ListBucketPage{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Contents {
		all = append(all, o.Key)
	}
	return all
}

// Requests are the requests since it was last asked for: their methods and, of one for some
// bytes, "range".
func (s *Server) Requests() []string {
	s.lock.Lock()
	defer s.lock.Unlock()
	all := s.asked
	s.asked = nil
	return all
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.lock.Lock()
	asked, fault := r.Method, s.fault
	if r.Header.Get("Range") != "" {
		asked += " range"
	}
	s.asked = append(s.asked, asked)
	s.lock.Unlock()
	right := http.HandlerFunc(s.answer)
	if fault != nil {
		fault(w, r, right)
		return
	}
	right(w, r)
}

// answer does what S3 does where the fake does something else.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.Header.Get("Authorization"), "Credential="+AccessKey+"/") {
		Refuse(w, http.StatusForbidden, "InvalidAccessKeyId")
		return
	}
	switch r.Method {
	case http.MethodPut:
		if !right(w, r) {
			return
		}
	case http.MethodGet:
		if version := r.Header.Get("If-Match"); version != "" && version != s.head(r).Header().Get("ETag") {
			Refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
		if last, is := strings.CutPrefix(r.Header.Get("Range"), "bytes=-"); is {
			r = s.suffix(r, last)
		}
	}
	s.fake.ServeHTTP(w, r)
}

// right reads all of a body, and refuses one that is not what its digests say.
func right(w http.ResponseWriter, r *http.Request) bool {
	all, err := io.ReadAll(r.Body)
	if err != nil {
		Refuse(w, http.StatusBadRequest, "IncompleteBody")
		return false
	}
	sum := sha256.Sum256(all)
	also := r.Header.Get("x-amz-checksum-sha256")
	if r.Header.Get("x-amz-content-sha256") != hex.EncodeToString(sum[:]) || also != "" && also != base64.StdEncoding.EncodeToString(sum[:]) {
		Refuse(w, http.StatusBadRequest, "BadDigest")
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(all))
	return true
}

// head is what the fake says of a request's object.
func (s *Server) head(r *http.Request) *httptest.ResponseRecorder {
	head := r.Clone(r.Context())
	head.Method, head.Header = http.MethodHead, http.Header{}
	said := httptest.NewRecorder()
	s.fake.ServeHTTP(said, head)
	return said
}

// suffix has a suffix that is longer than the object be all of it (RFC 9110, 14.1.2).
func (s *Server) suffix(r *http.Request, last string) *http.Request {
	size, _ := strconv.ParseInt(s.head(r).Header().Get("Content-Length"), 10, 64)
	if n, err := strconv.ParseInt(last, 10, 64); err != nil || size == 0 || n < size {
		return r
	}
	r = r.Clone(r.Context())
	r.Header.Set("Range", fmt.Sprintf("bytes=0-%d", size-1))
	return r
}

// Refuse answers with an error of S3.
func Refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>this is a test</Message></Error>", code)
}
