package handlers_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate/handlers/auth"
)

func (w *world) assertion(client string) string {
	prefix := ""
	bare := client
	if rest, ok := strings.CutPrefix(client, "other_"); ok {
		prefix, bare = "other_", rest
	}
	now := w.now()
	if w.edge != nil { // it has one clock
		now = w.service()
	}
	text, err := auth.SignAssertion(w.private[client], w.vars[prefix+"client_"+bare], issuer, rand.Text(), now)
	must(w.t, text, err)
	w.secret("an assertion", text)
	return text
}

// token is an access token of a grant, got from the server as any client does;
// scope "" is all that the grant has.
func (w *world) token(grant, scope string) string {
	w.t.Helper()
	if known, ok := w.tokens[grant+" "+scope]; ok {
		return known
	}
	prefix := ""
	bare := grant
	if rest, ok := strings.CutPrefix(grant, "other_"); ok {
		prefix, bare = "other_", rest
	}
	i := slices.IndexFunc(grantForms, func(f grantForm) bool { return f.name == bare })
	if i < 0 {
		w.t.Fatalf("there is no grant %q", grant)
	}
	form := tokenForm(w.assertion(prefix + grantForms[i].client))
	form.Set("grant_id", w.vars[prefix+"grant_"+bare])
	if scope != "" {
		form.Set("scope", scope)
	}
	r := w.send(w.request("POST", "/oauth2/token", form.Encode(), "Authorization", "", "Content-Type", "application/x-www-form-urlencoded"))
	text, _ := r.body["access_token"].(string)
	if r.StatusCode != 200 || text == "" {
		w.t.Fatalf("token of %s: %d %s", grant, r.StatusCode, r.text)
	}
	w.tokens[grant+" "+scope] = text
	w.secret("an access token", text)
	return text
}

// request makes a request with the token of the grant all; headers are pairs
// of name and value, which replace those that are there by default. An empty
// value is no header.
func (w *world) request(method, path, body string, headers ...string) *http.Request {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, nil)
	must(w.t, req, err)
	if body != "" {
		req.Body = io.NopCloser(strings.NewReader(body))
		req.ContentLength = int64(len(body))
		req.Header.Set("Content-Type", "application/json")
	}
	given := make(map[string]bool)
	for i := 0; i < len(headers); i += 2 {
		name := http.CanonicalHeaderKey(headers[i])
		if !given[name] {
			req.Header.Del(name)
		}
		given[name] = true
		if headers[i+1] != "" {
			req.Header[name] = append(req.Header[name], headers[i+1])
		}
	}
	if !given["Authorization"] {
		req.Header.Set("Authorization", "Bearer "+w.token("all", ""))
	}
	return req
}

func (w *world) send(req *http.Request) reply {
	w.t.Helper()
	r, err := w.try(req)
	return must(w.t, r, err)
}

// try is send for other goroutines than the test's.
func (w *world) try(req *http.Request) (reply, error) {
	ctx, cancel := context.WithTimeout(req.Context(), 40*time.Second)
	defer cancel()
	resp, err := w.client.Do(req.WithContext(ctx))
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	r := reply{Response: resp, text: string(text)}
	if err == nil && len(text) > 0 && strings.Contains(resp.Header.Get("Content-Type"), "json") && !strings.Contains(resp.Header.Get("Content-Type"), "ndjson") {
		err = json.Unmarshal(text, &r.body)
	}
	w.overheard(r)
	return r, err
}

// call makes a request, sends it and reads the answer.
func (w *world) call(method, path, body string, headers ...string) reply {
	w.t.Helper()
	return w.send(w.request(method, path, body, headers...))
}

// pay creates a payment; body is what comes before and after nothing else.
func (w *world) pay(key, body string) reply {
	w.t.Helper()
	return w.call("POST", "/v1/payments", body, "Idempotency-Key", key)
}

// want checks a reply's status and code.
func (w *world) want(r reply, status int, code string) reply {
	w.t.Helper()
	if have, _ := r.body["code"].(string); r.StatusCode != status || have != code {
		w.t.Fatalf("%s %s: %d %s\nwant %d %s", r.Request.Method, r.Request.URL, r.StatusCode, r.text, status, code)
	}
	return r
}

// get is a member of an answer by its dotted path; the test ends if it is not
// there.
func (w *world) get(r reply, path string) string {
	w.t.Helper()
	var v any = r.body
	for name := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	if v == nil {
		w.t.Fatalf("%s is not there: %s", path, r.text)
	}
	return fmt.Sprint(v)
}
