package server

import (
	"testing"

	"tollgate/handlers/connection"
)

// Plain http is refused where it is known who ends TLS, and the issuer is https.
func TestTransport(t *testing.T) {
	proxies, err := connection.ParseProxies("10.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		o              processOptions
		required, told bool
	}{
		{"nothing", processOptions{issuer: "https://pay.example"}, false, true},
		{"proxies", processOptions{issuer: "https://pay.example", proxies: proxies}, true, false},
		{"a certificate", processOptions{issuer: "https://pay.example", certificate: new(certificate)}, true, false},
		{"an issuer of http", processOptions{issuer: "http://127.0.0.1:8080"}, false, false},
		{"an issuer of http and proxies", processOptions{issuer: "http://pay.example", proxies: proxies}, false, false},
		{"an issuer of http and a certificate", processOptions{issuer: "http://pay.example", certificate: new(certificate)}, false, false},
	} {
		got := c.o.transport()
		if told := answersPlain(c.o.issuer, got); got.Required != c.required || told != c.told || len(got.Proxies) != len(c.o.proxies) {
			t.Errorf("%s: %+v, told %t", c.name, got, told)
		}
	}
}
