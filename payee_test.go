package tollgate_test

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	whatwg "github.com/nlnwa/whatwg-url/url"

	"tollgate"
)

// One payee has one form, and what parses in two ways has none.
func TestPayees(t *testing.T) {
	for in, want := range map[string]string{
		"shop.example": "shop.example", "Shop.EXAMPLE": "shop.example", "shop.example.": "shop.example", "xn--bcher-kva.example": "xn--bcher-kva.example",
		"XN--Bcher-KVA.example": "xn--bcher-kva.example", "r3---sn-1.shop.example": "r3---sn-1.shop.example", "1shop.2example": "1shop.2example",

		"10.0.0.1": "10.0.0.1", "2001:DB8:0:0::7": "2001:db8::7", "[2001:db8::7]": "2001:db8::7", "::1": "::1",

		"user@Host.example": "user@host.example", "User.Name+x@BANK": "User.Name+x@bank", "a@b.test.": "a@b.test", "a@192.0.2.1": "a@192.0.2.1",

		"HTTPS://Shop.Example:443/Pay?To=7#A": "https://shop.example/Pay?To=7#A", "http://shop.example": "http://shop.example/",
		"http://shop.example.:80": "http://shop.example/", "http://shop.example:443/": "http://shop.example:443/", "https://shop.example:08443": "https://shop.example:8443/",
		"https://shop.example?x": "https://shop.example/?x", "https://localhost/a": "https://localhost/a", "https://192.0.2.1/": "https://192.0.2.1/",
		"https://[2001:DB8:0::7]:8443": "https://[2001:db8::7]:8443/", "https://shop.example/@x/a%2fb": "https://shop.example/@x/a%2fb", "http://a.test:": "http://a.test/",

		"DE89370400440532013000": "DE89370400440532013000", "ACCT-7": "ACCT-7", "@One_2": "@One_2", "localhost": "localhost", "4294967296": "4294967296", "0812345679": "0812345679",
		"0xAb5801a7D398351b8bE11C439e05C5B3259aeC9B": "0xAb5801a7D398351b8bE11C439e05C5B3259aeC9B", "tel:+4930123": "tel:+4930123", "acct:12345678": "acct:12345678",
		"Bank:Account": "Bank:Account", "did:web:Shop.example": "did:web:Shop.example", strings.Repeat("a", 255): strings.Repeat("a", 255),
	} {
		if got, err := tollgate.ParsePayee(in); err != nil || got.String() != want {
			t.Errorf("%q: %q %v", in, got, err)
		}
	}
	for _, in := range []string{
		"", " ", "a b", "bücher.example", "a\n", "a\x00b", "a\x7f", strings.Repeat("a", 256),
		"https://" + strings.Repeat("a.", 123) + "a?", "https://a.test?" + strings.Repeat("x", 240), // too long with its slash
		strings.Repeat("a", 64) + ".test", strings.Repeat("a.", 126) + "ab", "-a.example", "a-.example", "a_b.example", "a..example", "example..", ".example", "localhost.",
		"xn--a.example", "xn--.example", "xn--abc-.example", "xn--1ug.example", "xn--zca--.example", // no punycode, or of what no name may hold

		// numbers that are addresses
		"2130706433", "0", "0x7f000001", "0x", "0X7F.1", "017700000001", "0177.0.0.1", "127.1", "127.0.1", "127.0.0.01", "1.2.3.4.", "1.2.3.4.5", "256.0.0.1", "a.1", "shop.0x1",
		"::ffff:127.0.0.1", "[::ffff:7f00:1]", "fe80::1%eth0", "[127.0.0.1]", "[::1", "::1]", "[shop.example]", "1:2:3",
		"http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/", "http://[::ffff:127.0.0.1]/", "http://[fe80::1%25eth0]/", "http://127.0.0.1./", "http://a.09/",

		// hosts in two readings
		"shop.example:443", "shop.example:", "localhost:8080", "bank:", "shop.example/a", "shop.example?a", "shop.example#a", "//shop.example", `\\shop.example`, "/a", "#", "a/b",
		"https:shop.example", "https:/shop.example", "https:///shop.example", `https:\\shop.example`, `https://shop.example\@evil.test`, `https://shop.example/a\b`, "https://", "https:", "http://?a",
		"https://user@shop.example", "https://u:p@shop.example/", "https://shop%2eexample/", "https://shop.example%00/", "https://shop.example:99999/", "https://shop.example:+1/",
		"https://shop.example:443:443/", "https://a_b.example/", "https://*.example/", "https://shop.example/%zz", "https://shop.example/a/../b", "https://shop.example/%2E%2e/b", "https://shop.example/.",
		"ftp://shop.example", "ftp:shop.example", "file:shop", "ws:shop.example", "foo://shop.example/a", "foo:/shop.example", "shop%2eexample", "a%b", "tel:4930", "acct:a?b",
		"user@", "@", "@shop.example", "@a@b", "@2130706433", "a@b@c", "a@b:443", "a:b@c", "a/b@c", "a@b/c", "x@evil.example#a.suppliers.example", "a@2130706433", "a%40b@c", "acct:user@shop.example", "*@bank", "*", "a*b", "acct:*", `"a"@bank`, "a@b_c.test",
	} {
		if got, err := tollgate.ParsePayee(in); err == nil {
			t.Errorf("%q is read as %q", in, got)
		}
	}
}

// What earlier releases stored is found by its old text and by the new one.
func TestPayeesOfEarlierReleases(t *testing.T) {
	for _, c := range []struct {
		stored, asked string
		same          bool
	}{
		{"shop.example", "shop.example", true},
		{"HTTPS://Shop.Example:443/a", "https://shop.example/a", true},
		{"User@Bank", "User@bank", true},
		{"user@bank", "User@bank", false},
		{"shop.example:443", "shop.example:443", true}, // no payee any more
		{"shop.example:443", "shop.example", false},
		{"ACCT-7", "acct-7", false},
	} {
		if tollgate.SamePayee(c.stored, c.asked) != c.same || tollgate.SamePayee(c.asked, c.stored) != c.same {
			t.Errorf("%q and %q: want %t", c.stored, c.asked, c.same)
		}
	}
	for in, want := range map[string]string{"Shop.Example.": "shop.example", "HTTPS://Shop.example": "HTTPS://Shop.example", "2001:DB8::7": "2001:DB8::7", "127.0.0.01": "127.0.0.01"} {
		if got, ok := tollgate.EarlierPayee(in); !ok || got != want {
			t.Errorf("%q: %q %t", in, got, ok)
		}
		if p, err := tollgate.ParsePayee(in); err == nil && p.Earlier() != want {
			t.Errorf("%q: %q", in, p.Earlier())
		}
	}
}

// spellings are how people, libraries and browsers spell payees.
var spellings = []string{
	"shop.example", "SHOP.example.", "https://shop.example", "HTTP://Shop.Example.:80/a?b#c", "https://shop.example:8443/", "https://sub.shop.example/shop.example", "user@shop.example", "User@SHOP.example.",
	"https://evil.example/a.suppliers.example", "x@evil.example#a.suppliers.example", `https://evil.example\.suppliers.example`, "https://evil.example#@a.suppliers.example", "https://a.suppliers.example@evil.example/",
	"https:evil.example", "https:/evil.example", "https:///evil.example", `https:\\evil.example`, "//evil.example", `\\evil.example`, "evil.example:443", "evil.example:", "evil.example/..//x", "https://evil%2eexample/", "evil%2Eexample",
	"https://ev\til.example/", "https://xn--bcher-kva.example", "https://XN--BCHER-KVA.example/", "xn--bcher-kva.example.", "xn--a.example", "https://xn--shop-.example",
	"127.0.0.1", "https://127.0.0.1/", "https://127.1", "http://0177.0.0.1", "http://0x7f000001/", "2130706433", "0x7f.1", "127.0.0.1.", "http://127.0.0.1.:80/", "::1", "[::1]", "http://[::1]:80/", "http://[0:0:0:0:0:0:0:1]/", "::ffff:127.0.0.1", "http://[::ffff:7f00:1]",
	"http://[fe80::1%25lo]/", "localhost", "LOCALHOST", "http://localhost:80/", "localhost:80", "localhost.", "*", "*.example", "@shop", "$&@SHOP.example", "user@localhost", "tel:+4930123", "acct:7@shop.example", "blob:https://shop.example/", "ftp://shop.example", "$alice", "DE89370400440532013000", "a_b.example", "http://a_b.example",
	"https://user:pw@shop.example/", "https://shop.example/%2e%2e/x", "https://shop.example:", "https://shop.example:0443/", "https://shop.example:65536/", "mailto:a@shop.example", "javascript:alert", "2001:db8::7", "http://[2001:DB8::7]/", "http://[2001:db8:0::7]",
}

// Payees that a URL library, a browser and we see as one host share what a
// perimeter says of them and what they have left of a budget.
func FuzzPayee(f *testing.F) {
	for i, a := range spellings {
		f.Add(a, spellings[(i+1)%len(spellings)])
		f.Add(a, a)
	}
	for _, host := range []string{"shop.example", "evil.example", "127.0.0.1", "localhost"} {
		for _, s := range spellings {
			f.Add(host, s)
		}
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		pa, err := tollgate.ParsePayee(a)
		if err != nil {
			return
		}
		if again, err := tollgate.ParsePayee(pa.String()); err != nil || again.String() != pa.String() || counterOf(t, again) != counterOf(t, pa) {
			t.Errorf("%q becomes %q, and that %q", a, pa, again)
		}
		library, browser := hostsOf(pa.String())
		raw, rawBrowser := hostsOf(a)
		if !hostless(pa.String()) && (library != browser || raw != library || rawBrowser != browser) {
			t.Errorf("%q (%s): hosts %q and %q, as sent %q and %q", a, pa, library, browser, raw, rawBrowser)
		}
		for _, host := range []string{library, browser} { // the host alone is the same payee
			if bare, err := tollgate.ParsePayee(host); err == nil {
				together(t, pa, bare)
			}
		}
		pb, err := tollgate.ParsePayee(b)
		if err != nil {
			return
		}
		otherLibrary, otherBrowser := hostsOf(b)
		if library != "" && library == otherLibrary || browser != "" && browser == otherBrowser {
			together(t, pa, pb)
		}
	})
}

// together fails unless two payees of one host are blocked alike and, users
// apart, counted alike.
func together(t *testing.T, a, b tollgate.Payee) {
	t.Helper()
	for _, entry := range []string{a.String(), b.String(), "*.example"} {
		if !strings.Contains(entry, "@") && !strings.Contains(entry, "/") && blocked(t, entry, a) != blocked(t, entry, b) {
			t.Errorf("%s blocks one of %s and %s", entry, a, b)
		}
	}
	user := func(p tollgate.Payee) bool {
		return strings.Contains(p.String(), "@") && !strings.Contains(p.String(), "://")
	}
	if !user(a) && !user(b) && counterOf(t, a) != counterOf(t, b) {
		t.Errorf("%s and %s have two budgets", a, b)
	}
}

// hostless reports whether a canonical payee is an address.
func hostless(s string) bool {
	_, err := netip.ParseAddr(s)
	return err != nil && !strings.Contains(s, "://") && (strings.Contains(s, ":") || !strings.ContainsAny(s, ".@") || s[0] == '@')
}

var signed = regexp.MustCompile(`[/.@][0-9xX]*[+-][0-9a-fA-FxX]*$`)

// hostsOf is the host that a URL library and a browser find in a payee; what has
// no scheme is what follows one.
func hostsOf(s string) (library, browser string) {
	normal := func(host string) string {
		host = strings.TrimSuffix(strings.Trim(strings.ToLower(host), "[]"), ".")
		if addr, err := netip.ParseAddr(host); err == nil {
			host = addr.String()
		}
		return host
	}
	if s[0] == '@' { // a handle
		return "", ""
	}
	if u, err := url.Parse(s); err != nil || u.Scheme == "" || strings.Count(s, ":") > 1 && !strings.Contains(s, "/") {
		if strings.Contains(s, ":") && s[0] != '[' {
			s = "[" + s + "]"
		}
		s = "http://" + s
	}
	if u, err := url.Parse(s); err == nil {
		library = normal(u.Hostname())
	}
	if u, err := whatwg.Parse(s); err == nil && !signed.MatchString(s) { // it takes +0 and 0-0 for numbers, which the URL Standard does not
		browser = normal(u.Hostname())
	}
	return library, browser
}

func compiled(t testing.TB, semantics int64, constraints string) *tollgate.Perimeter {
	t.Helper()
	p, err := tollgate.PerimeterDocument{ID: "per_1", Version: 3, Semantics: semantics, Constraints: jsontext.Value(constraints)}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func blocked(t testing.TB, entry string, p tollgate.Payee) bool {
	t.Helper()
	text, err := jsontext.AppendQuote(nil, entry)
	if err != nil {
		t.Fatal(err)
	}
	d := compiled(t, 2, `{"payees_blocked":[`+string(text)+`]}`).Decide(tollgate.Money{Minor: 1, Currency: "EUR"}, p, time.Unix(0, 0))
	return d.Reason == tollgate.ReasonPayeeBlocked
}

func counterOf(t testing.TB, p tollgate.Payee) string {
	t.Helper()
	return compiled(t, 2, `{"frequency":[{"window":"day","count":1,"per":"payee"}]}`).Reservations("ma_1", tollgate.Money{Minor: 1, Currency: "EUR"}, p, time.Unix(0, 0))[0].Counter
}

func payee(t testing.TB, s string) tollgate.Payee {
	t.Helper()
	p, err := tollgate.ParsePayee(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The seeds hold what the issue names: each is refused, or is the host's. What
// names no host alone is listed, too.
func TestSpellingsOfOneHost(t *testing.T) {
	known := []string{
		"user@shop.example", "User@SHOP.example.", "user@localhost", "$&@SHOP.example",
		"@shop", "$alice", "tel:+4930123", "javascript:alert", "DE89370400440532013000",
	}
	for host, its := range map[string][]string{
		"sub.shop.example":      {"https://sub.shop.example/shop.example"},
		"evil.example":          {"https://evil.example/a.suppliers.example", "https://evil.example#@a.suppliers.example"},
		"xn--bcher-kva.example": {"https://xn--bcher-kva.example", "https://XN--BCHER-KVA.example/", "xn--bcher-kva.example."},

		"shop.example": {"SHOP.example.", "https://shop.example", "HTTP://Shop.Example.:80/a?b#c", "https://shop.example:8443/", "https://shop.example:0443/", "https://shop.example:"},
		"127.0.0.1":    {"https://127.0.0.1/"},
		"localhost":    {"LOCALHOST", "http://localhost:80/"},
		"::1":          {"[::1]", "http://[::1]:80/", "http://[0:0:0:0:0:0:0:1]/"},
		"2001:db8::7":  {"http://[2001:DB8::7]/", "http://[2001:db8:0::7]"},
	} {
		for _, s := range spellings {
			p, err := tollgate.ParsePayee(s)
			if want := s == host || slices.Contains(its, s); err == nil && (counterOf(t, p) == counterOf(t, payee(t, host))) != want {
				t.Errorf("%s and %s count together: want %t", s, host, want)
			} else if want && !blocked(t, host, p) {
				t.Errorf("%s does not block %s", host, s)
			}
		}
		known = append(append(known, host), its...)
	}
	for _, s := range spellings {
		if p, err := tollgate.ParsePayee(s); err == nil && !slices.Contains(known, s) {
			t.Errorf("%s is read as %s", s, p)
		}
	}
}
