package dev

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tollgate"
	"tollgate/cmd/sandbox"
	"tollgate/cmd/tollgate/cli"
	"tollgate/handlers"
	"tollgate/handlers/input"
	"tollgate/handlers/problem"
)

// tokenPath is where a first request gets its token without a key.
const tokenPath = "/sandbox/token"

// tokenDoor answers programs on this machine with an access token of the
// demonstration's client: with the token endpoint's own answer, or the token alone as
// text. url is the API's.
func tokenDoor(a *cli.App, s *sandbox.Secrets, url string) handlers.Door {
	api := &cli.Client{App: a, Base: url, Issuer: url, ID: sandbox.Client, JWK: s.ClientKey}
	api.HTTP.Timeout = 10 * time.Second
	answer := func(w http.ResponseWriter, req *http.Request) {
		query, err := input.ParseQuery(req.URL.RawQuery, []string{"scope"})
		if err != nil {
			refuse(w, problem.From(err))
			return
		}
		token, body, err := api.FetchToken(req.Context(), query["scope"])
		refused := new(cli.Refusal)
		switch {
		case errors.As(err, &refused):
			refuse(w, &tollgate.Error{Code: tollgate.Code(refused.Code), Message: refused.Message, Param: refused.Param})
		case err != nil:
			refuse(w, &tollgate.Error{Code: tollgate.CodeStoreUnavailable, Message: "The token endpoint does not answer; try again."})
		case wantsText(req):
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = io.WriteString(w, token.AccessToken+"\n")
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(append(body, '\n'))
		}
	}
	return handlers.Door{Methods: []string{http.MethodGet, http.MethodPost}, Path: tokenPath, Handler: programsHere(url, answer)}
}

// wantsText reports whether the caller asks for text and not for JSON.
func wantsText(req *http.Request) bool {
	accept := strings.Join(req.Header["Accept"], ",")
	return strings.Contains(accept, "text/plain") && !strings.Contains(accept, "json")
}

func refuse(w http.ResponseWriter, e *tollgate.Error) {
	answer := problem.Of(e, w.Header().Get("Request-Id"))
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(answer.Status)
	_, _ = w.Write(append(answer.Body, '\n'))
}

// programsHere lets programs on this machine through and no web page, whose
// browser says where a request comes from. A page that has pointed its own name to
// this machine asks for that name (DNS rebinding), so the name counts too.
func programsHere(url string, next http.HandlerFunc) http.Handler {
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		if wrong := notFromHere(req, port); wrong != "" {
			http.Error(w, wrong+" "+tokenPath+" is for programs on the machine where tollgate dev runs. Call it with curl, at http://127.0.0.1:"+port+tokenPath+".", http.StatusForbidden)
			return
		}
		next(w, req)
	})
}

// notFromHere says why a request may not be one of a program on this machine.
func notFromHere(req *http.Request, port string) (wrong string) {
	from, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() {
		return "This request comes from another machine."
	}
	names := []string{"127.0.0.1:" + port, "localhost:" + port, "[::1]:" + port}
	if port == "80" {
		names = append(names, "127.0.0.1", "localhost", "[::1]")
	}
	if !slices.Contains(names, strings.ToLower(req.Host)) {
		return "The Host header does not name this machine and its port."
	}
	for _, origin := range req.Header["Origin"] {
		if origin != "http://"+req.Host {
			return "The Origin header is that of a web page elsewhere."
		}
	}
	for _, site := range req.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" {
			return "The Sec-Fetch-Site header says that a web page elsewhere asks."
		}
	}
	return ""
}
