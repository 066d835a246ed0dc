package delivery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"tollgate"
)

// failure says what went wrong in words of our own: the library's would name
// addresses, and quote the other side.
func failure(ctx context.Context, err error, p *phases) (e *tollgate.AttemptError, timedOut bool) {
	timedOut = timeout(ctx, err)
	is := func(code, message string) (*tollgate.AttemptError, bool) {
		return &tollgate.AttemptError{Code: code, Message: message}, timedOut
	}
	dns, isDNS := errors.AsType[*net.DNSError](err)
	switch phase := p.reached(); {
	case errors.Is(err, errBlocked):
		return blocked(), false
	case isDNS && !dns.IsTimeout:
		return is("dns_failed", "The host name could not be resolved.")
	case timedOut && phase == beforeConnect:
		return is("timeout", "No connection was made in time.")
	case timedOut && phase == beforeTLS:
		return is("timeout", "TLS was not agreed upon in time.")
	case timedOut && phase == beforeAnswer:
		return is("timeout", "No answer came in time.")
	case timedOut:
		return is("timeout", "The answer did not end in time.")
	case phase == beforeConnect:
		return is("connect_failed", connectMessage(err))
	case phase == beforeTLS:
		return is("tls_failed", tlsMessage(err))
	}
	return is("response_invalid", answerMessage(err))
}

func timeout(ctx context.Context, err error) bool {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}

func connectMessage(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "The connection was refused."
	case errors.Is(err, syscall.ECONNRESET):
		return "The connection was reset."
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "The host cannot be reached."
	}
	return "No connection could be made."
}

func tlsMessage(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "The certificate is not signed by an authority that is known."
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "The certificate is for another host."
	}
	if bad, ok := errors.AsType[x509.CertificateInvalidError](err); ok && bad.Reason == x509.Expired {
		return "The certificate has expired or is not valid yet."
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "The certificate is not valid."
	}
	return "No TLS connection (1.2 or newer) could be made."
}

func answerMessage(err error) string {
	switch {
	case errors.Is(err, errEndless):
		return "The answer is longer than 1 MiB."
	case errors.Is(err, errEncoded):
		return "The answer has a Content-Encoding that was not asked for, and is longer than 4 KiB."
	case errors.Is(err, errNoStatus):
		return "The answer has no final HTTP status."
	case strings.Contains(err.Error(), "headers exceeded"), strings.Contains(err.Error(), "header list"):
		return "The answer's headers are longer than 16 KiB."
	case errors.Is(err, context.Canceled), // it asked for one connection after the other
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, net.ErrClosed),
		// Errors of net/http's own: in trailers, and before the request was written.
		strings.Contains(err.Error(), "unexpected EOF"), strings.Contains(err.Error(), "server closed idle connection"),
		// HTTP/2: the stream was reset.
		strings.Contains(err.Error(), "received from peer"):
		return "The connection was closed before the answer was complete."
	}
	return "The answer is not HTTP."
}
