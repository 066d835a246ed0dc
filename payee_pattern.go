package tollgate

import (
	"fmt"
	"slices"
	"strings"
)

// payeePatterns are the entries of a perimeter's list of payees: exact ones,
// *.suffix for every host below a name (the name itself not included) and
// *@host for the users of a host.
type payeePatterns struct {
	texts    map[string]bool // canonical payees, folded where case makes no difference
	hosts    map[string]bool // entries that are a host, in any form
	users    map[string]bool // hosts of *@host
	suffixes []string        // with the leading dot
	fold     bool
}

// payeePatternsOf reads a list of what is blocked, or of what is allowed. What
// earlier releases stored is read as they wrote it: addresses compare without
// regard to case, and an entry that is no payee any more matches none.
func payeePatternsOf(param string, list []string, blocking, earlier bool) (payeePatterns, error) {
	p := payeePatterns{texts: map[string]bool{}, hosts: map[string]bool{}, users: map[string]bool{}, fold: blocking || earlier}
	for _, entry := range list {
		if !p.add(entry, blocking) && !(earlier && earlierPattern(entry)) {
			return p, fmt.Errorf("%s: %s is neither a payee nor a pattern *.suffix or *@host", param, quoted(entry))
		}
	}
	return p, nil
}

func (p *payeePatterns) add(entry string, blocking bool) bool {
	if suffix, ok := strings.CutPrefix(entry, "*."); ok {
		host, ip, ok := canonicalHost(suffix)
		if ok && !ip {
			p.suffixes = append(p.suffixes, "."+host)
		}
		return ok && !ip
	}
	if host, ok := strings.CutPrefix(entry, "*@"); ok {
		name, _, ok := canonicalHost(host)
		if ok {
			p.users[name] = true
		}
		return ok
	}
	payee, err := ParsePayee(entry)
	if err != nil {
		return false
	}
	p.texts[p.folded(payee.text)] = true
	if blocking {
		switch payee.kind {
		case payeeHost, payeeIP:
			p.hosts[payee.host] = true
		case payeeAddress: // one label, such as localhost, may be a host as well
			p.hosts[strings.ToLower(payee.text)] = true
		}
	}
	return true
}

func (p *payeePatterns) folded(text string) string {
	if p.fold {
		return strings.ToLower(text)
	}
	return text
}

// block reports whether a payee is one of those that are blocked: in every form
// with that host, and in any case.
func (p *payeePatterns) block(payee Payee) bool {
	return p.texts[p.folded(payee.text)] || payee.host != "" && p.hosts[payee.host] || p.ofUsers(payee) || p.below(payee)
}

// allow reports whether a payee is one of those that are allowed: what names a
// host allows no user of it, and a host allows no URL.
func (p *payeePatterns) allow(payee Payee) bool {
	return p.texts[p.folded(payee.text)] || p.ofUsers(payee) ||
		(payee.kind == payeeHost || payee.kind == payeeURL) && p.below(payee)
}

func (p *payeePatterns) ofUsers(of Payee) bool { return of.kind == payeeUser && p.users[of.host] }

// below compares whole labels: a suffix begins with a dot.
func (p *payeePatterns) below(payee Payee) bool {
	return slices.ContainsFunc(p.suffixes, func(suffix string) bool {
		return len(payee.host) > len(suffix) && strings.HasSuffix(payee.host, suffix)
	})
}
