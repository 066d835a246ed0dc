package s3_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tollgate/rediskv/packs"
	"tollgate/rediskv/packs/shelf/s3"
	"tollgate/rediskv/packs/shelf/s3/s3test"
)

func opened(t *testing.T, at string) *s3.Bucket {
	t.Helper()
	b, err := s3.Open(at, s3.Options{Credentials: &s3.Credentials{AccessKey: s3test.AccessKey, SecretKey: s3test.SecretKey}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// empty is a shelf with a prefix, and its server.
func empty(t *testing.T) (*s3.Bucket, *s3test.Server) {
	t.Helper()
	server := s3test.New(t)
	return opened(t, server.At("/of/archive")), server
}

func put(t *testing.T, b *s3.Bucket, name, text string) {
	t.Helper()
	if err := b.Put(t.Context(), name, int64(len(text)), strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, what string, server *s3test.Server, want ...string) {
	t.Helper()
	if is := server.Requests(); !slices.Equal(is, want) {
		t.Errorf("%s: the requests are %q, want %q", what, is, want)
	}
}

// long is a text of which each part is another one.
func long(size int) string {
	text := make([]byte, size)
	random := rand.NewChaCha8([32]byte{18})
	_, _ = random.Read(text)
	return base64.StdEncoding.EncodeToString(text)[:size]
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, says string }{
		{"s3:", "bucket"},
		{"s3://", "bucket"},
		{"s3:archive", "slashes"},
		{"file:///archive", "scheme"},
		{"s3://Bucket/a", "bucket"},
		{"s3://bucket:9000/a", "bucket"},
		{"s3://b", "bucket"},
		{"s3://key:secret@bucket/archive", "AWS_ACCESS_KEY_ID"},
		{"s3://key@bucket/archive", "AWS_ACCESS_KEY_ID"},
		{"s3://key:sec ret@bucket", "invalid"},
		{"s3://bucket/a//b", "empty part"},
		{"s3://bucket/a/../b", "dots"},
		{"s3://bucket/a%20b", "other characters"},
		{"s3://bucket/" + strings.Repeat("a", 513), "too long"},
		{"s3://bucket/a#b", "fragment"},
		{"s3://bucket?secret_key=secret", `"secret_key" is no parameter`},
		{"s3://bucket?region=a&region=b", "region is there twice"},
		{"s3://bucket?endpoint=", "endpoint is there twice, or is empty"},
		{"s3://bucket?region=a%20b", "no region"},
		{"s3://bucket?region=%zz", "cannot be read"},
		{"s3://bucket?endpoint=s3.example.com", "endpoint"},
		{"s3://bucket?endpoint=https://s3.example.com/path", "endpoint"},
		{"s3://bucket?endpoint=https://key:secret@s3.example.com", "endpoint"},
		{"s3://bucket?endpoint=ftp://s3.example.com", "use https"},
		{"s3://bucket?endpoint=http://s3.example.com", "not encrypted"},
		{"s3://bucket?endpoint=http://10.0.0.1:9000", "not encrypted"},
		{"s3://bucket?endpoint=http://localhost.example.com", "not encrypted"},
	} {
		b, err := s3.Open(c.url, s3.Options{})
		if err == nil || b != nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "sec ret") || strings.Contains(strings.ReplaceAll(err.Error(), "secret_key", ""), "secret") {
			t.Errorf("Open(%q) says %v, not %s", c.url, err, c.says)
		}
	}
	for _, at := range []string{
		"s3://bucket", "s3://bucket/", "s3://bucket/Of/the_archive-1.0/", "s3://bucket?region=eu-central-1", "s3://my.bucket/a?endpoint=https://s3.example.com:9000",
		"s3://bucket?endpoint=http://127.0.0.1:9000", "s3://bucket?endpoint=http://[::1]:9000/", "s3://bucket?endpoint=http://localhost",
	} {
		if _, err := s3.Open(at, s3.Options{}); err != nil {
			t.Errorf("Open(%q) says %v", at, err)
		}
	}
}

// Shelves in one bucket have nothing in common if their prefixes have not.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	server := s3test.New(t)
	for _, prefix := range []string{"", "/a", "/a/b/", "/ab"} {
		put(t, opened(t, server.At(prefix)), "x", prefix)
	}
	if all := server.Keys(t); !slices.Equal(all, []string{"a/b/x", "a/x", "ab/x", "x"}) {
		t.Errorf("there is %q", all)
	}
	list, err := opened(t, server.At("/a")).List(t.Context(), "")
	if err != nil || len(list) != 2 || list[0].Name != "b/x" || list[1].Name != "x" {
		t.Errorf("there is %v, %v", list, err)
	}
}

// The region is that of the URL, then that of the environment.
func TestRegion(t *testing.T) {
	t.Parallel()
	var signed string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signed = r.Header.Get("Authorization")
		s3test.Refuse(w, http.StatusNotFound, "NoSuchKey")
	}))
	defer server.Close()
	for _, c := range []struct{ query, given, want string }{{"", "", "us-east-1"}, {"", "eu-west-3", "eu-west-3"}, {"&region=eu-central-1", "eu-west-3", "eu-central-1"}} {
		b, err := s3.Open("s3://bucket?endpoint="+server.URL+c.query, s3.Options{Region: c.given, Credentials: &s3.Credentials{AccessKey: "key", SecretKey: "secret", SessionToken: "token"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Text(t.Context(), "a"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(signed, "/"+c.want+"/s3/") || !strings.Contains(signed, "x-amz-security-token") {
			t.Errorf("%+v: %v, %q", c, err, signed)
		}
	}
}

// Requests are signed with what the environment has.
func TestCredentials(t *testing.T) {
	server := s3test.New(t)
	t.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.SecretKey)
	b, err := s3.Open(server.At(""), s3.Options{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, b, "a", "text")
	t.Setenv("AWS_ACCESS_KEY_ID", "another")
	if b, err = s3.Open(server.At(""), s3.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Text(t.Context(), "a"); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") || strings.Contains(err.Error(), s3test.SecretKey) {
		t.Errorf("with another key: %v", err)
	}
}

// What is read of a pack takes a request to open it, and one for each frame.
func TestRequests(t *testing.T) {
	t.Parallel()
	b, server := empty(t)
	var file bytes.Buffer
	w := packs.NewWriter(&file, "payments", 7)
	text := long(720 * 120_000)
	for n := range 120_000 {
		if err := w.Add(fmt.Sprintf("pay_%06d", n), fmt.Appendf(nil, `{"id":"pay_%06d","text":"%s"}`, n, text[n*720:][:680])); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if sum.Size < 60_000_000 {
		t.Errorf("the pack has %d bytes", sum.Size)
	}
	name := packs.FileName(sum.SHA256)
	if err := b.Put(t.Context(), name, sum.Size, bytes.NewReader(file.Bytes())); err != nil {
		t.Fatal(err)
	}
	expect(t, "put", server, "GET", "PUT")
	if err := b.Put(t.Context(), name, sum.Size, bytes.NewReader(file.Bytes())); err != nil {
		t.Fatal(err)
	}
	expect(t, "put again", server, "GET")
	o, err := b.Read(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := packs.Open(t.Context(), o, o.Size())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "open", server, "GET range")
	for n, of := range []string{"pay_000000", "pay_060000", "pay_100000"} {
		frame, _ := p.FrameOf(of)
		f, err := p.Frame(t.Context(), frame)
		if err != nil {
			t.Fatal(err)
		}
		if _, there := f.Row(of); !there {
			t.Errorf("frame %d has no %s", n, of)
		}
		expect(t, "frame", server, "GET range")
	}
	put(t, b, "manifest/1.json", `{"a":"b"}`)
	server.Requests()
	if text, err := b.Text(t.Context(), "manifest/1.json"); err != nil || string(text) != `{"a":"b"}` {
		t.Errorf("%s, %v", text, err)
	}
	expect(t, "text", server, "GET range")
	if o, err = b.Read(t.Context(), "manifest/1.json"); err != nil || o.ReadAt(t.Context(), make([]byte, 9), 0) != nil {
		t.Error(err)
	}
	expect(t, "small", server, "GET range")
	if err := b.Remove(t.Context(), "manifest/1.json"); err != nil {
		t.Error(err)
	}
	expect(t, "remove", server, "DELETE")
	if n, err := b.Sweep(t.Context(), time.Now()); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	expect(t, "sweep", server)
}

// Ranges across the end that is read with the opening are whole.
func TestRanges(t *testing.T) {
	t.Parallel()
	b, _ := empty(t)
	text := long(1_000_000)
	put(t, b, "a", text)
	o, err := b.Read(t.Context(), "a")
	if err != nil || o.Size() != int64(len(text)) {
		t.Fatal(err)
	}
	const end = 1_000_000 - 256<<10
	var all sync.WaitGroup
	for _, at := range [][2]int{{0, 1_000_000}, {end - 1, 1}, {end, 1}, {end - 1, 2}, {end - 10, 300}, {end + 10, 20}, {999_999, 1}, {0, 1}, {500, 100_000}, {1_000_000, 0}, {end, 0}} {
		for range 4 { // at once
			all.Go(func() {
				p := make([]byte, at[1])
				if err := o.ReadAt(t.Context(), p, int64(at[0])); err != nil || string(p) != text[at[0]:][:at[1]] {
					t.Errorf("%d bytes at %d: %v", at[1], at[0], err)
				}
			})
		}
	}
	all.Wait()
}

// An object that is replaced or removed after it was opened is never read in part, whether or
// not the server knows If-Match.
func TestReplaced(t *testing.T) {
	t.Parallel()
	for _, knows := range []bool{true, false} {
		b, server := empty(t)
		text := long(600_000)
		put(t, b, "a", text)
		o, err := b.Read(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		server.Fail(func(w http.ResponseWriter, r *http.Request, right http.Handler) {
			if r.Method == http.MethodGet && r.Header.Get("If-Match") == "" {
				t.Error("any version would do")
			}
			if !knows {
				r.Header.Del("If-Match")
			}
			right.ServeHTTP(w, r)
		})
		server.Lay(t, "of/archive/a", strings.ToLower(text))
		if err := o.ReadAt(t.Context(), make([]byte, 100), 100); err == nil || !strings.Contains(err.Error(), "was replaced") {
			t.Errorf("replaced: %v", err)
		}
		p := make([]byte, 100)
		if err := o.ReadAt(t.Context(), p, 599_900); err != nil || string(p) != text[599_900:] {
			t.Errorf("the end that was read before: %v", err)
		}
		if err := b.Remove(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if err := o.ReadAt(t.Context(), p, 100); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("removed: %v", err)
		}
	}
}

// A listing has a request for a thousand objects, and goes on where a page has failed.
func TestPages(t *testing.T) {
	t.Parallel()
	b, server := empty(t)
	for n := range 5_000 {
		server.Lay(t, fmt.Sprintf("of/archive/packs/%05d", n), "x")
	}
	server.Lay(t, "of/archive-2/packs/a", "x")
	for _, fails := range []int{0, 1, 3} {
		n := 0
		server.Fail(func(w http.ResponseWriter, r *http.Request, right http.Handler) {
			if n++; n == fails {
				s3test.Refuse(w, http.StatusInternalServerError, "InternalError")
				return
			}
			right.ServeHTTP(w, r)
		})
		all, err := b.List(t.Context(), "packs/")
		if err != nil || len(all) != 5_000 {
			t.Fatalf("there are %d, %v", len(all), err)
		}
		for n, item := range all {
			if item.Name != fmt.Sprintf("packs/%05d", n) || item.Size != 1 {
				t.Fatalf("%d is %v", n, item)
			}
		}
		if want := 5 + min(fails, 1); n != want {
			t.Errorf("there were %d requests, want %d", n, want)
		}
	}
}

// What is said of a bucket or a key that is wrong helps, and has no secret.
func TestRefused(t *testing.T) {
	t.Parallel()
	server := s3test.New(t)
	at := strings.Replace(server.At(""), s3test.Name, "another", 1)
	for what, err := range failures(t, opened(t, at)) {
		if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "make the bucket") {
			t.Errorf("no bucket: %s says %v", what, err)
		}
	}
	b, err := s3.Open(server.At(""), s3.Options{Credentials: &s3.Credentials{AccessKey: "another", SecretKey: "top-secret"}})
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range failures(t, b) {
		if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "look at the credentials") || strings.Contains(err.Error(), "top-secret") {
			t.Errorf("no access: %s says %v", what, err)
		}
	}
	server.Fail(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("x-amz-bucket-region", "eu-west-3")
		s3test.Refuse(w, http.StatusMovedPermanently, "PermanentRedirect")
	})
	if _, err := b.Text(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "region=eu-west-3") {
		t.Errorf("another region: %v", err)
	}
}

// failures are what each method says.
func failures(t *testing.T, b *s3.Bucket) map[string]error {
	t.Helper()
	_, read := b.Read(t.Context(), "a")
	_, text := b.Text(t.Context(), "a")
	_, list := b.List(t.Context(), "")
	return map[string]error{"Read": read, "Text": text, "List": list, "Put": b.Put(t.Context(), "a", 1, strings.NewReader("x")), "Remove": b.Remove(t.Context(), "a")}
}

// Nothing answers there.
func TestDead(t *testing.T) {
	t.Parallel()
	b, server := empty(t)
	put(t, b, "a", long(600_000))
	o, err := b.Read(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	all := failures(t, b)
	all["ReadAt"] = o.ReadAt(t.Context(), make([]byte, 1), 0)
	for what, err := range all {
		if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s says %v", what, err)
		}
	}
}
