package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tollgate/cmd/tollgate/clitest"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// serve ends TLS itself: clients pay over it, a certificate that is replaced is shown
// without a restart, and a connection of HTTP/2 does not keep it from stopping.
func TestServeTLS(t *testing.T) {
	t.Parallel() // it waits until the files are looked at
	s := newSite(t, redistest.URL(t))
	dir := t.TempDir()
	file := filepath.Join(dir, "tls.pem")
	roots := x509.NewCertPool()
	replace := func(name string) []byte {
		cert, key := clitest.Certificate(t, name, time.Now().Add(90*24*time.Hour))
		roots.AppendCertsFromPEM(cert)
		if err := os.WriteFile(file, slices.Concat(cert, key), 0o600); err != nil {
			t.Fatal(err)
		}
		return cert
	}
	first := replace("first")
	if err := os.WriteFile(filepath.Join(dir, "root.pem"), first, 0o600); err != nil {
		t.Fatal(err)
	}
	p := s.serve("--tls-cert", file, "--metrics-addr", "127.0.0.1:0")
	host := strings.TrimPrefix(p.serving(), "http://")

	paid := runProgram(t, []string{
		"SSL_CERT_FILE=" + filepath.Join(dir, "root.pem"), "TOLLGATE_URL=https://" + host, "TOLLGATE_ISSUER=" + siteIssuer,
		"TOLLGATE_CLIENT_ID=" + s.client, "TOLLGATE_CLIENT_JWK=" + string(s.key),
	}, "pay", "10.00", "EUR", "shop.example", "--merchant-account", s.account)
	if !strings.Contains(paid, "authorized") {
		t.Error(paid)
	}

	second := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	for range 3 {
		r, err := second.Get("https://" + host + "/.well-known/jwks.json")
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, r.Body)
		if r.Body.Close(); err != nil || r.StatusCode != http.StatusOK || r.ProtoMajor != 2 || r.Header.Get("Strict-Transport-Security") != "max-age=31536000" {
			t.Errorf("%s %s %v, %v", r.Proto, r.Status, r.Header, err)
		}
	}
	if r := s.must(http.StatusMisdirectedRequest, "GET", "http://"+host+"/v1/payments", "", ""); !strings.Contains(r.Text, `"code":"tls_required"`) {
		t.Error(r.Text)
	}
	metrics := s.must(http.StatusOK, "GET", "http://"+p.marks["metrics_addr"].(string)+"/metrics", "", "")
	if !strings.Contains(metrics.Text, "\ntollgate_tls_certificate_expires_timestamp_seconds 1.") {
		t.Error("the metrics do not say when the certificate expires")
	}

	replace("second")
	testkit.Within(t, "the new certificate is shown", patience, func() bool {
		c, err := tls.Dial("tcp", host, &tls.Config{RootCAs: roots})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName == "second"
	})
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("it ends with %d", code)
	}
}

// Behind a proxy that is trusted and says https everything is answered, the tools of
// agents too, which ask the API from within; everything else is refused.
func TestServeBehindAProxy(t *testing.T) {
	s := newSite(t, redistest.URL(t))
	base := s.serve("--trusted-proxies", "192.0.2.0/24, 127.0.0.1").serving()
	to, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header["X-Forwarded-Proto"] = []string{"https"} // as if it had ended TLS
	}})
	t.Cleanup(proxy.Close)
	s.authenticate(proxy.URL)
	order := toolArguments{"amount": "10.00", "currency": "EUR", "payee": "shop.example", "reference": "order-1"}
	s.agent(proxy.URL).call("create_payment", order, false, "is authorized")

	for _, path := range []string{"/v1/payments", "/mcp", "/docs", "/openapi.json", "/nowhere"} {
		s.must(http.StatusMisdirectedRequest, "POST", base+path, "", "{}")
	}
	s.must(http.StatusOK, "GET", base+"/healthz", "", "")
}
