package handlers

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"tollgate/handlers/oauth"
)

// packed is openapi.json as make docs packs it: a twelfth of its size, in a program
// that is loaded at every edge.
//
//go:embed openapi.json.gz
var packed []byte

// OpenAPI describes the API of this build to machines; a test holds it to the route
// table. It is unpacked when it is first asked for.
var OpenAPI = sync.OnceValue(func() []byte {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		var body []byte
		if body, err = io.ReadAll(z); err == nil {
			return body
		}
	}
	panic("handlers: openapi.json.gz: " + err.Error()) // a build whose tests did not run
})

// publicCache lets anybody keep what is the same for everybody for five
// minutes; keys are published a day before they are used (interface §5).
const publicCache = "public, max-age=300"

// document is a body that stays the same, with its ETag.
type document struct {
	body []byte
	etag string
}

func newDocument(body []byte) document {
	sum := sha256.Sum256(body)
	return document{body, `"` + hex.EncodeToString(sum[:16]) + `"`}
}

func (d document) answer() (*answer, error) {
	return &answer{status: http.StatusOK, body: d.body, etag: d.etag, cache: publicCache}, nil
}

func metadataOf(issuer string) (document, error) {
	body, err := oauth.Metadata(issuer)
	return newDocument(body), err
}

// describe prepares what the service says of itself.
func (s *Server) describe(issuer string, aliases []string) (err error) {
	s.oauth.Aliases, s.aliased = slices.Clip(aliases), map[string]document{}
	for _, alias := range aliases {
		u, err := url.Parse(alias)
		if err != nil {
			return err
		}
		if s.aliased[u.Host], err = metadataOf(alias); err != nil {
			return err
		}
	}
	s.metadata, err = metadataOf(issuer)
	return err
}

// getMetadata answers under the name by which the client knows the service
// (RFC 8414 §3.3).
func (s *Server) getMetadata(c *call) (*answer, error) {
	if aliased, ok := s.aliased[c.request.Host]; ok {
		return aliased.answer()
	}
	return s.metadata.answer()
}

// getKeys publishes the keys that verify access tokens (RFC 7517 §5).
func (s *Server) getKeys(*call) (*answer, error) { return newDocument(s.keys.JWKS()).answer() }

var contract = sync.OnceValue(func() document { return newDocument(OpenAPI()) })

func (*Server) getOpenAPI(*call) (*answer, error) { return contract().answer() }
