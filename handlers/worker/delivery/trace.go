package delivery

import (
	"crypto/tls"
	"net/http/httptrace"
	"sync"
	"time"

	"tollgate"
)

// phases times an attempt (httptrace). Its hooks are called by the
// transport's goroutines, some of them after the attempt has ended.
type phases struct {
	clock  func() time.Time
	giveUp func() // ends the attempt

	mu                sync.Mutex
	dns, connect, tls span
	wrote, answered   time.Time
	connected         bool
	tries             int
}

// maxTries is how many connections one attempt asks for. net/http tries again
// by itself when a connection ends before the request was looked at; a receiver
// that answers each HTTP/2 request by "go away" would have it dial without end.
const maxTries = 3

// span is one phase; ended says that took holds.
type span struct {
	began     time.Time
	took      time.Duration
	ended, ok bool
}

func (p *phases) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart:          func(httptrace.DNSStartInfo) { p.begin(&p.dns) },
		DNSDone:           func(i httptrace.DNSDoneInfo) { p.end(&p.dns, i.Err) },
		ConnectStart:      func(string, string) { p.begin(&p.connect) },
		ConnectDone:       func(_, _ string, err error) { p.end(&p.connect, err) },
		TLSHandshakeStart: func() { p.begin(&p.tls) },
		TLSHandshakeDone:  func(_ tls.ConnectionState, err error) { p.end(&p.tls, err) },
		GetConn: func(string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.tries++; p.tries > maxTries {
				p.giveUp()
			}
		},
		GotConn: func(httptrace.GotConnInfo) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.connected = true
		},
		WroteRequest: func(httptrace.WroteRequestInfo) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.wrote = p.clock()
		},
		GotFirstResponseByte: func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.answered = p.clock()
		},
	}
}

// begin keeps the first beginning: a name with several addresses is dialled
// several times, and that is one phase.
func (p *phases) begin(s *span) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.began.IsZero() {
		s.began = p.clock()
	}
}

func (p *phases) end(s *span, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.ok {
		return // the loser of two connections that raced
	}
	s.took, s.ended, s.ok = p.clock().Sub(s.began), true, err == nil
}

// The phase that an attempt has not got through.
const (
	beforeConnect = iota
	beforeTLS
	beforeAnswer
	inAnswer
)

func (p *phases) reached() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.answered.IsZero():
		return inAnswer
	case p.connected:
		return beforeAnswer
	case !p.tls.began.IsZero():
		return beforeTLS
	}
	return beforeConnect
}

// timing is what the attempt keeps. The wait for the first byte is counted
// from the moment at which the request was written.
func (p *phases) timing() tollgate.AttemptTiming {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := tollgate.AttemptTiming{DNSMS: p.dns.milliseconds(), ConnectMS: p.connect.milliseconds(), TLSMS: p.tls.milliseconds()}
	if !p.answered.IsZero() && !p.wrote.IsZero() {
		first := max(p.answered.Sub(p.wrote).Milliseconds(), 0)
		t.FirstByteMS = &first
	}
	return t
}

func (s span) milliseconds() *int64 {
	if !s.ended {
		return nil
	}
	ms := s.took.Milliseconds()
	return &ms
}
