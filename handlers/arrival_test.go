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

	"tollgate/rediskv/testkit"
)

// wired is a connection on which a test writes what it likes.
type wired struct {
	t *testing.T
	net.Conn
	answers *bufio.Reader
}

func (w *world) wired() *wired {
	w.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	check(w.t, err)
	w.t.Cleanup(func() { conn.Close() })
	return &wired{w.t, conn, bufio.NewReader(conn)}
}

func (c *wired) send(text string) {
	c.t.Helper()
	_, err := io.WriteString(c, text)
	check(c.t, err)
}

func (c *wired) answered() {
	c.t.Helper()
	check(c.t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	resp, err := http.ReadResponse(c.answers, nil)
	check(c.t, err)
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		c.t.Fatalf("%d %s, %v", resp.StatusCode, body, err)
	}
}

// aQuote is a request for one.
func (w *world) aQuote(prefix string) string {
	body := fmt.Sprintf(payWide, w.vars[prefix+"wide"])
	return fmt.Sprintf("POST /v1/quotes HTTP/1.1\r\nHost: tollgate\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		w.token(prefix+"all", ""), len(body), body)
}

// TestArrivals: of what one organization sends beside others only so much is read
// at once. What another one sends is read and answered meanwhile.
func TestArrivals(t *testing.T) {
	w := newWorld(t)
	greedy, modest := w.aQuote("other_"), w.aQuote("")
	const connections = 40
	var hers []*wired
	for range connections {
		c := w.wired()
		c.send(greedy)
		c.answered() // whose connection it is is known now
		hers = append(hers, c)
	}
	his := w.wired()
	his.send(modest)
	his.answered()

	q := w.server.Queue("processors", "")
	passes(t, q, w.vars["org"])
	g, leave := hoardAs(q, w.vars["other_org"], 1)
	defer leave()
	testkit.Eventually(t, "the greedy one's turn", func() bool { return g.held() == 1 })
	rest, leaveRest := hoardAs(q, w.vars["other_org"], 200)
	defer leaveRest()
	testkit.Eventually(t, "all its turns", func() bool { return rest.held()+q.Waiting(w.vars["other_org"]) == 200 })
	before := q.Waiting(w.vars["other_org"])
	for _, c := range hers {
		c.send(greedy)
	}
	testkit.Eventually(t, "its requests wait", func() bool { return q.Waiting(w.vars["other_org"]) == before+connections })
	his.send(modest)
	his.answered()
	leaveRest()
	leave()
	for _, c := range hers {
		c.answered()
	}
}

// TestUnfinishedArrivals: whoever begins requests and does not send their rest,
// or goes away, keeps no turn from the organization's others, of which there are
// few beside another organization.
func TestUnfinishedArrivals(t *testing.T) {
	t.Parallel() // it waits most of its time
	w := newWorld(t)
	quote := w.aQuote("")
	for _, end := range []func(*wired){
		func(c *wired) { c.send("P") },
		func(c *wired) { c.send(quote[:len(quote)-1]) },
		func(c *wired) { c.send(quote); c.Close() },
		func(c *wired) { c.send("P"); c.Close() },
		func(c *wired) { c.send("\x00 no request\r\n\r\n") },
		func(c *wired) { c.send(strings.Replace(quote, "Bearer ", "Bearer x", 1)) },
		func(c *wired) { c.send(quote + quote + quote + "G") },
	} {
		passes(t, w.server.Queue("processors", ""), w.vars["other_org"])
		for range 20 {
			c := w.wired()
			c.send(quote)
			c.answered()
			end(c)
		}
		c := w.wired()
		for range 3 {
			c.send(quote)
			c.answered()
		}
	}
}
