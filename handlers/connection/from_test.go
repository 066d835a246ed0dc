package connection

import (
	"net/http"
	"testing"
)

// TestFrom: X-Forwarded-For counts as far as proxies that are trusted have written it.
func TestFrom(t *testing.T) {
	t.Parallel()
	proxies, err := ParseProxies("10.0.0.0/8,2001:db8::7")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		peer  string
		named []string
		want  string
	}{
		{"192.0.2.1:99", nil, "192.0.2.1/32"},
		{"192.0.2.1:99", []string{"198.51.100.1"}, "192.0.2.1/32"},
		{"10.0.0.1:99", []string{"198.51.100.1"}, "198.51.100.1/32"},
		{"10.0.0.1:99", []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1/32"},
		{"10.0.0.1:99", []string{"203.0.113.9", "198.51.100.1, 10.0.0.2"}, "198.51.100.1/32"},
		{"10.0.0.1:99", []string{"198.51.100.1, nobody"}, "10.0.0.1/32"},
		{"10.0.0.1:99", nil, "10.0.0.1/32"},
		{"[2001:db8::7]:99", []string{"2001:db8:1:2:3:4:5:6"}, "2001:db8:1:2::/64"},
		{"[::ffff:192.0.2.1]:99", nil, "192.0.2.1/32"},
		{"", nil, "invalid Prefix"},
	} {
		req := &http.Request{RemoteAddr: test.peer, Header: http.Header{"X-Forwarded-For": test.named}}
		if got := proxies.From(req).String(); got != test.want {
			t.Errorf("%s %q: %s, want %s", test.peer, test.named, got, test.want)
		}
	}
}
