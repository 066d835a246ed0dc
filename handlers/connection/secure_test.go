package connection

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestParseProxies(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		" , ":                         "",
		"10.0.0.0/8":                  "10.0.0.0/8",
		"192.0.2.7, 2001:db8::/32":    "192.0.2.7/32 2001:db8::/32",
		"2001:db8::1":                 "2001:db8::1/128",
		"::ffff:10.0.0.0/104":         "10.0.0.0/8",
		"::ffff:192.0.2.7":            "192.0.2.7/32",
		"0.0.0.0/0,::/0":              "0.0.0.0/0 ::/0",
		"10.0.0.0/33":                 `"10.0.0.0/33"`,
		"10.0.0.0/8,proxy.example":    `"proxy.example"`,
		"10.0.0.0/8 192.0.2.7":        `"10.0.0.0/8 192.0.2.7"`,
		"192.0.2.7:443":               `"192.0.2.7:443"`,
		"fe80::1%eth0":                `"fe80::1%eth0"`,
		"::ffff:10.0.0.0/8":           `"::ffff:10.0.0.0/8"`,
		"10.0.0.0/8;192.168.0.0/16":   `"10.0.0.0/8;192.168.0.0/16"`,
		"https://192.0.2.7,10.0.0.1,": `"https://192.0.2.7"`,
	} {
		got, err := ParseProxies(text)
		var list []string
		for _, p := range got {
			list = append(list, p.String())
		}
		switch refused := strings.HasPrefix(want, `"`); {
		case refused && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%q: %v %v", text, list, err)
		case !refused && (err != nil || strings.Join(list, " ") != want):
			t.Errorf("%q: %v %v, want %s", text, list, err, want)
		}
	}
}

// Only the word of a trusted proxy counts, and only one that it has chosen itself.
func TestSecure(t *testing.T) {
	proxies, err := ParseProxies("10.0.0.0/8, 192.0.2.7, 2001:db8::/32, fe80::/10")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, peer string
		said       []string
		want       bool
	}{
		{"a prefix", "10.1.2.3:4711", []string{"https"}, true},
		{"an address", "192.0.2.7:4711", []string{"https"}, true},
		{"IPv6", "[2001:db8::5]:4711", []string{"https"}, true},
		{"IPv4 in IPv6", "[::ffff:10.1.2.3]:4711", []string{"https"}, true},
		{"a zone", "[fe80::1%eth0]:4711", []string{"https"}, true},
		{"capitals", "10.1.2.3:4711", []string{"HTTPS"}, true},
		{"a stranger", "192.0.2.8:4711", []string{"https"}, false},
		{"a stranger in IPv6", "[::ffff:192.0.2.8]:4711", []string{"https"}, false},
		{"a stranger whose address ends alike", "[2001:db9::10.1.2.3]:4711", []string{"https"}, false},
		{"no address", "@", []string{"https"}, false},
		{"http", "10.1.2.3:4711", []string{"http"}, false},
		{"nothing", "10.1.2.3:4711", nil, false},
		{"empty", "10.1.2.3:4711", []string{""}, false},
		{"twice", "10.1.2.3:4711", []string{"https", "https"}, false},
		{"the client's before the proxy's", "10.1.2.3:4711", []string{"https", "http"}, false},
		{"a list", "10.1.2.3:4711", []string{"https,http"}, false},
		{"a list of one kind", "10.1.2.3:4711", []string{"https, https"}, false},
		{"another word", "10.1.2.3:4711", []string{"httpsx"}, false},
	} {
		for _, local := range []net.Addr{&net.TCPAddr{}, address{&net.TCPAddr{}, &Conn{}}} {
			req, err := http.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local), "GET", "/", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.RemoteAddr = c.peer
			for _, word := range c.said {
				req.Header.Add("X-Forwarded-Proto", word)
			}
			req.Header.Set("Forwarded", "proto=https")
			req.Header.Set("X-Forwarded-Ssl", "on")
			if got := proxies.Secure(req); got != c.want {
				t.Errorf("%s: %t", c.name, got)
			}
			if slices.Equal(c.said, []string{"https"}) && Proxies(nil).Secure(req) {
				t.Errorf("%s: nobody is trusted, and %s is believed", c.name, c.peer)
			}
		}
	}
	for name, ctx := range map[string]context.Context{
		"by TLS":          context.WithValue(t.Context(), http.LocalAddrContextKey, address{&net.TCPAddr{}, &Conn{tls: &tls.Conn{}}}),
		"by this process": t.Context(),
	} {
		req, err := http.NewRequestWithContext(ctx, "GET", "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.RemoteAddr = "192.0.2.8:4711"
		req.Header.Set("X-Forwarded-Proto", "http")
		if !Proxies(nil).Secure(req) {
			t.Errorf("%s: not secure", name)
		}
	}
}
