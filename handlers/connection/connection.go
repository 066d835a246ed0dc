// Package connection is what a server does for its own connections before
// net/http reads them and after it has written: it finds where each request ends,
// has it wait for its organization's turn, and puts net/http's own refusals in
// this service's words. It also tells which requests came over https.
package connection

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"tollgate"
	"tollgate/handlers/share"
)

// Host is what connections need of whoever serves them.
type Host struct {
	// Refuse makes a whole answer in the place of one that net/http gives itself.
	Refuse func(code tollgate.Code, param, message string) []byte
	// Turn waits until the processors are for an organization, and holds them.
	Turn func(organization, client string) (*share.Held, error)
	// Broken is told of a TLS handshake that failed.
	Broken func(peer net.Addr, err error)
}

// Listen is a listener for connections of a server's own. They know what net/http
// does not tell a handler: which headers framed a request (framing.go), and which
// answers net/http itself gave (refused.go). Those of a listener of crypto/tls talk
// TLS, and HTTP/2 with clients that want it: the server must take it without TLS,
// for net/http sees none.
func Listen(l net.Listener, h Host) net.Listener { return listener{l, h} }

type listener struct {
	net.Listener
	host Host
}

// Accept waits for the next connection.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	secure, _ := c.(*tls.Conn)
	return &Conn{Conn: c, tls: secure, host: l.host}, nil
}

// Conn is read by one goroutine at a time, and written by that of the
// request: net/http sees to both.
type Conn struct {
	net.Conn
	tls       *tls.Conn // the same, nil for plain http
	handshake bool      // is over
	broken    bool      // it failed, and there is nothing to read
	http2     bool      // which frames its requests itself, and carries several at a time
	host      Host
	framing   framing
	received  []byte      // from the client
	given     int         // how much of it net/http has
	answering atomic.Bool // a handler runs, or what it wrote has not all been sent
	owner     atomic.Pointer[owner]
	turn      atomic.Pointer[share.Held] // at the processors, of its request
}

// Read gives net/http one request's head, or some of its body, at a time: so
// that the head last seen is that of the request that a handler gets next.
func (c *Conn) Read(b []byte) (int, error) {
	switch {
	case c.broken:
		return 0, io.EOF
	case c.http2:
		return c.Conn.Read(b)
	}
	if pending := c.received[c.given:]; len(pending) > 0 {
		n := copy(b, pending)
		n = c.framing.take(b[:n])
		c.given += n
		return n, nil
	}
	n, err := c.Conn.Read(b)
	if c.tls != nil && !c.handshake {
		if n, err = c.handshaken(n, err); c.http2 {
			return n, err
		}
	}
	if n > 0 && c.framing.between() {
		c.arrives()
	}
	now := c.framing.take(b[:n])
	if now < n {
		c.received, c.given = append(c.received[:0], b[now:n]...), 0
		err = nil // it comes again, after what is pending
	}
	return now, err
}

// CloseWrite lets net/http end its half of the connection, so that the client
// reads the answer before the connection is gone.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// LocalAddr carries the connection to its handlers: net/http puts the address
// into the context of every request.
func (c *Conn) LocalAddr() net.Addr { return address{c.Conn.LocalAddr(), c} }

type address struct {
	net.Addr
	connection *Conn
}

// Of is the connection on which a request came alone, nil for one that came by no
// listener of a Server, or by HTTP/2.
func Of(req *http.Request) *Conn {
	a, _ := req.Context().Value(http.LocalAddrContextKey).(address)
	if a.connection == nil || a.connection.http2 {
		return nil
	}
	return a.connection
}

// Begin is called before anything is done for a request.
func (c *Conn) Begin() Frame {
	c.answering.Store(true)
	return c.framing.last()
}

// Sent is called when a handler has ended: what it wrote goes out as it is.
// After a panic it is not called, nor after an error, and the connection ends.
func (c *Conn) Sent(w http.ResponseWriter) {
	turn := c.turn.Swap(nil) // what comes now is another request's
	if err := http.NewResponseController(w).Flush(); err == nil {
		c.answering.Store(false)
	}
	turn.End()
}

// owner is who made the last request on a connection.
type owner struct{ org, client string }

// Belongs notes who makes requests on the connection.
func (c *Conn) Belongs(org, client string) {
	if was := c.owner.Load(); was == nil || was.org != org || was.client != client {
		c.owner.Store(&owner{org, client})
	}
}

// arrives waits until the processors are for the request that has begun to
// arrive. Beside others an organization leaves them a core, and what it has to
// wait with waits here, where it does not keep anybody else's from being noticed.
// Whose it is says the request before it: with a proxy that sends several
// tenants' requests on one connection, some wait in another's line.
func (c *Conn) arrives() {
	o := c.owner.Load()
	if o == nil || c.answering.Load() || c.turn.Load() != nil {
		return
	}
	held, err := c.host.Turn(o.org, o.client)
	if err != nil { // what still comes is carried out at once
		return
	}
	c.turn.Store(held) // a client may send the rest of its request slowly
}

// HasTurn reports whether the request has its turn since it arrived.
func (c *Conn) HasTurn() bool { return c.turn.Load() != nil }

// Computed ends the turn of a request that has been answered, or waits for
// something else.
func (c *Conn) Computed() {
	c.turn.Swap(nil).End()
}
