package egress_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"tollgate"
	"tollgate/handlers/egress"
)

// never are refused in development too.
var never = []string{
	"", " ", "https", "https:", "https:/", "https://", "https:///", "https:///hooks", "https://:443/", "https://?a=b", "//shop.example/",
	"shop.example", "shop.example:443", "https:shop.example", "https:/shop.example", "https:443", "/hooks", "ftp://shop.example/",
	"file:///etc/passwd", "gopher://shop.example/", "javascript:alert(1)", "data:,x", "httpss://shop.example", "unix:///run/x.sock",
	// Addresses that are private, however they are written.
	"https://10.0.0.1/", "https://10.1/", "https://167772161/", "https://0xa000001/", "https://0xa.0.0.1/", "https://012.0.0.1/",
	"https://172.16.0.1/", "https://172.31.255.255/", "https://192.168.0.1/", "https://192.168.257/", "https://169.254.169.254/latest/meta-data/",
	"https://2852039166/", "https://0xa9fea9fe/", "https://0251.0376.0251.0376/", "https://169.254.43518/", "https://100.64.0.1/", "https://100.100.100.200/",
	"https://0.0.0.0/", "https://0/", "https://0x0/", "https://00000/", "https://192.0.2.1/", "https://198.18.0.1/", "https://198.51.100.7/",
	"https://203.0.113.9/", "https://224.0.0.1/", "https://240.0.0.1/", "https://255.255.255.255/", "https://192.0.0.192/", "https://192.88.99.1/",
	"https://168.63.129.16/",
	// Loopback in any but the usual form.
	"https://2130706433/", "https://0x7f000001/", "https://0x7f.1/", "https://0X7F.0.0.1/", "https://0177.0.0.1/", "https://017700000001/",
	"https://127.1/", "https://127.0.1/", "https://127.0.0.1./", "https://127.0.0.01/", "https://127.0.0.0x1/", "https://127.0.0.1.1/",
	"https://127.0.0.256/", "https://4294967297/", "https://0x/", "https://1.2.3/", "https://08.8.8.8/", "https://shop.1/", "https://shop.0x7f/",
	"https://[0:0:0:0:0:0:0:1]/", "https://[::0001]/", "https://[0::1]/", "https://127.0.0.1%2f.shop.example/", "https://%31%32%37.0.0.1/",
	"https://127%2e0%2e0%2e1/", "https://localhost%00.shop.example/", "https://loc%61lhost/", "https://localhost./", "https://localhost../", "https://a.localhost./",
	// IPv6.
	"https://[::]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[::ffff:10.0.0.1]/", "https://[::ffff:8.8.8.8]/",
	"https://[::127.0.0.1]/", "https://[::7f00:1]/", "https://[::ffff:0:127.0.0.1]/", "https://[64:ff9b::7f00:1]/", "https://[64:ff9b::10.0.0.1]/",
	"https://[64:ff9b:1::1]/", "https://[2002:7f00:1::]/", "https://[2002:a00:1::1]/", "https://[2001::1]/", "https://[2001:0:53aa:64c::1]/",
	"https://[2001:db8::1]/", "https://[2001:2::1]/", "https://[3fff::1]/", "https://[fc00::1]/", "https://[fd00:ec2::254]/", "https://[fe80::1]/",
	"https://[fe80::1%25eth0]/", "https://[fe80::1%eth0]/", "https://[::1%25lo]/", "https://[2606:4700::1111%25eth0]/", "https://[fec0::1]/",
	"https://[ff02::1]/", "https://[100::1]/", "https://[5f00::1]/", "https://[4000::1]/", "https://::1/", "https://[::1/", "https://::1]/", "https://[]/",
	"https://[[::1]]/", "https://[127.0.0.1]/", "https://[8.8.8.8]/", "https://[localhost]/", "https://[v1.fe80::1]/", "https://2606:4700::1111/",
	// Names that lead inside.
	"https://metadata.google.internal/", "https://x.INTERNAL/", "https://printer.local/", "https://nas.lan/", "https://router.home.arpa/",
	"https://x.localdomain/", "https://git.corp/", "https://x.onion/", "https://redis/", "https://metadata/", "https://localhost.localdomain/",
	"https://internal/", "https://shop.example./", "https://shop..example/", "https://.shop.example/", "https://-shop.example/", "https://shop-.example/",
	"https://shop_1.example/", "https://*.example/", "https://shop.example,evil.example/", "https://" + strings.Repeat("a", 64) + ".example/",
	"https://" + strings.Repeat("abcdefg.", 32) + "example/",
	// Digits and dots that only look like ASCII, names not in punycode.
	"https://127。0。0。1/", "https://①②⑦.0.0.1/", "https://１２７.0.0.1/", "https://ⓛocalhost/", "https://lоcalhost/", "https://bücher.example/",
	"https://127.0.0.1\u2044x/", "https://shop\u200b.example/", "https://shop.example\u3002/",
	// User information, fragments, control characters, backslashes.
	"https://u:p@shop.example/", "https://u@shop.example/", "https://@shop.example/", "https://:@shop.example/", "https://shop.example@127.0.0.1/",
	"https://shop.example:443@10.0.0.1/", "https://shop.example%40127.0.0.1/", "https://shop.example/#x", "https://shop.example/#", "https://shop.example#@127.0.0.1/",
	"https://127.0.0.1#@shop.example/", "https://shop.example\\@127.0.0.1/", "https:\\\\127.0.0.1\\", "https://127.0.0.1\\.shop.example/", "https:/\\127.0.0.1/",
	"ht\ntps://127.0.0.1/", "https://shop.example/\r\nHost: x", "https://shop.example/\t", "https://127.0\t.0.1/", " https://shop.example/", "https://shop.example/ ",
	"https://shop.example/\x00", "\x01https://shop.example/", "https://shop.example/\x7f", "https://shop.example/é", "https://shop.example/\xff",
	"https://shop.example/<x>", "https://shop.example/{id}", "https://shop.example/a|b", "https://shop.example/`", "https://shop.example/%zz",
	// Ports.
	"https://shop.example:/", "https://shop.example:0/", "https://shop.example:0443/", "https://shop.example:+443/", "https://shop.example:65536/",
	"https://shop.example:65979/", "https://shop.example:443:443/", "https://shop.example:https/", "https://shop.example:4 43/", "https://shop.example:-1/", "https://shop.example:０/",
	"https://shop.example/" + strings.Repeat("a", 2048),
}

// inDevelopment are refused, but in development.
var inDevelopment = []string{
	"http://shop.example/", "HTTP://shop.example/", "http://shop.example:443/", "https://shop.example:80/", "https://shop.example:22/", "https://shop.example:8080/",
	"https://shop.example:6379/", "https://localhost/", "https://LOCALHOST/", "https://localhost:8443/", "https://a.localhost/", "http://127.0.0.1:3000/hooks",
	"https://127.0.0.1/", "https://127.9.8.7/", "https://127.255.255.255/", "https://[::1]/", "http://[::1]:3000/",
}

var always = []string{
	"https://shop.example", "https://shop.example/", "https://shop.example/hooks?a=b&c=%20", "HTTPS://Shop.Example/", "https://shop.example:443/", "https://shop.example:8443/x",
	"https://xn--bcher-kva.example/", "https://a.b.c.d.shop.example/", "https://1.shop.example/", "https://127.0.0.1.nip.io/", "https://0x7f.shop.example/",
	"https://8.8.8.8/", "https://8.8.8.8:8443/", "https://[2606:4700::1111]/", "https://[2606:4700::1111]:443/", "https://shop.example/a@b", "https://shop.example/a:b//c",
	"https://localhost.shop.example/", "https://internal.shop.example/", "https://mylocalhost.example/", "https://172.32.0.1/", "https://100.128.0.1/", "https://shop.example//127.0.0.1/",
}

func TestCheckURL(t *testing.T) {
	check := func(list []string, development, want bool) {
		for _, raw := range list {
			err := egress.CheckURL(raw, development)
			if (err == nil) != want {
				t.Errorf("%q, development %t: %v", raw, development, err)
			}
			refused, _ := errors.AsType[*tollgate.Error](err)
			if err != nil && (refused == nil || refused.Code != tollgate.CodeWebhookURLInvalid || refused.Param != "url" || refused.Message == "") {
				t.Errorf("%q: %#v", raw, err)
			}
		}
	}
	check(never, false, false)
	check(never, true, false)
	check(inDevelopment, false, false)
	check(inDevelopment, true, true)
	check(always, false, true)
	check(always, true, true)
}

// The first and the last address of each range, and their neighbours.
func TestReachable(t *testing.T) {
	for _, c := range []struct {
		addr                string
		public, development bool
	}{
		{"8.8.8.8:443", true, true},
		{"8.8.8.8:8443", true, true},
		{"8.8.8.8:80", false, true},
		{"8.8.8.8:6379", false, true},
		{"127.0.0.1:443", false, true},
		{"127.255.255.255:3000", false, true},
		{"126.255.255.255:443", true, true},
		{"128.0.0.0:443", true, true},
		{"[::1]:443", false, true},
		{"[::2]:443", false, false},
		{"0.0.0.0:443", false, false},
		{"0.255.255.255:443", false, false},
		{"1.0.0.0:443", true, true},
		{"9.255.255.255:443", true, true},
		{"10.0.0.0:443", false, false},
		{"10.255.255.255:443", false, false},
		{"11.0.0.0:443", true, true},
		{"100.63.255.255:443", true, true},
		{"100.64.0.0:443", false, false},
		{"100.127.255.255:443", false, false},
		{"100.128.0.0:443", true, true},
		{"168.63.129.16:443", false, false},
		{"169.254.169.254:443", false, false},
		{"172.15.255.255:443", true, true},
		{"172.16.0.0:443", false, false},
		{"172.31.255.255:443", false, false},
		{"172.32.0.0:443", true, true},
		{"192.0.0.8:443", false, false},
		{"192.0.2.255:443", false, false},
		{"192.88.99.1:443", false, false},
		{"192.168.255.255:443", false, false},
		{"192.169.0.0:443", true, true},
		{"198.19.255.255:443", false, false},
		{"198.51.100.1:443", false, false},
		{"203.0.113.1:443", false, false},
		{"223.255.255.255:443", true, true},
		{"224.0.0.0:443", false, false},
		{"239.255.255.255:443", false, false},
		{"240.0.0.0:443", false, false},
		{"255.255.255.255:443", false, false},
		{"[::]:443", false, false},
		{"[::ffff:8.8.8.8]:443", false, false},
		{"[::ffff:127.0.0.1]:443", false, false},
		{"[::8.8.8.8]:443", false, false},
		{"[64:ff9b::808:808]:443", false, false},
		{"[64:ff9b:1::808:808]:443", false, false},
		{"[100::1]:443", false, false},
		{"[2000::1]:443", true, true},
		{"[2001::1]:443", false, false},
		{"[2001:1ff:ffff::1]:443", false, false},
		{"[2001:200::1]:443", true, true},
		{"[2001:db8::1]:443", false, false},
		{"[2002:808:808::1]:443", false, false},
		{"[2003::1]:443", true, true},
		{"[2606:4700::1111]:443", true, true},
		{"[2606:4700::1111%eth0]:443", false, false},
		{"[3ffe::1]:443", true, true},
		{"[3fff:fff::1]:443", false, false},
		{"[3fff:1000::1]:443", true, true},
		{"[4000::1]:443", false, false},
		{"[5f00::1]:443", false, false},
		{"[fc00::1]:443", false, false},
		{"[fdff::1]:443", false, false},
		{"[fe80::1]:443", false, false},
		{"[fe80::1%lo]:443", false, false},
		{"[fec0::1]:443", false, false},
		{"[ff02::1]:443", false, false},
	} {
		a := netip.MustParseAddrPort(c.addr)
		if got := egress.Reachable(a, false); got != c.public {
			t.Errorf("%s: %t", a, got)
		}
		if got := egress.Reachable(a, true); got != c.development {
			t.Errorf("%s in development: %t", a, got)
		}
	}
	if egress.Reachable(netip.AddrPort{}, true) {
		t.Error("no address is reachable")
	}
}

// What CheckURL accepts outside development holds neither of the characters
// that readers of URLs disagree about, and its literal address is public.
func FuzzCheckURL(f *testing.F) {
	for _, list := range [][]string{never, inDevelopment, always} {
		for _, raw := range list {
			f.Add(raw)
		}
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if egress.CheckURL(raw, false) != nil {
			return
		}
		if egress.CheckURL(raw, true) != nil {
			t.Errorf("%q is refused only in development", raw)
		}
		if len(raw) > egress.MaxURL || !strings.EqualFold(raw[:8], "https://") || strings.ContainsAny(raw, "\\#\t\r\n ") {
			t.Errorf("%q", raw)
		}
		host, _, _ := strings.Cut(raw[8:], "/")
		host, _, _ = strings.Cut(host, "?")
		if strings.ContainsAny(host, "@%") || strings.Trim(host, "0123456789.:") == "" && strings.Count(host, ".") != 3 {
			t.Errorf("%q has the host %q", raw, host)
		}
	})
}
