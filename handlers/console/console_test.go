package console_test

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate/handlers/console"
	"tollgate/handlers/problem"
)

const token = "0123456789abcdef0123456789abcdef"

// visit is a console that listens, and an API that a test answers for.
type visit struct {
	t      *testing.T
	base   string // http://127.0.0.1:port
	asked  []*http.Request
	bodies []string
	api    func(*http.Request) (*http.Response, error)
}

func open(t *testing.T, change func(*console.Config)) *visit {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v := &visit{t: t, base: "http://" + listener.Addr().String(), api: says(200, `{}`)}
	config := console.Config{
		API: func(r *http.Request) (*http.Response, error) {
			var body []byte
			if r.Body != nil {
				body, _ = io.ReadAll(r.Body)
			}
			v.asked, v.bodies = append(v.asked, r), append(v.bodies, string(body))
			return v.api(r)
		},
		Identity: func(context.Context) (console.Identity, error) { return console.Identity{ClientID: "cli_1"}, nil },
		Rules:    func(context.Context) (any, error) { return []string{"rule"}, nil },
		Backtest: func(_ context.Context, b console.Backtest) (any, error) { return b.Replaces, nil },
		Clock:    time.Now, Token: token, Addr: listener.Addr().String(), APIURL: "http://api.example", Version: "v1",
	}
	if change != nil {
		change(&config)
	}
	c, err := console.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if want := v.base + "/console?token=" + token; c.URL() != want {
		t.Errorf("its address is %s, not %s", c.URL(), want)
	}
	server := &http.Server{Handler: c}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return v
}

// says is an API that always answers the same; headers are names and values.
func says(status int, body string, headers ...string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return w.Result(), nil
	}
}

func (v *visit) cookie() string {
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(v.base, "http://"))
	return "tollgate_console_" + port + "=" + token
}

// as are the headers of the page itself; more are names and values, an empty one takes
// a header away.
func (v *visit) as(more ...string) map[string]string {
	h := map[string]string{"Cookie": v.cookie(), "Origin": v.base, "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
	for i := 0; i < len(more); i += 2 {
		h[more[i]] = more[i+1]
	}
	return h
}

type reply struct {
	*http.Response
	text string
}

// code is the code of a refusal.
func (r reply) code() string {
	var p problem.Problem
	if json.Unmarshal([]byte(r.text), &p) != nil || p.Type != "urn:tollgate:error:"+string(p.Code) || p.Status != r.StatusCode || p.Title == "" || p.Message == "" || r.Header.Get("Content-Type") != "application/problem+json" {
		return "no problem: " + r.text
	}
	return string(p.Code)
}

func (v *visit) send(method, path, body string, headers map[string]string) reply {
	v.t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(v.t.Context(), method, v.base+path, content)
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	for name, value := range headers {
		if name == "Host" {
			req.Host = value
		} else if value != "" {
			req.Header.Set(name, value)
		}
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return reply{resp, string(text)}
}

// want sends a request that gets a status, and a code if it is refused.
func (v *visit) want(status int, code, method, path, body string, headers map[string]string) reply {
	v.t.Helper()
	r := v.send(method, path, body, headers)
	if r.StatusCode != status || code != "" && r.code() != code {
		v.t.Errorf("%s %s: %d %s, not %d %s", method, path, r.StatusCode, r.text, status, code)
	}
	return r
}

// Whoever has the address gets a cookie, and the token leaves the address.
func TestEntry(t *testing.T) {
	v := open(t, nil)
	for path, to := range map[string]string{
		"/console?token=" + token:                            "/console",
		"/console/pay_1?token=" + token + "&a=b":             "/console/pay_1?a=b",
		"/console//evil.example/?token=" + token:             "/console/evil.example/",
		"/console/rul_x_v1?ticket=tkt_1&token=" + token + "": "/console/rul_x_v1?ticket=tkt_1",
	} {
		r := v.want(303, "", "GET", path, "", nil)
		if got := r.Header.Get("Location"); got != to {
			t.Errorf("%s leads to %q, not %q", path, got, to)
		}
		if got, want := r.Header.Get("Set-Cookie"), v.cookie()+"; Path=/console; HttpOnly; SameSite=Strict"; got != want {
			t.Errorf("the cookie is %q, not %q", got, want)
		}
	}
	r := v.want(403, "console_token_invalid", "GET", "/console?token="+token[1:], "", nil)
	if r.Header.Get("Set-Cookie") != "" {
		t.Error("a wrong token gets a cookie")
	}
	v.want(303, "", "GET", "/", "", nil)
	v.want(404, "not_found", "GET", "/consoles", "", nil)
	v.want(404, "not_found", "GET", "/v1/payments", "", nil)
}

// Only the console's own page is answered. Each row is somebody else.
func TestStrangers(t *testing.T) {
	v := open(t, func(c *console.Config) { c.Write = true })
	port := v.base[strings.LastIndex(v.base, ":"):]
	const list, pay = "/console/api/v1/payments", `{"amount":"1.00"}`
	v.want(200, "", "GET", list, "", v.as())
	v.want(200, "", "POST", list, pay, v.as())
	v.want(200, "", "POST", list, pay, v.as("Host", "localhost"+port, "Origin", "http://localhost"+port))
	v.want(200, "", "POST", list, pay, v.as("Host", "[::1]"+port, "Origin", "http://[::1]"+port))
	v.want(200, "", "GET", list, "", v.as("Sec-Fetch-Site", "none"))
	v.want(200, "", "GET", list, "", v.as("Cookie", strings.Split(v.cookie(), "=")[0]+"=planted; "+v.cookie()))
	served := len(v.asked)
	for _, c := range []struct {
		who, method, path, body string
		headers                 map[string]string
		code                    string
	}{
		{"no cookie", "GET", list, "", v.as("Cookie", ""), "console_token_missing"},
		{"a cookie of an earlier console", "GET", list, "", v.as("Cookie", strings.Replace(v.cookie(), "0123", "3210", 1)), "console_token_invalid"},
		{"a cookie of another port", "GET", list, "", v.as("Cookie", "tollgate_console_1="+token), "console_token_missing"},
		{"a token in the address of the API", "GET", list + "?token=" + token, "", v.as("Cookie", ""), "console_token_missing"},
		{"another site's fetch", "GET", list, "", v.as("Sec-Fetch-Site", "cross-site"), "console_origin_invalid"},
		{"a page of another port", "GET", list, "", v.as("Sec-Fetch-Site", "same-site"), "console_origin_invalid"},
		{"DNS rebinding", "GET", list, "", v.as("Host", "evil.example"+port), "console_host_invalid"},
		{"DNS rebinding, the page", "GET", "/console", "", v.as("Host", "evil.example"+port), "console_host_invalid"},
		{"DNS rebinding, the entry", "GET", "/console?token=" + token, "", v.as("Host", "127.0.0.1.evil.example"+port), "console_host_invalid"},
		{"another port", "GET", list, "", v.as("Host", "127.0.0.1:1"), "console_host_invalid"},
		{"no port", "GET", list, "", v.as("Host", "127.0.0.1"), "console_host_invalid"},
		{"a name of this machine that is not its own", "GET", list, "", v.as("Host", "127.0.0.2"+port), "console_host_invalid"},
		{"a foreign origin", "POST", list, pay, v.as("Origin", "http://evil.example"), "console_origin_invalid"},
		{"the origin of another port", "POST", list, pay, v.as("Origin", "http://127.0.0.1:1"), "console_origin_invalid"},
		{"the other name's origin", "POST", list, pay, v.as("Origin", "http://localhost"+port), "console_origin_invalid"},
		{"https", "POST", list, pay, v.as("Origin", strings.Replace(v.base, "http", "https", 1)), "console_origin_invalid"},
		{"a sandboxed frame", "POST", list, pay, v.as("Origin", "null"), "console_origin_invalid"},
		{"no origin", "POST", list, pay, v.as("Origin", ""), "console_origin_invalid"},
		{"no origin and no body", "DELETE", list + "/x", "", v.as("Origin", "", "Content-Type", ""), "console_origin_invalid"},
		{"a form", "POST", list, "amount=1.00", v.as("Content-Type", "application/x-www-form-urlencoded"), "console_media_type_invalid"},
		{"a form of text", "POST", list, pay, v.as("Content-Type", "text/plain"), "console_media_type_invalid"},
		{"a body of no type", "POST", list, pay, v.as("Content-Type", ""), "console_media_type_invalid"},
		{"a form to the page", "POST", "/console", "token=" + token, v.as("Origin", "http://evil.example"), "console_origin_invalid"},
	} {
		t.Run(c.who, func(t *testing.T) {
			v.t = t
			v.want(403, c.code, c.method, c.path, c.body, c.headers)
		})
	}
	if len(v.asked) != served {
		t.Errorf("the API was asked %d times by strangers", len(v.asked)-served)
	}
}

// A server that listens on all addresses answers as if it did not.
func TestOtherMachine(t *testing.T) {
	c, err := console.New(console.Config{Token: token, Addr: "0.0.0.0:8080"})
	if err != nil {
		t.Fatal(err)
	}
	if c.URL() != "http://127.0.0.1:8080/console?token="+token {
		t.Errorf("its address is %s", c.URL())
	}
	for from, want := range map[string]int{"127.0.0.1:1": 200, "[::1]:1": 200, "192.0.2.1:1": 403, "[2001:db8::1]:1": 403, "": 403} {
		req := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8080/console", nil)
		req.RemoteAddr = from
		w := httptest.NewRecorder()
		if c.ServeHTTP(w, req); w.Code != want {
			t.Errorf("from %q: %d, not %d", from, w.Code, want)
		}
	}
	if _, err := console.New(console.Config{Token: token[1:], Addr: "127.0.0.1:1"}); err == nil {
		t.Error("a token can be short")
	}
}

// The page and its files are there for everybody, and only with its own scripts.
func TestFiles(t *testing.T) {
	v := open(t, nil)
	index := v.want(200, "", "GET", "/console", "", nil)
	for _, path := range []string{"/console/", "/console/payments", "/console/pay_01kb7z2c000000000000000001", "/console/vendor"} {
		if r := v.want(200, "", "GET", path, "", nil); r.text != index.text || !strings.Contains(r.text, "importmap") {
			t.Errorf("%s is not the page", path)
		}
	}
	for header, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-cache", "Content-Type": "text/html; charset=utf-8",
	} {
		if got := index.Header.Get(header); got != want {
			t.Errorf("%s: %q, not %q", header, got, want)
		}
	}
	policy := index.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self' 'sha256-") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("the policy is %s", policy)
	}
	script := v.want(200, "", "GET", "/console/main.js", "", nil)
	if got := script.Header.Get("Content-Security-Policy"); got != policy || script.Header.Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("main.js: %s, %s", got, script.Header.Get("Content-Type"))
	}
	if got := v.want(200, "", "GET", "/console/rule-worker.js", "", nil).Header.Get("Content-Security-Policy"); !strings.Contains(got, "script-src 'self' 'wasm-unsafe-eval';") {
		t.Errorf("the worker's policy is %s", got)
	}
	v.want(200, "", "GET", "/console/vendor/preact.mjs", "", nil)
	for _, path := range []string{"/console/nothing.js", "/console/vendor/README.md", "/console/..%2fconsole.go", "/console/page/index.html"} {
		v.want(404, "", "GET", path, "", nil)
	}
	if r := v.want(405, "method_not_allowed", "POST", "/console", "", v.as()); r.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("Allow: %s", r.Header.Get("Allow"))
	}
	if r := v.want(200, "", "HEAD", "/console", "", nil); r.text != "" {
		t.Errorf("a HEAD has a body: %s", r.text)
	}
}

// What a browser has it does not load again, and what it loads is compressed.
func TestFilesAreSmall(t *testing.T) {
	v := open(t, nil)
	plain := v.want(200, "", "GET", "/console/main.js", "", nil)
	packed := v.want(200, "", "GET", "/console/main.js", "", map[string]string{"Accept-Encoding": "br, gzip"})
	if packed.Header.Get("Content-Encoding") != "gzip" || len(packed.text) >= len(plain.text) || packed.Header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("%d bytes of %d, %v", len(packed.text), len(plain.text), packed.Header)
	}
	r, err := gzip.NewReader(strings.NewReader(packed.text))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != plain.text {
		t.Errorf("unpacked it is another: %v", err)
	}
	if plain.Header.Get("Etag") == packed.Header.Get("Etag") {
		t.Error("two forms have one ETag")
	}
	for _, c := range []struct{ encoding, tag string }{{"identity", plain.Header.Get("Etag")}, {"gzip", packed.Header.Get("Etag")}} {
		if r := v.want(304, "", "GET", "/console/main.js", "", map[string]string{"Accept-Encoding": c.encoding, "If-None-Match": c.tag}); r.text != "" {
			t.Errorf("304 with a body")
		}
	}
}

// A rule's module is given out as the exact bytes that were asked for.
func TestModule(t *testing.T) {
	v := open(t, nil)
	const released = "0552be0c925b67c125f47e6d62e0ff9a272ed156128d471ab7c31ba9774fcc4b" // wasm/rules/SHA256SUMS
	r := v.want(200, "", "GET", "/console/api/modules/rul_card_fee_v2?sha256="+released, "", v.as())
	if r.Header.Get("Content-Type") != "application/wasm" || !strings.HasPrefix(r.text, "\x00asm") || len(v.asked) != 0 {
		t.Errorf("%v, %d bytes, %d questions", r.Header, len(r.text), len(v.asked))
	}
	v.want(409, "module_differs", "GET", "/console/api/modules/rul_card_fee_v1?sha256="+released, "", v.as())
	v.want(400, "parameter_invalid", "GET", "/console/api/modules/rul_card_fee_v2", "", v.as())
	v.want(404, "not_found", "GET", "/console/api/modules/card_fee?sha256="+released, "", v.as())

	v.api = says(200, "module", "Content-Type", "application/wasm")
	const ofModule = "120970d812836f19888625587a4606a5ad23cef31c8684e601771552548fc6b9"
	if r := v.want(200, "", "GET", "/console/api/modules/rul_mine_v1?sha256="+ofModule, "", v.as()); r.text != "module" {
		t.Errorf("%q", r.text)
	}
	if got := v.asked[0].URL.String(); got != "/v1/rules/rul_mine_v1/module" {
		t.Errorf("the API was asked for %s", got)
	}
	v.want(409, "module_differs", "GET", "/console/api/modules/rul_mine_v1?sha256="+released, "", v.as())
	v.api = says(404, `{"code":"not_found","message":"There is no such rule."}`)
	v.want(404, "not_found", "GET", "/console/api/modules/rul_mine_v1?sha256="+released, "", v.as())

	if r := v.want(200, "", "GET", "/console/api/rules/rul_card_fee_v2/source", "", v.as()); !strings.Contains(r.text, `label = \"Card fee\"`) {
		t.Errorf("%s", r.text)
	}
	v.want(204, "", "GET", "/console/api/rules/rul_mine_v1/source", "", v.as())
}

// A backtest needs one candidate and a rule to replace, and reads no files.
func TestBacktestIsChecked(t *testing.T) {
	v := open(t, nil)
	v.want(200, "", "POST", "/console/api/backtest", `{"rule":"rule:card_fee@v1","replaces":"rule:card_fee@v2","created_after":"2026-01-01T00:00:00Z"}`, v.as())
	v.want(200, "", "POST", "/console/api/backtest", `{"module_base64":"AGFzbQ==","replaces":"rule:card_fee@v2"}`, v.as())
	for body, code := range map[string]string{
		`{"rule":"/etc/passwd","replaces":"rule:card_fee@v2"}`:                                  "parameter_invalid",
		`{"rule":"rule:card_fee@v1"}`:                                                           "parameter_invalid",
		`{"replaces":"rule:card_fee@v2"}`:                                                       "parameter_invalid",
		`{"rule":"rule:card_fee@v1","module_base64":"AGFzbQ==","replaces":"rule:card_fee@v2"}`:  "parameter_invalid",
		`{"rule":"rule:card_fee@v1","replaces":"rule:card_fee@v2","tickets":"/etc/passwd"}`:     "invalid_json",
		`{"rule":"rule:card_fee@v1","replaces":"rule:card_fee@v2","created_after":"yesterday"}`: "invalid_json",
		`[`: "invalid_json",
	} {
		v.want(400, code, "POST", "/console/api/backtest", body, v.as())
	}
}

// The page learns what it is part of, and that the API is away.
func TestSession(t *testing.T) {
	v := open(t, func(c *console.Config) { c.Write = true })
	v.api = says(404, `{}`)
	r := v.want(200, "", "GET", "/console/api/session", "", v.as())
	for _, part := range []string{`"client_id":"cli_1"`, `"organization_id":null`, `"scopes":[]`, `"write":true`, `"sandbox":false`, `"api":"http://api.example"`, `"version":"v1"`, `"JPY":0`, `"BHD":3`} {
		if !strings.Contains(r.text, part) {
			t.Errorf("%s is not in %s", part, r.text)
		}
	}
	v.api = says(200, `{}`)
	if r := v.want(200, "", "GET", "/console/api/session", "", v.as()); !strings.Contains(r.text, `"sandbox":true`) {
		t.Errorf("%s", r.text)
	}
	v.api = func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }
	r = v.want(502, "api_unreachable", "GET", "/console/api/session", "", v.as())
	if !strings.Contains(r.text, "connection refused") {
		t.Errorf("%s", r.text)
	}
	v.api = func(*http.Request) (*http.Response, error) {
		return nil, &console.Problem{Status: 401, Code: "token_invalid", Message: "No."}
	}
	v.want(401, "token_invalid", "GET", "/console/api/session", "", v.as())
}
