package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"tollgate"
	"tollgate/handlers"
	"tollgate/handlers/auth"
)

// Site is the service whose tools stand at /mcp.
type Site struct {
	Server  *handlers.Server
	Issuer  string   // the service's address
	Aliases []string // its other names, in the sandbox
	// Loopback lets pages of this machine call, whatever their port: for the sandbox.
	Loopback bool
	Version  string
	Log      *slog.Logger
}

const (
	path     = "/mcp"
	metadata = "/.well-known/oauth-protected-resource" // RFC 9728 §3.1
	maxBody  = 64 << 10
)

// Doors are /mcp and what says where its tokens come from.
func Doors(site Site) []handlers.Door {
	// An instance that no agent asks spends nothing on the schemas.
	server := sync.OnceValue(func() *sdk.Server {
		s, err := New(Options{API: Local{site.Server.Handler()}, Caller: callerOf, Version: site.Version, Log: site.Log})
		if err != nil {
			panic(err) // the program was built with schemas that are none
		}
		return s
	})
	d := &door{Site: site, protocol: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server() }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxBody,
		// Behind a proxy on the same machine the host is another one. Origins are
		// compared with the service's own address instead.
		DisableLocalhostProtection: true,
	})}
	doors := []handlers.Door{{Methods: []string{http.MethodPost}, Path: path, Handler: d}}
	for _, of := range []string{"", path} {
		doors = append(doors, handlers.Door{Methods: []string{http.MethodGet}, Path: metadata + of, Handler: d.describe(of)})
	}
	return doors
}

// door speaks the protocol over HTTP. It keeps nothing from one request to the next,
// so any instance answers any request.
type door struct {
	Site
	protocol http.Handler
}

// visit is a request to /mcp, for the calls that it makes.
type visit struct {
	header       http.Header
	remote, host string
	visitor      *handlers.Visitor
	caller       Caller
	refused      atomic.Pointer[recorder] // the API's answer to a token that it does not take
}

func (v *visit) refuse(w *recorder) {
	v.refused.CompareAndSwap(nil, &recorder{header: w.header, status: w.status, body: *bytes.NewBuffer(w.body.Bytes())})
}

type visitKey struct{}

func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

func callerOf(ctx context.Context) (Caller, error) {
	if v := visitOf(ctx); v != nil {
		return v.caller, nil
	}
	return Caller{}, errors.New("nobody is known here")
}

// ServeHTTP answers one message.
func (d *door) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !d.welcome(req) {
		d.refuse(w, http.StatusForbidden, "forbidden", "The Origin is not this service. Call /mcp from a program, which sends no Origin, or from a page of "+d.base(req)+".")
		return
	}
	visitor, refused := d.Server.Present(w, req)
	if refused != nil {
		d.unauthorized(w, req, refused)
		return
	}
	if visitor.Fresh != "" {
		w.Header().Set("DPoP-Nonce", visitor.Fresh)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	switch tooLarge := new(http.MaxBytesError); {
	case errors.As(err, &tooLarge):
		d.refuse(w, http.StatusRequestEntityTooLarge, tollgate.CodeBodyTooLarge, fmt.Sprintf("A message has at most %d bytes. Send a smaller one.", maxBody))
		return
	case err != nil:
		d.refuse(w, http.StatusBadRequest, tollgate.CodeInvalidJSON, "The message ended early. Send all of it.")
		return
	case bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")):
		d.refuse(w, http.StatusBadRequest, tollgate.CodeInvalidJSON, "The message is a list. Send one message in a request.")
		return
	}
	v := &visit{header: req.Header, remote: req.RemoteAddr, host: req.Host, visitor: visitor, caller: Caller{ID: visitor.Token.ClientID, Scopes: strings.Fields(visitor.Token.Scopes.String())}}
	in := req.WithContext(context.WithValue(req.Context(), visitKey{}, v))
	in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer := &recorder{header: http.Header{}}
	d.protocol.ServeHTTP(answer, in)
	if r := v.refused.Load(); r != nil { // its grant has ended, say: the client gets another one
		var p problem
		_ = json.Unmarshal(r.body.Bytes(), &p)
		d.unauthorized(w, req, &tollgate.Error{Code: tollgate.Code(p.Code), Message: p.Message})
		return
	}
	if answer.status >= http.StatusBadRequest {
		status, e := d.refused(w, answer.status, tollgate.CodeParameterInvalid, "This is no message that is answered here. Send initialize, ping, tools/list or tools/call, as the protocol has them.")
		ofProtocol := strings.HasPrefix(answer.header.Get("Content-Type"), "application/json")
		if status != answer.status || !ofProtocol { // else the library's words repeat the request's
			fail(w, status, string(e.Code), e.Message)
			return
		}
	}
	maps.Copy(w.Header(), answer.header)
	w.Header().Set("Cache-Control", "no-store")
	if answer.status == 0 {
		answer.status = http.StatusAccepted
	}
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body.Bytes())
}

// refused leaves the trace of a refusal, and says what the client is told: this, or that
// too many of its requests were refused.
func (d *door) refused(w http.ResponseWriter, status int, code tollgate.Code, message string) (int, *tollgate.Error) {
	e := d.Server.Refuse(w, status, &tollgate.Error{Code: code, Message: message})
	if e.Code == tollgate.CodeRateLimited {
		status = http.StatusTooManyRequests
	}
	return status, e
}

// refuse answers what is refused here.
func (d *door) refuse(w http.ResponseWriter, status int, code tollgate.Code, message string) {
	status, e := d.refused(w, status, code, message)
	fail(w, status, string(e.Code), e.Message)
}

// welcome checks Origin, which browsers send and programs do not: a page of somebody
// else must not call, whatever name it has given this machine.
func (d *door) welcome(req *http.Request) bool {
	origins := req.Header["Origin"]
	if len(origins) == 0 {
		return true
	}
	if len(origins) > 1 {
		return false
	}
	if origins[0] == d.Issuer || slices.Contains(d.Aliases, origins[0]) {
		return true
	}
	u, err := url.Parse(origins[0])
	if !d.Loopback || err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// base is the service's address, by the name that the client uses.
func (d *door) base(req *http.Request) string {
	for _, alias := range d.Aliases {
		if strings.TrimPrefix(alias, "http://") == req.Host {
			return alias
		}
	}
	return d.Issuer
}

// unauthorized says where tokens come from (RFC 9728 §5.1).
func (d *door) unauthorized(w http.ResponseWriter, req *http.Request, e *tollgate.Error) {
	switch e.Code {
	case tollgate.CodeRateLimited: // too many forged signatures came from there
		fail(w, http.StatusTooManyRequests, string(e.Code), e.Message)
		return
	case tollgate.CodeStoreUnavailable:
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusServiceUnavailable, string(e.Code), e.Message)
		return
	}
	base := d.base(req)
	w.Header().Set("WWW-Authenticate", fmt.Sprintf(`%s, resource_metadata="%s"`, d.Server.Challenge(w, req, e), base+metadata+path))
	fail(w, http.StatusUnauthorized, string(e.Code), e.Message+" Get one from "+base+"/oauth2/token with grant_type client_credentials, the only one there is. Nobody can log in here.")
}

// describe is the metadata of a protected resource (RFC 9728 §2).
func (d *door) describe(of string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		base := d.base(req)
		body, err := json.Marshal(struct {
			Resource      string      `json:"resource"`
			Servers       []string    `json:"authorization_servers"`
			Scopes        auth.Scopes `json:"scopes_supported"`
			Methods       []string    `json:"bearer_methods_supported"`
			Proofs        []string    `json:"dpop_signing_alg_values_supported"`
			Bound         bool        `json:"dpop_bound_access_tokens_required"`
			Name          string      `json:"resource_name"`
			Documentation string      `json:"resource_documentation"`
			Grants        []string    `json:"grant_types_supported"` // ours: tokens come from no other
		}{base + of, []string{base}, auth.AllScopes(), []string{"header"}, auth.Algorithms(), false, "Tollgate", base + "/openapi.json", []string{"client_credentials"}})
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "public, max-age=300")
		_, _ = w.Write(body)
	})
}

// fail answers what is no message of the protocol with one of its errors, which has no
// id: there is nothing that it answers.
func fail(w http.ResponseWriter, status int, code, message string) {
	type data struct {
		Code      string `json:"code"`
		RequestID string `json:"request_id,omitempty"`
	}
	type fault struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    data   `json:"data"`
	}
	body, err := json.Marshal(struct {
		Version string `json:"jsonrpc"`
		ID      *int   `json:"id"`
		Error   fault  `json:"error"`
	}{"2.0", nil, fault{-32000, message, data{code, w.Header().Get("Request-Id")}}})
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
