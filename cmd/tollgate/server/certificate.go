package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

const (
	certificateInterval = 2 * time.Second     // between two looks at its files
	expiresSoon         = 14 * 24 * time.Hour // from then on the log says so, once a day
)

// pair is a certificate with its key, as it was read.
type pair struct {
	tls.Certificate
	text    []byte    // of both files
	expires time.Time // the certificate, or one above it
}

// readPair reads a certificate and its key. They are in one file when key is empty.
func readPair(cert, key string) (pair, error) {
	certificate, err := os.ReadFile(cert)
	if err != nil {
		return pair{}, err
	}
	private, err := os.ReadFile(cmp.Or(key, cert))
	if err != nil {
		return pair{}, fmt.Errorf("its key: %w", err)
	}
	p := pair{text: slices.Concat(certificate, []byte{0}, private)}
	if p.Certificate, err = tls.X509KeyPair(certificate, private); err != nil {
		return p, fmt.Errorf("%s and its key in %s: %w", cert, cmp.Or(key, cert), err)
	}
	for _, der := range p.Certificate.Certificate {
		one, err := x509.ParseCertificate(der)
		if err != nil {
			return p, fmt.Errorf("%s: %w", cert, err)
		}
		if p.expires.IsZero() || one.NotAfter.Before(p.expires) {
			p.expires = one.NotAfter
		}
	}
	return p, nil
}

// certificate is what serve shows to those who connect. It follows its files: what
// cannot be used there changes nothing.
type certificate struct {
	cert, key string // paths
	clock     func() time.Time
	log       *slog.Logger
	current   atomic.Pointer[pair]
	refused   string    // why the files cannot be used, as the log has it
	warned    time.Time // of the end
}

// openCertificate reads the files; nil without any.
func openCertificate(cert, key string, clock func() time.Time, log *slog.Logger) (*certificate, error) {
	if cert == "" && key == "" {
		return nil, nil
	}
	if cert == "" {
		return nil, errors.New("TOLLGATE_TLS_KEY is set, and the certificate is missing: set TOLLGATE_TLS_CERT, too")
	}
	first, err := readPair(cert, key)
	if err != nil {
		return nil, err
	}
	c := &certificate{cert: cert, key: key, clock: clock, log: log}
	c.current.Store(&first)
	return c, nil
}

// follow looks at the files until ctx ends.
func (c *certificate) follow(ctx context.Context) {
	tick := time.NewTicker(certificateInterval)
	defer tick.Stop()
	for {
		c.look()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look takes what the files have now. They are compared by what is in them: a link that
// is turned to another file leaves no other trace.
func (c *certificate) look() {
	next, err := readPair(c.cert, c.key)
	switch {
	case err != nil && err.Error() != c.refused:
		c.refused = err.Error()
		c.log.Warn("the certificate stays the old one: its files cannot be used", "error", err)
	case err == nil && !bytes.Equal(next.text, c.current.Load().text):
		c.current.Store(&next)
		c.warned = time.Time{}
		c.log.Info("certificate", "file", c.cert, "expires", next.expires)
		fallthrough
	case err == nil:
		c.refused = ""
	}
	if now := c.clock(); c.expires().Sub(now) < expiresSoon && now.Sub(c.warned) >= 24*time.Hour {
		c.warned = now
		c.log.Warn("the certificate expires soon", "file", c.cert, "expires", c.expires())
	}
}

// expires is when the certificate ends that is shown.
func (c *certificate) expires() time.Time { return c.current.Load().expires }

// listen has a listener talk TLS, and says what its server is to speak inside.
func (c *certificate) listen(l net.Listener) (net.Listener, *http.Protocols) {
	var inside http.Protocols
	inside.SetHTTP1(true)
	inside.SetUnencryptedHTTP2(true) // TLS is the connection's own: net/http does not see it
	return tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &c.current.Load().Certificate, nil
		},
	}), &inside
}
