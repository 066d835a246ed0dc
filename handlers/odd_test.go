package handlers_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate/rediskv/redistest"
)

// TestOddRequests writes requests that no HTTP client sends. Each gets an
// answer below 500 in time, as a problem where it is refused, also by HTTP
// itself; and none writes anything that its refusal may not.
func TestOddRequests(t *testing.T) {
	w := newWorldOn(t, redistest.URL(t), newRecorder(t))
	host := strings.TrimPrefix(w.url, "http://")
	token := "Authorization: Bearer " + w.token("all", "") + "\r\n"
	body := fmt.Sprintf(`{"merchant_account_id":%q,"amount":"10.00","currency":"EUR","payee":"shop.example"}`, w.vars["eur"])
	head := "Host: " + host + "\r\n" + token
	typed := head + "Content-Type: application/json\r\n"
	pay := "POST /v1/payments HTTP/1.1\r\n" + typed
	quote := "POST /v1/quotes HTTP/1.1\r\n" + typed
	length := fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body))
	chunked := "Transfer-Encoding: chunked\r\n\r\n"
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	for name, odd := range map[string]struct {
		text   string
		status string // one of these
		code   string // "*" for any
		leaves trace
	}{
		"chunked":                   {quote + chunked + chunk(body[:9]) + chunk(body[9:]) + "0\r\n\r\n", "200", "", nothing},
		"chunked, a byte each":      {quote + chunked + bytewise(body) + "0\r\n\r\n", "200", "", nothing},
		"chunked with trailers":     {quote + "Trailer: Idempotency-Key\r\n" + chunked + chunk(body) + "0\r\nIdempotency-Key: a\r\n\r\n", "200", "", nothing},
		"chunked and too large":     {quote + chunked + strings.Repeat(chunk(strings.Repeat(" ", 1000)), 70) + "0\r\n\r\n", "413", "body_too_large", auditEntry},
		"chunked, bad size":         {quote + chunked + "zz\r\n" + body + "\r\n0\r\n\r\n", "400", "invalid_json", auditEntry},
		"chunked, huge size":        {quote + chunked + "ffffffffffffffffff\r\n" + body + "\r\n0\r\n\r\n", "400", "invalid_json", auditEntry},
		"chunked, negative size":    {quote + chunked + "-1\r\n" + body + "\r\n0\r\n\r\n", "400", "invalid_json", auditEntry},
		"chunked and empty":         {quote + chunked + "0\r\n\r\n", "400", "invalid_json", auditEntry},
		"other transfer encoding":   {quote + "Transfer-Encoding: gzip, chunked\r\n\r\n", "400", "parameter_invalid", count},
		"smuggling":                 {pay + "Idempotency-Key: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400", "parameter_invalid", count},
		"smuggling, HTTP/1.0":       {"POST /v1/quotes HTTP/1.0\r\n" + typed + "Transfer-Encoding: chunked\r\n" + length + body, "400", "parameter_invalid", count},
		"two lengths":               {quote + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "400", "parameter_invalid", count},
		"negative length":           {quote + "Content-Length: -1\r\n\r\n", "400", "parameter_invalid", count},
		"length in words":           {quote + "Content-Length: ten\r\n\r\n", "400", "parameter_invalid", count},
		"huge length":               {quote + "Content-Length: 9223372036854775807\r\n\r\n" + body, "413", "body_too_large", auditEntry},
		"no length":                 {quote + "\r\n", "400", "invalid_json", auditEntry},
		"expect":                    {quote + "Expect: 100-continue\r\n" + length + body, "100", "", nothing},
		"expect, then refused":      {"POST /v1/quotes HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Type: application/json\r\n" + length, "401", "token_missing", count},
		"expect something else":     {quote + "Expect: 200-maybe\r\n" + length + body, "400", "parameter_invalid", count},
		"HTTP/1.0":                  {"POST /v1/quotes HTTP/1.0\r\n" + typed + length + body, "200", "", nothing},
		"HTTP/1.0 without Host":     {"GET /healthz HTTP/1.0\r\n\r\n", "200", "", nothing},
		"HTTP/1.1 without Host":     {"GET /healthz HTTP/1.1\r\n\r\n", "400", "parameter_invalid", count},
		"two Hosts":                 {"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400", "parameter_invalid", count},
		"HTTP/2 preface":            {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "404 405 400", "*", count},
		"HTTP/3.0":                  {"GET /healthz HTTP/3.0\r\nHost: a\r\n\r\n", "400", "parameter_invalid", count},
		"no version":                {"GET /healthz\r\n\r\n", "400", "parameter_invalid", count},
		"absolute":                  {"GET http://elsewhere/v1/payments/pay_x HTTP/1.1\r\nHost: elsewhere\r\n" + token + "\r\n", "404", "not_found", auditEntry},
		"star":                      {"OPTIONS * HTTP/1.1\r\n" + head + "\r\n", "404 405", "*", count},
		"CONNECT":                   {"CONNECT " + host + " HTTP/1.1\r\n" + head + "\r\n", "404 405", "*", count},
		"TRACE":                     {"TRACE /v1/events HTTP/1.1\r\n" + head + "\r\n", "405", "method_not_allowed", count},
		"HEAD":                      {"HEAD /v1/quotes HTTP/1.1\r\n" + head + "\r\n", "405", "*", count},
		"lower-case method":         {"get /v1/events HTTP/1.1\r\n" + head + "\r\n", "405", "method_not_allowed", count},
		"unknown method":            {"PAY /v1/payments HTTP/1.1\r\n" + head + "\r\n", "405", "method_not_allowed", count},
		"long method":               {strings.Repeat("A", 5000) + " /v1/payments HTTP/1.1\r\n" + head + "\r\n", "405", "method_not_allowed", count},
		"bad method":                {"GE T /v1/events HTTP/1.1\r\n" + head + "\r\n", "400", "parameter_invalid", count},
		"bad escape in the path":    {"GET /v1/payments/%zz HTTP/1.1\r\n" + head + "\r\n", "400", "parameter_invalid", count},
		"cut escape in the path":    {"GET /v1/payments/%4 HTTP/1.1\r\n" + head + "\r\n", "400", "parameter_invalid", count},
		"raw NUL in the path":       {"GET /v1/payments/\x00 HTTP/1.1\r\n" + head + "\r\n", "400", "parameter_invalid", count},
		"raw bytes in the path":     {"GET /v1/payments/\xff\xfe HTTP/1.1\r\n" + head + "\r\n", "404", "not_found", auditEntry},
		"fragment":                  {"GET /v1/payments/pay_x#a HTTP/1.1\r\n" + head + "\r\n", "404", "not_found", auditEntry},
		"double slash":              {"GET //v1/events HTTP/1.1\r\n" + head + "\r\n", "404", "not_found", count},
		"trailing slash":            {"GET /v1/events/ HTTP/1.1\r\n" + head + "\r\n", "404", "not_found", count},
		"no id":                     {"GET /v1/payments/ HTTP/1.1\r\n" + head + "\r\n", "404 405", "*", count},
		"dots":                      {"GET /v1/../v1/events HTTP/1.1\r\n" + head + "\r\n", "404", "not_found", count},
		"empty path":                {"GET  HTTP/1.1\r\n" + head + "\r\n", "400", "parameter_invalid", count},
		"raw bytes in the query":    {"GET /v1/events?types=\xff HTTP/1.1\r\n" + head + "\r\n", "400", "parameter_invalid", auditEntry},
		"raw NUL in a header":       {"GET /healthz HTTP/1.1\r\nHost: a\r\nX-A: \x00\r\n\r\n", "400", "parameter_invalid", count},
		"tab in a key":              {pay + "Idempotency-Key: a\tb\r\n" + length + body, "400", "idempotency_key_invalid", auditEntry},
		"DEL in a key":              {pay + "Idempotency-Key: a\x7fb\r\n" + length + body, "400", "parameter_invalid", count},
		"blanks around a key":       {pay + "Idempotency-Key:   \r\n" + length + body, "400", "idempotency_key_invalid", auditEntry},
		"space in a header's name":  {"GET /healthz HTTP/1.1\r\nHost: a\r\nX A: b\r\n\r\n", "400", "parameter_invalid", count},
		"folded header":             {pay + "Idempotency-Key: a\r\n b\r\n" + length + body, "400", "idempotency_key_invalid", auditEntry},
		"no header's name":          {"GET /healthz HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", "400", "parameter_invalid", count},
		"many headers":              {"GET /v1/events HTTP/1.1\r\n" + head + strings.Repeat("X-A: b\r\n", 3000) + "\r\n", "431", "headers_too_large", count},
		"enormous header":           {"GET /healthz HTTP/1.1\r\nHost: a\r\nX-A: " + strings.Repeat("a", 100<<10) + "\r\n\r\n", "431", "headers_too_large", count},
		"two Authorization headers": {"GET /v1/events HTTP/1.1\r\n" + head + token + "\r\n", "401", "token_invalid", count},
		"two keys":                  {pay + "Idempotency-Key: a\r\nidempotency-key: a\r\n" + length + body, "400", "idempotency_key_invalid", auditEntry},
		"a body where none is":      {"GET /v1/payments/pay_x HTTP/1.1\r\n" + head + length + body, "404", "not_found", auditEntry},
		"upgrade":                   {"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "200", "", nothing},
		"method override":           {"POST /v1/quotes HTTP/1.1\r\n" + typed + "X-HTTP-Method-Override: DELETE\r\n" + length + body, "200", "", nothing},
		"not HTTP":                  {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n", "400", "parameter_invalid", count},
	} {
		before := dump(t, w.redis)
		status, answer := write(t, host, odd.text)
		if !strings.Contains(odd.status, status) || status == "" {
			t.Errorf("%s: answered %s %q, want %s", name, status, answer, odd.status)
		}
		var problem struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		}
		if status >= "400" && !strings.HasPrefix(odd.text, "HEAD ") {
			if err := json.Unmarshal([]byte(answer), &problem); err != nil || problem.Message == "" || (odd.code != "*" && problem.Code != odd.code) {
				t.Errorf("%s: answered %s %q (%v), want %s", name, status, answer, err, odd.code)
			}
		}
		if changes := w.left(before, dump(t, w.redis), []trace{odd.leaves}); len(changes) > 0 {
			t.Errorf("%s wrote: %s", name, strings.Join(changes, "\n\t"))
		}
	}
}

func bytewise(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "1\r\n%c\r\n", s[i])
	}
	return b.String()
}

// write sends text on a connection of its own and reads the first answer.
func write(t *testing.T, host, text string) (status, body string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", host, 30*time.Second)
	must(t, conn, err)
	defer conn.Close()
	check(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	_, _ = io.WriteString(conn, text) // the server may have hung up early
	method, _, _ := strings.Cut(text, " ")
	r, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return "", err.Error()
	}
	defer r.Body.Close()
	if r.StatusCode == http.StatusContinue {
		return "100", ""
	}
	answer, _ := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	return fmt.Sprint(r.StatusCode), string(answer)
}
