package connection

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"tollgate"
)

// Proxies are the addresses of those who end TLS in front of a server. What they
// say of a request is believed; from anybody else it is what a client made up.
type Proxies []netip.Prefix

// ParseProxies reads a list of addresses and prefixes (CIDR), with commas between
// them.
func ParseProxies(text string) (Proxies, error) {
	var list Proxies
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(entry)
		if addr, single := netip.ParseAddr(entry); single == nil && addr.Zone() == "" {
			prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if addr := prefix.Addr(); err == nil && addr.Is4In6() {
			prefix, err = addr.Unmap().Prefix(prefix.Bits() - 96)
		}
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a prefix such as 10.0.0.0/8", entry)
		}
		list = append(list, prefix)
	}
	return list, nil
}

// has reports whether a peer, as net/http names it, is one of them.
func (p Proxies) has(peer string) bool {
	from, err := netip.ParseAddrPort(peer)
	if err != nil {
		return false
	}
	return p.trusts(from.Addr().Unmap().WithZone(""))
}

func (p Proxies) trusts(addr netip.Addr) bool {
	for _, prefix := range p {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// Secure reports whether a request came over https: TLS ended here, or a proxy that
// is trusted says that it ended there. One that says it twice, or in other words,
// passes on what its client sent.
func (p Proxies) Secure(req *http.Request) bool {
	local, _ := req.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return true // this process asks itself, for a request that has been looked at
	}
	if a, ok := local.(address); ok && a.connection.tls != nil {
		return true
	}
	said := req.Header["X-Forwarded-Proto"]
	return len(said) == 1 && strings.EqualFold(said[0], "https") && p.has(req.RemoteAddr)
}

// From is the address that a request comes from, as one can be told from others: that of
// IPv4, or the network (/64) of IPv6. It is the last in X-Forwarded-For that is no proxy,
// where the peer is one. Zero: this process asks itself.
func (p Proxies) From(req *http.Request) netip.Prefix {
	peer, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	from := peer.Addr().Unmap().WithZone("")
	named := strings.Split(strings.Join(req.Header["X-Forwarded-For"], ","), ",")
	for i := len(named) - 1; i >= 0 && p.trusts(from); i-- {
		addr, err := netip.ParseAddr(strings.TrimSpace(named[i]))
		if err != nil {
			break
		}
		from = addr.Unmap().WithZone("")
	}
	bits := 32
	if from.Is6() {
		bits = 64
	}
	network, _ := from.Prefix(bits)
	return network
}

// InTheClear is the error of a request that did not come over https. There is no
// redirect: who follows one never notices that the secret has been sent already.
func InTheClear(peer string) *tollgate.Error {
	e := &tollgate.Error{Code: tollgate.CodeTLSRequired, Message: "This came over plain http. Send it over https, with a new token: the one in it may have been read on the way."}
	if peer != "" {
		e.Cause = fmt.Errorf("%s is no trusted proxy, or does not say in X-Forwarded-Proto that this came over https", peer)
	}
	return e
}

// handshaken is called with what the first read of a TLS connection has come to:
// the handshake is part of it. The deadline of a request's head bounds both.
func (c *Conn) handshaken(n int, err error) (int, error) {
	state := c.tls.ConnectionState()
	c.handshake, c.http2 = true, state.NegotiatedProtocol == "h2"
	if err == nil || state.HandshakeComplete {
		return n, err
	}
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil && speaksHTTP(plain.RecordHeader[:]) {
		e := InTheClear("")
		_, _ = plain.Conn.Write(c.host.Refuse(e.Code, e.Param, e.Message))
		if half, ok := plain.Conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		_, _ = io.CopyN(io.Discard, plain.Conn, maxHeadSeen) // what is left unread takes the answer from the client
	}
	c.host.Broken(c.RemoteAddr(), err)
	c.broken = true
	return 0, io.EOF // net/http has nobody to answer
}

// speaksHTTP looks at the first bytes of a connection.
func speaksHTTP(b []byte) bool {
	for _, method := range []string{"GET /", "HEAD ", "POST ", "PATCH", "PUT /", "DELET", "OPTIO"} {
		if string(b) == method {
			return true
		}
	}
	return false
}
