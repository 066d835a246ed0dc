package console

import (
	"crypto/subtle"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// checkSender refuses what the console's own page did not send. The machine has other
// users and the browser other pages: each of these checks keeps one of them out.
func (c *Console) checkSender(req *http.Request, forAPI bool) error {
	if host, _, err := net.SplitHostPort(req.RemoteAddr); err != nil || !net.ParseIP(host).IsLoopback() {
		return &Problem{http.StatusForbidden, "console_elsewhere", "The console answers only on the machine that it runs on."}
	}
	if !c.named(req.Host) { // a foreign name that leads here: DNS rebinding
		return &Problem{http.StatusForbidden, "console_host_invalid", "The console is at 127.0.0.1 and localhost, and at no other name."}
	}
	if from := req.Header.Get("Sec-Fetch-Site"); forAPI && from != "" && from != "same-origin" && from != "none" {
		return &Problem{http.StatusForbidden, "console_origin_invalid", "Another page sent this request."}
	}
	if req.Method == http.MethodGet || req.Method == http.MethodHead {
		return nil
	}
	if origins := req.Header["Origin"]; len(origins) != 1 || origins[0] != "http://"+req.Host {
		return &Problem{http.StatusForbidden, "console_origin_invalid", "Another page sent this request, or no page at all."}
	}
	if media, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); req.ContentLength != 0 && (err != nil || media != "application/json") {
		return &Problem{http.StatusForbidden, "console_media_type_invalid", "The console takes JSON. A form's data is refused."}
	}
	return nil
}

// named reports whether a request was sent to this machine by a name of its own.
func (c *Console) named(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil { // the port of http is never written
		name, port = strings.Trim(host, "[]"), "80"
	}
	return port == c.port && slices.Contains([]string{"127.0.0.1", "localhost", "::1"}, strings.ToLower(name))
}

// enter makes of the token in an address a cookie, so that the token is not in the
// address any more.
func (c *Console) enter(w http.ResponseWriter, req *http.Request) {
	query := req.URL.Query()
	if !c.isToken(query.Get("token")) {
		refuse(w, &Problem{http.StatusForbidden, "console_token_invalid", "This address is of a console that has ended. Open the address that the running one printed."})
		return
	}
	http.SetCookie(w, &http.Cookie{Name: c.cookie, Value: c.Token, Path: Home, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	query.Del("token")
	http.Redirect(w, req, (&url.URL{Path: req.URL.Path, RawQuery: query.Encode()}).String(), http.StatusSeeOther)
}

func (c *Console) isToken(text string) bool {
	return subtle.ConstantTimeCompare([]byte(text), []byte(c.Token)) == 1
}

func (c *Console) checkCookie(req *http.Request) error {
	cookies := req.CookiesNamed(c.cookie)
	switch {
	case len(cookies) == 0:
		return &Problem{http.StatusForbidden, "console_token_missing", "Open the address that the console printed: it has a token in it."}
	case !slices.ContainsFunc(cookies, func(k *http.Cookie) bool { return c.isToken(k.Value) }):
		return &Problem{http.StatusForbidden, "console_token_invalid", "The console was started again. Open the address that it printed."}
	}
	return nil
}

// plain reports whether a path says what it means: no part of it is hidden from one
// reader and seen by the next.
func plain(u *url.URL) bool {
	escaped := strings.ToUpper(u.EscapedPath())
	if strings.Contains(escaped, "%2F") || strings.Contains(escaped, "%5C") || strings.ContainsAny(u.Path, "\\\x00") {
		return false
	}
	parts := strings.Split(strings.TrimPrefix(u.Path, "/"), "/")
	return !slices.ContainsFunc(parts, func(part string) bool { return part == "" || part == "." || part == ".." })
}
