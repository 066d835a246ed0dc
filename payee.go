package tollgate

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"golang.org/x/net/idna"
)

// maxPayee is how many bytes a payee has, as it is sent and as it is printed.
const maxPayee = 255

// Payee is whom a payment is for, in the one form that everything compares:
// perimeters, budgets, rules, searches, exports and answers (interface §11).
// The zero value is nobody.
type Payee struct {
	text  string // the canonical form
	kind  payeeKind
	user  string // of user@host
	host  string // canonical; an IPv6 address without brackets; "" of an address
	given string // as it was sent
}

type payeeKind byte

const (
	payeeAddress payeeKind = iota // such as acct:7 or DE89370400440532013000
	payeeHost
	payeeIP
	payeeUser // user@host
	payeeURL
)

// String is the canonical form, the one that is stored and answered.
func (p Payee) String() string { return p.text }

// counted is whom a payment counts for: a host in whichever form, a user of a
// host, or an address, without regard to case.
func (p Payee) counted() string {
	switch p.kind {
	case payeeAddress:
		return strings.ToLower(p.text)
	case payeeUser:
		return strings.ToLower(p.user) + "@" + p.host
	default:
		return p.host
	}
}

// KeptPayee is a payee as it is kept: the text of one, or nothing once that was erased, which
// is null in JSON.
type KeptPayee string

// MarshalJSON prints null for no payee.
func (p KeptPayee) MarshalJSON() ([]byte, error) { return orNull(string(p)) }

func orNull(text string) ([]byte, error) {
	if text == "" {
		return []byte("null"), nil
	}
	return jsontext.AppendQuote(nil, text)
}

// ParsePayee reads a payee of 1 to 255 printable ASCII characters. It is one of
//
//   - a host of two labels or more (RFC 1123): lower case, no trailing dot
//   - an IP address in the spelling of net/netip
//   - user@host, where the host may also be one label or an IP address
//   - an http or https URL: scheme and host in lower case, no default port, "/"
//     for an empty path; the rest is kept
//   - an address without a host, kept as it is: one word such as an account
//     number, or scheme:text
//
// Whatever a URL library, a browser or a person could read as another host is
// refused, not guessed. The error is an *Error with CodePayeeInvalid.
func ParsePayee(s string) (Payee, error) {
	if !printable(s) {
		return Payee{}, payeeInvalid("A payee is a host, an IP address, user@host, an http or https URL, or an address: 1 to 255 printable ASCII characters without spaces (an international host name in punycode).")
	}
	p, fault := parsePayee(s)
	if fault == "" && len(p.text) > maxPayee {
		fault = "A payee has at most 255 characters, also with the / that ends a host."
	}
	if fault != "" {
		return Payee{}, payeeInvalid(fault)
	}
	p.given = s
	return p, nil
}

func payeeInvalid(message string) *Error {
	return &Error{Code: CodePayeeInvalid, Param: "payee", Message: message}
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= maxPayee
}

// What can be wrong with a payee, and what to write instead.
const (
	faultHost      = "The payee's host is not a host name (RFC 1123, in punycode) or an IP address in its usual spelling, such as shop.example, 192.0.2.7 or 2001:db8::7."
	faultURL       = "The payee's URL must read the same everywhere: http:// or https://, a host and maybe a port, without a user, a backslash, percent-encoding in the host or dots for a folder in the path."
	faultUser      = "The payee's user@host has one @, behind letters, digits and .!$&'+-=_~, and nothing behind the host: no port, path or scheme."
	faultAmbiguous = "The payee can be read in two ways. Write a host alone, a whole http or https URL, user@host, or an address of one word or scheme:text without / \\ ? # and @."
	faultNumber    = "The payee is a number that is also an IP address. Write the address with its dots, or an account number with its scheme, such as acct:12345678."
)

func parsePayee(s string) (p Payee, fault string) {
	if name, ok := hostName(s); ok && strings.Contains(name, ".") && !numeric(name[strings.LastIndexByte(name, '.')+1:]) {
		return Payee{text: name, kind: payeeHost, host: name}, "" // what most are
	}
	colon := strings.IndexByte(s, ':')
	if colon > 0 && (strings.EqualFold(s[:colon], "http") || strings.EqualFold(s[:colon], "https")) {
		return parsePayeeURL(strings.ToLower(s[:colon]), s[colon+1:])
	}
	if addr, err := netip.ParseAddr(unbracketed(s)); colon >= 0 && err == nil {
		host, ok := canonicalIP(addr)
		if !ok {
			return p, faultHost
		}
		return Payee{text: host, kind: payeeIP, host: host}, ""
	}
	switch {
	case strings.ContainsAny(s, `/\?#`):
		return p, faultAmbiguous
	case strings.Contains(s, "@"):
		return parsePayeeUser(s)
	case colon >= 0:
		return parsePayeeOpaque(s, colon)
	case strings.Contains(s, "."):
		host, ip, ok := canonicalHost(s)
		if !ok || !ip {
			return p, faultHost
		}
		return Payee{text: host, kind: payeeIP, host: host}, ""
	case strings.ContainsAny(s, "%[]*"):
		return p, faultAmbiguous
	case isIPNumber(s):
		return p, faultNumber
	}
	return Payee{text: s}, ""
}

// parsePayeeOpaque reads scheme:text. What could be a host with a port is
// neither, and so is what a browser takes for a host without its slashes.
func parsePayeeOpaque(s string, colon int) (p Payee, fault string) {
	scheme, rest := s[:colon], s[colon+1:]
	for i := range len(scheme) {
		if c := scheme[i]; !letter(c) && (i == 0 || !digit(c) && c != '+' && c != '-') {
			return p, faultAmbiguous
		}
	}
	switch strings.ToLower(scheme) {
	case "", "ftp", "file", "ws", "wss":
		return p, faultAmbiguous
	}
	if rest == "" || digits(rest) && len(rest) <= 5 || strings.Contains(rest, "*") {
		return p, faultAmbiguous
	}
	return Payee{text: s}, ""
}

// parsePayeeUser reads user@host; a handle such as @alice is an address.
func parsePayeeUser(s string) (p Payee, fault string) {
	if name, ok := strings.CutPrefix(s, "@"); ok && name != "" && !isIPNumber(name) && strings.IndexFunc(name, notInHandle) < 0 {
		return Payee{text: s}, ""
	}
	user, host, _ := strings.Cut(s, "@")
	for i := range len(user) {
		if c := user[i]; !letter(c) && !digit(c) && strings.IndexByte("!$&'+-.=_~", c) < 0 {
			return p, faultUser
		}
	}
	if user == "" || strings.ContainsAny(host, "@:") && host[0] != '[' {
		return p, faultUser
	}
	name, _, ok := canonicalHost(host)
	if !ok {
		return p, faultHost
	}
	return Payee{text: user + "@" + bracketed(name), kind: payeeUser, user: user, host: name}, ""
}

// parsePayeeURL reads what is behind the scheme's colon.
func parsePayeeURL(scheme, s string) (p Payee, fault string) {
	rest, ok := strings.CutPrefix(s, "//")
	if !ok || strings.Contains(rest, `\`) || !percentEncoded(rest) {
		return p, faultURL
	}
	host, rest := rest, ""
	if i := strings.IndexAny(host, "/?#"); i >= 0 {
		host, rest = host[:i], host[i:]
	}
	if strings.ContainsAny(host, "@%") {
		return p, faultURL
	}
	host, port, ok := cutPort(scheme, host)
	if !ok {
		return p, faultURL
	}
	name, _, ok := canonicalHost(host)
	if !ok {
		return p, faultHost
	}
	if rest == "" || rest[0] != '/' {
		rest = "/" + rest
	}
	if hasDotSegment(rest) {
		return p, faultURL
	}
	return Payee{text: scheme + "://" + bracketed(name) + port + rest, kind: payeeURL, host: name}, ""
}

// cutPort takes the port off, which comes back as ":8443", or "" when it is the
// scheme's own.
func cutPort(scheme, s string) (host, port string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < strings.IndexByte(s, ']') || i < 0 {
		return s, "", true
	}
	host, port = s[:i], s[i+1:]
	if port == "" {
		return host, "", true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || !digits(port) {
		return "", "", false
	}
	if scheme == "http" && n == 80 || scheme == "https" && n == 443 {
		return host, "", true
	}
	return host, ":" + strconv.FormatUint(n, 10), true
}

// percentEncoded reports whether every % of a URL begins two hexadecimal digits.
func percentEncoded(s string) bool {
	for i := range len(s) {
		if s[i] == '%' && (i+2 >= len(s) || !hexadecimal(s[i+1]) || !hexadecimal(s[i+2])) {
			return false
		}
	}
	return true
}

// hasDotSegment reports whether a path has . or .., which browsers resolve and
// libraries keep.
func hasDotSegment(path string) bool {
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	if !strings.Contains(path, "/.") && !strings.Contains(path, "/%2") {
		return false
	}
	for segment := range strings.SplitSeq(path, "/") {
		switch strings.ReplaceAll(strings.ToLower(segment), "%2e", ".") {
		case ".", "..":
			return true
		}
	}
	return false
}

// canonicalHost is a host name of one label or more, or an IP address, IPv6 in
// brackets. A name whose last label is a number is an IPv4 address in every
// browser, and so it must be one.
func canonicalHost(s string) (host string, ip, ok bool) {
	if strings.HasPrefix(s, "[") {
		addr, err := netip.ParseAddr(unbracketed(s))
		if err != nil || !addr.Is6() {
			return "", false, false
		}
		host, ok = canonicalIP(addr)
		return host, true, ok
	}
	if last := s[strings.LastIndexByte(strings.TrimSuffix(s, "."), '.')+1:]; numeric(strings.TrimSuffix(last, ".")) {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			return "", false, false
		}
		host, ok = canonicalIP(addr)
		return host, true, ok
	}
	host, ok = hostName(s)
	return host, false, ok
}

// canonicalIP refuses what names an address of another family, or one only on
// this machine.
func canonicalIP(a netip.Addr) (string, bool) { return a.String(), !a.Is4In6() && a.Zone() == "" }

func unbracketed(s string) string {
	if len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']' {
		return s[1 : len(s)-1]
	}
	return s
}

func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// hostName is a name of RFC 1123 in lower case and without a trailing dot.
// Labels in punycode must say something that is written so and not otherwise.
func hostName(s string) (string, bool) {
	s = strings.ToLower(strings.TrimSuffix(s, "."))
	if len(s) == 0 || len(s) > 253 {
		return "", false
	}
	for label := range strings.SplitSeq(s, ".") {
		if len(label) == 0 || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", false
		}
		for i := range len(label) {
			if c := label[i]; !letter(c) && !digit(c) && c != '-' {
				return "", false
			}
		}
		if strings.HasPrefix(label, "xn--") {
			if ascii, err := idna.Lookup.ToASCII(label); err != nil || ascii != label {
				return "", false
			}
		}
	}
	return s, true
}

// numeric reports whether a label is what URLs take for a number: decimal or
// octal digits, or 0x and hexadecimal ones (URL Standard, host parsing).
func numeric(label string) bool {
	if len(label) >= 2 && label[0] == '0' && label[1]|0x20 == 'x' {
		for i := 2; i < len(label); i++ {
			if !hexadecimal(label[i]) {
				return false
			}
		}
		return true
	}
	return len(label) > 0 && digits(label)
}

// isIPNumber reports whether one word is an IPv4 address as one number.
func isIPNumber(s string) bool {
	if !numeric(s) {
		return false
	}
	if len(s) == 2 && s[1]|0x20 == 'x' {
		return true
	}
	base, number := 10, s
	switch {
	case len(s) > 2 && s[1]|0x20 == 'x':
		base, number = 16, s[2:]
	case len(s) > 1 && s[0] == '0':
		base, number = 8, s[1:]
	}
	_, err := strconv.ParseUint(number, base, 32)
	return err == nil
}

func notInHandle(r rune) bool { return !letter(byte(r)) && !digit(byte(r)) && r != '_' && r != '-' }

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func digit(c byte) bool { return c >= '0' && c <= '9' }

func hexadecimal(c byte) bool { return digit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
