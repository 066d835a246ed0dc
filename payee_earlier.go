package tollgate

import (
	"regexp"
	"strings"
)

// Until payees had one form, a release kept whatever was sent and took the host
// out of it where it needed one. What it stored is still there: payments with
// their text, records of repeated requests, and the counters of windows that
// have not ended.

// earlierHost is a host name as it was known then.
var earlierHost = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.?$`)

// EarlierPayee is the text that earlier releases stored for a payee, and whether
// they took it. Searches and repeated requests still find it.
func EarlierPayee(s string) (string, bool) {
	if !printable(s) {
		return "", false
	}
	if earlierHost.MatchString(s) {
		s = strings.ToLower(strings.TrimSuffix(s, "."))
	}
	return s, true
}

// Earlier is the text that earlier releases stored for this payee.
func (p Payee) Earlier() string {
	if p.kind == payeeHost {
		return p.text
	}
	text, _ := EarlierPayee(p.given)
	return text
}

// SamePayee reports whether two texts, of whichever release, name one payee.
func SamePayee(a, b string) bool { return a == b || PayeeText(a) == PayeeText(b) }

// PayeeText is the canonical form of a stored text, or the text if it has none.
func PayeeText(s string) string {
	if p, err := ParsePayee(s); err == nil {
		return p.text
	}
	return s
}

// earlierPattern reports whether earlier releases took an entry of a list.
func earlierPattern(entry string) bool {
	suffix, wild := strings.CutPrefix(entry, "*")
	_, ok := EarlierPayee(strings.TrimPrefix(suffix, "."))
	return ok && !strings.Contains(suffix, "*") && (!wild || strings.HasPrefix(suffix, "."))
}

// earlierCounted is whom a payment counted for.
func (p Payee) earlierCounted() string {
	if p.kind == payeeHost {
		return p.host
	}
	user, host := earlierParts(strings.ToLower(p.given))
	return user + host
}

// earlierScheme is what a URL began with. A name with a dot before a colon was
// a host, for it may have an empty port.
var earlierScheme = regexp.MustCompile(`^(?i:https?:|[a-z][a-z0-9+-]*:[/\\])?[/\\]*`)

// earlierParts are the user with its @, which an address such as user@bank has
// and a URL has not, and the host.
func earlierParts(payee string) (user, host string) {
	if !strings.ContainsAny(payee, `:/\?#@`) {
		return "", strings.TrimRight(payee, ".")
	}
	scheme := len(earlierScheme.FindString(payee))
	host = payee[scheme:]
	if i := strings.IndexAny(host, `/\?#`); i >= 0 {
		host = host[:i]
	}
	at := strings.LastIndexByte(host, '@') + 1
	user, host = host[:at], host[at:]
	if scheme > 0 {
		user = ""
	}
	if i := strings.IndexByte(host, ':'); i >= 0 && strings.Trim(host[i:], ":.0123456789") == "" {
		host = host[:i]
	} else if i := strings.IndexByte(host, ']'); i >= 0 { // an IPv6 address
		host = host[:i+1]
	}
	return user, strings.TrimRight(host, ".")
}
