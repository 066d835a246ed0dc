// Package egress knows where deliveries may go: which URLs an endpoint may
// have and which addresses may be dialled (interface §6). It is pure; the
// worker's dialler asks it about each address that it is about to connect to.
package egress

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tollgate"
)

// MaxURL is the most bytes that an endpoint's URL has.
const MaxURL = 2048

// ports are those that deliveries go to outside development.
var ports = []uint16{443, 8443}

// hostName is a name of RFC 1123 with at least two labels. A single label is
// completed by the machine's search list, so it means another host on every
// machine; a trailing dot would be a second spelling of a name.
var hostName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// numeric is a last label that makes a C library read the whole host as an
// IPv4 address, in decimal, octal or hexadecimal, with one to four parts.
var numeric = regexp.MustCompile(`^([0-9]+|0x[0-9a-f]*)$`)

// localNames are domains that never lead to the public Internet (RFC 6761,
// RFC 6762, RFC 7686, RFC 8375, RFC 9476 and usage).
var localNames = []string{
	"localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan", "home.arpa", "onion", "alt", "invalid",
}

// CheckURL refuses a URL that deliveries could not or must not go to: it has
// at most 2048 bytes of visible ASCII, is https on port 443 or 8443, and has no user
// information and no fragment; its host is a name of two labels or more, or a
// public address in its usual form. Any other spelling of an address is
// refused, whatever it means. Development also takes http, any port, localhost
// and loopback addresses. Names are not resolved: what they lead to is
// checked when it is dialled.
//
// The error is a *tollgate.Error with CodeWebhookURLInvalid.
func CheckURL(raw string, development bool) error {
	if len(raw) == 0 || len(raw) > MaxURL {
		return invalid("A URL has 1 to 2048 bytes.")
	}
	for i := range len(raw) {
		// RFC 3986 knows none of these; parsers disagree about each.
		if c := raw[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			return invalid("A URL holds only the characters of RFC 3986: visible ASCII without \\ \" < > ^ ` { | } (an international host name in punycode).")
		}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" {
		return invalid("This is not a URL such as https://shop.example/hooks.")
	}
	switch {
	case u.Scheme != "https" && !(development && u.Scheme == "http"):
		return invalid("The URL must begin with https://.")
	case strings.Contains(raw, "#"):
		return invalid("The URL must not have a fragment.")
	case u.User != nil || strings.Contains(authority(raw), "@"):
		return invalid("The URL must not hold a user name or password.")
	case strings.Contains(authority(raw), "%"):
		return invalid("The host must not be percent-encoded or have a zone.")
	}
	if err := checkPort(u, development); err != nil {
		return err
	}
	return checkHost(strings.ToLower(u.Host), strings.ToLower(u.Hostname()), development)
}

func checkPort(u *url.URL, development bool) error {
	text := u.Port()
	if text == "" {
		if strings.HasSuffix(u.Host, ":") {
			return invalid("The port is missing after the colon.")
		}
		return nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 || text[0] == '0' || (!development && !slices.Contains(ports, uint16(port))) {
		return invalid("Deliveries go to port 443 or 8443.")
	}
	return nil
}

// checkHost takes the host with its port and without, in lower case.
func checkHost(host, name string, development bool) error {
	const private = "The URL names an address or a host that deliveries must not go to."
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch {
	case name == "":
		return invalid("The URL has no host.")
	case strings.HasPrefix(host, "[") || strings.Contains(name, ":") || numeric.MatchString(last):
		a, err := netip.ParseAddr(name)
		// Only the usual form of an address is taken, so that no reader of
		// the URL can take it for another one.
		if err != nil || a.String() != name || strings.HasPrefix(host, "[") != a.Is6() || !Reachable(netip.AddrPortFrom(a, 443), development) {
			return invalid(private)
		}
		return nil
	case name == "localhost" || strings.HasSuffix(name, ".localhost"):
		if !development {
			return invalid(private)
		}
		return nil
	case len(name) > 253 || !hostName.MatchString(name):
		return invalid("The host must be a full host name (RFC 1123, without a trailing dot) or a public address.")
	}
	for _, local := range localNames {
		if name == local || strings.HasSuffix(name, "."+local) {
			return invalid(private)
		}
	}
	return nil
}

// authority is what stands between the slashes and the path.
func authority(raw string) string {
	_, rest, _ := strings.Cut(raw, "//")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

func invalid(message string) error {
	return &tollgate.Error{Code: tollgate.CodeWebhookURLInvalid, Param: "url", Message: message}
}
