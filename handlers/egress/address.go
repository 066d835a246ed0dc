package egress

import (
	"net/netip"
	"slices"
)

// globalV6 is all of IPv6 that is handed out as global unicast (RFC 4291
// §2.4). Whatever lies outside is refused without a list: loopback, mapped
// and compatible IPv4, NAT64, unique and link-local, multicast.
var globalV6 = netip.MustParsePrefix("2000::/3")

// refused are the special-purpose ranges (IANA registries, RFC 6890) within
// IPv4 and globalV6.
var refused = parsePrefixes(
	"0.0.0.0/8",         // this network, RFC 791
	"10.0.0.0/8",        // private, RFC 1918
	"100.64.0.0/10",     // carrier-grade NAT, RFC 6598
	"127.0.0.0/8",       // loopback, RFC 1122
	"168.63.129.16/32",  // a cloud's metadata and agent service that has a public address
	"169.254.0.0/16",    // link-local and metadata services, RFC 3927
	"172.16.0.0/12",     // private, RFC 1918
	"192.0.0.0/24",      // protocol assignments, RFC 6890; a cloud's metadata service
	"192.0.2.0/24",      // documentation, RFC 5737
	"192.31.196.0/24",   // AS112, RFC 7535
	"192.52.193.0/24",   // AMT, RFC 7450
	"192.88.99.0/24",    // 6to4 relays, RFC 7526
	"192.168.0.0/16",    // private, RFC 1918
	"192.175.48.0/24",   // AS112, RFC 7534
	"198.18.0.0/15",     // benchmarking, RFC 2544
	"198.51.100.0/24",   // documentation, RFC 5737
	"203.0.113.0/24",    // documentation, RFC 5737
	"224.0.0.0/4",       // multicast, RFC 5771
	"240.0.0.0/4",       // reserved and broadcast, RFC 1112
	"2001::/23",         // protocol assignments: Teredo, benchmarking, ORCHID
	"2001:db8::/32",     // documentation, RFC 3849
	"2002::/16",         // 6to4, RFC 3056
	"2620:4f:8000::/48", // AS112, RFC 7534
	"3fff::/20",         // documentation, RFC 9637
)

// Reachable reports whether deliveries may go to an address: only to what is
// public, and in development also to loopback. Any port but 443 and 8443 is
// refused outside development. IPv4 in the clothes of IPv6 is refused, and so
// is an address with a zone.
func Reachable(to netip.AddrPort, development bool) bool {
	a := to.Addr()
	switch {
	case !a.IsValid() || a.Zone() != "" || a.Is4In6():
		return false
	case development && a.IsLoopback():
		return true
	case !development && !slices.Contains(ports, to.Port()):
		return false
	case a.Is6() && !globalV6.Contains(a):
		return false
	}
	return !slices.ContainsFunc(refused, func(p netip.Prefix) bool { return p.Contains(a) })
}

func parsePrefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}
