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

	"tollgate/handlers/connection"
)

// piped is a listener for connections whose pieces arrive as they are written.
type piped chan net.Conn

func (p piped) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (piped) Close() error   { return nil }
func (piped) Addr() net.Addr { return &net.IPAddr{} }

// pipe serves connections of pieces.
func (w *world) pipe() piped {
	p := make(piped)
	server := &http.Server{Handler: w.server.Handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(w.server.Listen(p)) }()
	w.t.Cleanup(func() { close(p); server.Close() })
	return p
}

// exchange writes pieces on a connection of its own and reads all answers.
func (p piped) exchange(t *testing.T, pieces ...string) (answers []*http.Response, bodies []string) {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	check(t, client.SetDeadline(time.Now().Add(time.Minute)))
	p <- server
	go func() {
		for _, piece := range pieces {
			if _, err := io.WriteString(client, piece); err != nil {
				return
			}
		}
	}()
	r := bufio.NewReader(client)
	for {
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			return answers, bodies
		}
		body, err := io.ReadAll(answer.Body)
		check(t, err)
		answers, bodies = append(answers, answer), append(bodies, string(body))
		if answer.Close {
			return answers, bodies
		}
	}
}

// Bytes whose length is told in two ways are refused, wherever they are cut in
// pieces and whatever comes before them, and nothing behind them is run
// (RFC 9112 §6.1).
func TestTwoLengths(t *testing.T) {
	w := newWorld(t)
	p := w.pipe()
	// One payment by its length, two by its chunks.
	pay := func(key string) string {
		body := fmt.Sprintf(`{"merchant_account_id":%q,"amount":"10.00","currency":"EUR","payee":"shop.example"}`, w.vars["eur"])
		return "POST /v1/payments HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + w.token("all", "") +
			"\r\nContent-Type: application/json\r\nIdempotency-Key: " + key + fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n", len(body)) + body
	}
	hidden := "0\r\n\r\n" + pay("hidden")
	const before = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
	for name, framing := range map[string]string{
		"length first":   " HTTP/1.1\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n",
		"encoding first": " HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: %d\r\n",
		"other letters":  " HTTP/1.1\r\ncontent-LENGTH:%d\r\ntransfer-encoding:\tChunked\r\n",
		"bare newlines":  " HTTP/1.1\nContent-Length: %d\nTransfer-Encoding: chunked\n",
		"folded":         " HTTP/1.1\r\nContent-Length: %d\r\nTransfer-Encoding:\r\n chunked\r\n",
		"length folded":  " HTTP/1.1\r\nContent-Length:\r\n %d\r\nTransfer-Encoding: chunked\r\n",
		"older":          " HTTP/1.0\r\nContent-Length: %d\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n",
	} {
		bad := "POST /v1/quotes" + fmt.Sprintf(framing, len(hidden)) + "Host: a\r\n\r\n"
		all := before + bad + hidden
		step := 1
		if testing.Short() {
			step = 7
		}
		for cut := 1; cut < len(before+bad)+5; cut += step {
			answers, bodies := p.exchange(t, all[:cut], all[cut:])
			if len(answers) != 2 || answers[0].StatusCode != 200 || answers[1].StatusCode != 400 || !answers[1].Close || !strings.Contains(bodies[1], "parameter_invalid") {
				t.Fatalf("%s, cut at %d: %d answers, the last %q", name, cut, len(answers), bodies)
			}
		}
	}
	if made := w.call("GET", "/v1/transactions", ""); len(made.body["data"].([]any)) != 0 {
		t.Errorf("a hidden request was run: %s", made.text)
	}
	// What is framed in one way is run, one after the other, in any pieces.
	all := before + pay("first") + before + pay("second") + "\r\n" + before
	for cut := 1; cut < len(all); cut += 13 {
		answers, bodies := p.exchange(t, all[:cut], all[cut:]+strings.Replace(before, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))
		if len(answers) != 6 || answers[1].StatusCode != 201 || answers[3].StatusCode != 201 || answers[5].StatusCode != 200 {
			t.Fatalf("cut at %d: %q", cut, bodies)
		}
	}
	older := "POST /v1/quotes HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
	if answers, bodies := p.exchange(t, older+before); len(answers) != 1 || answers[0].StatusCode != 400 || !strings.Contains(bodies[0], "parameter_invalid") {
		t.Errorf("chunks of HTTP/1.0: %q", bodies)
	}
	// Only net/http knows where chunks end: nothing comes after them.
	chunked := "POST /v1/quotes HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
	if answers, bodies := p.exchange(t, chunked+before); len(answers) != 1 || answers[0].StatusCode != 401 || !answers[0].Close {
		t.Errorf("behind chunks: %q", bodies)
	}
}

// A body may hold the text of a refusal, in whatever pieces it is sent: only
// what net/http itself refused is put in our words.
func TestRefusalsInBodies(t *testing.T) {
	w := newWorld(t)
	text := "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	handler := http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		connection.Of(req).Begin()
		rw.Header().Set("Content-Length", fmt.Sprint(3*len(text)))
		for range 3 {
			_, _ = io.WriteString(rw, text)
			_ = http.NewResponseController(rw).Flush()
		}
		connection.Of(req).Sent(rw)
	})
	p := make(piped)
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(w.server.Listen(p)) }()
	t.Cleanup(func() { close(p); server.Close() })
	const good = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	answers, bodies := p.exchange(t, good, good+"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n")
	if len(answers) != 3 || bodies[0] != text+text+text || bodies[1] != bodies[0] {
		t.Fatalf("%d answers: %q", len(answers), bodies)
	}
	var problem struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal([]byte(bodies[2]), &problem); err != nil || problem.Code != "parameter_invalid" {
		t.Errorf("net/http's own refusal: %v, %s", err, bodies[2])
	}
}
