package worker_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"tollgate/handlers/worker/delivery"
)

// names is a name server that says the same of every name: "" does not answer at
// all, "none" says that there is no such name, others are addresses separated by
// spaces.
type names struct {
	mu   sync.Mutex
	says string
}

func resolver(t *testing.T, answer string) *net.Resolver {
	t.Helper()
	r, _ := nameServer(t, answer)
	return r
}

// nameServer is a resolver whose answer can be changed.
func nameServer(t *testing.T, answer string) (r *net.Resolver, change func(answer string)) {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &names{says: answer}
	stopped := make(chan struct{})
	t.Cleanup(func() {
		c.Close()
		<-stopped
	})
	go func() {
		defer close(stopped)
		b := make([]byte, 512)
		for {
			size, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			if answer := n.answer(b[:size]); answer != nil {
				_, _ = c.WriteTo(answer, from)
			}
		}
	}()
	change = func(answer string) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.says = answer
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "udp", c.LocalAddr().String())
		if err == nil { // the library would go on waiting for 5 s
			context.AfterFunc(ctx, func() { conn.Close() })
		}
		return conn, err
	}}, change
}

func (n *names) answer(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	q := m.Questions[0]
	text := n.says
	if text == "" {
		return nil
	}
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, Questions: m.Questions}
	if text == "none" {
		reply.RCode, text = dnsmessage.RCodeNameError, ""
	}
	for one := range strings.FieldsSeq(text) {
		a := netip.MustParseAddr(one)
		h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: dnsmessage.ClassINET, TTL: 0}
		switch {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	packed, _ := reply.Pack()
	return packed
}

// named is a receiver on loopback under a public name.
func named(t *testing.T, asked *atomic.Int32) (address string) {
	r := receiver(t, func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		asked.Add(1)
	})
	u, err := url.Parse(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	return "http://shop.example:" + u.Port() + "/hooks"
}

// Whatever a name leads to is looked at when it is dialled. 0.0.0.0 and ::
// would really reach the receiver.
func TestPrivateAddressesAreNotDialled(t *testing.T) {
	for _, answer := range []string{
		"0.0.0.0", "::", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "fd00::1", "fe80::1", "64:ff9b::7f00:1", "2002:7f00:1::",
		"0.0.0.0 10.0.0.1 ::",
	} {
		var asked atomic.Int32
		at := named(t, &asked)
		s := newSender(t, delivery.SenderConfig{Development: true, Resolver: resolver(t, answer), Timeouts: patient})
		sent := s.Send(t.Context(), message(at))
		if sent.Error == nil || sent.Error.Code != "egress_blocked" || sent.TimedOut || strings.ContainsAny(sent.Error.Message, "0123456789:") {
			t.Errorf("%s: %+v", answer, sent.Error)
		}
		if asked.Load() != 0 {
			t.Errorf("%s: the receiver was reached", answer)
		}
	}
}

// Outside development loopback is private too, and so are all ports but two.
func TestLoopbackIsPrivate(t *testing.T) {
	for _, answer := range []string{"127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "0.0.0.0", "10.0.0.1"} {
		s := newSender(t, delivery.SenderConfig{Resolver: resolver(t, answer), Timeouts: patient})
		if sent := s.Send(t.Context(), message("https://shop.example/")); sent.Error == nil || sent.Error.Code != "egress_blocked" {
			t.Errorf("%s: %+v", answer, sent.Error)
		}
	}
	s := newSender(t, delivery.SenderConfig{Timeouts: patient})
	for _, at := range []string{"http://shop.example/", "https://127.0.0.1/", "https://localhost/", "https://shop.example:8080/", "https://0x7f.1/"} {
		if sent := s.Send(t.Context(), message(at)); sent.Error == nil || sent.Error.Code != "egress_blocked" {
			t.Errorf("%s: %+v", at, sent.Error)
		}
	}
}

// A name server that answers well first and badly then is none the wiser.
func TestRebinding(t *testing.T) {
	var asked atomic.Int32
	at := named(t, &asked)
	names, change := nameServer(t, "127.0.0.1")
	s := newSender(t, delivery.SenderConfig{Development: true, Resolver: names, Timeouts: patient})
	if sent := s.Send(t.Context(), message(at)); !sent.Succeeded() || sent.Timing.DNSMS == nil {
		t.Fatalf("%+v", sent.Error)
	}
	change("0.0.0.0")
	s.Close() // the next attempt looks the name up again
	if sent := s.Send(t.Context(), message(at)); sent.Error == nil || sent.Error.Code != "egress_blocked" {
		t.Errorf("%+v", sent)
	}
	if asked.Load() != 1 {
		t.Errorf("reached %d times", asked.Load())
	}
}

// Of several addresses only those that are allowed are dialled.
func TestMixedAddresses(t *testing.T) {
	var asked atomic.Int32
	s := newSender(t, delivery.SenderConfig{Development: true, Resolver: resolver(t, "10.0.0.1 127.0.0.1 fd00::1"), Timeouts: patient})
	if sent := s.Send(t.Context(), message(named(t, &asked))); !sent.Succeeded() {
		t.Errorf("%+v", sent.Error)
	}
}

// TestMain names a proxy in every variable; a host that is not loopback by
// name would be sent to it.
func TestProxyVariablesAreIgnored(t *testing.T) {
	var asked atomic.Int32
	at := named(t, &asked)
	req, _ := http.NewRequest(http.MethodPost, at, nil)
	if proxy, err := http.ProxyFromEnvironment(req); err != nil || proxy == nil {
		t.Fatalf("the environment names no proxy: %v, %v", proxy, err)
	}
	s := newSender(t, delivery.SenderConfig{Development: true, Resolver: resolver(t, "127.0.0.1"), Timeouts: patient})
	if sent := s.Send(t.Context(), message(at)); !sent.Succeeded() || asked.Load() != 1 {
		t.Errorf("%+v", sent.Error)
	}
}

func TestNamesThatDoNotResolve(t *testing.T) {
	for answer, code := range map[string]string{"none": "dns_failed", "": "timeout"} {
		s := newSender(t, delivery.SenderConfig{Development: true, Resolver: resolver(t, answer), Timeouts: awaited(code)})
		if sent := s.Send(t.Context(), message("http://shop.example/")); sent.Error == nil || sent.Error.Code != code || sent.TimedOut != (code == "timeout") {
			t.Errorf("%q: %+v", answer, sent.Error)
		}
	}
	s := newSender(t, delivery.SenderConfig{Development: true, Timeouts: patient})
	sent := s.Send(t.Context(), message("http://127.0.0.1:1/")) // nobody listens there, or ever will
	if sent.Error == nil || sent.Error.Code != "connect_failed" || strings.Contains(sent.Error.Message, "127") {
		t.Errorf("%+v", sent.Error)
	}
}
