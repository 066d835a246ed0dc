// Package rate says how many requests a client may send: the policies of an instance,
// what it counts by itself, and the headers in which a client reads it
// (draft-ietf-httpapi-ratelimit-headers-11).
package rate

import (
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"tollgate"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/gcra"
)

// Policies of interface §8, and none at all.
var (
	Usual     = parsed("tokens=60/m,writes=100/s,reads=200/s,quotes=200/s")
	Unlimited = parsed("off")
)

func parsed(text string) gcra.Limits {
	limits, err := gcra.Parse(text)
	if err != nil {
		panic(err) // it stands above
	}
	return limits
}

var (
	// refused is how many requests of a client may be refused before they are counted
	// otherwise; each leaves an entry in the audit record.
	refused = gcra.Limit{Rate: 200, Period: time.Second, Burst: 400}
	// forged is how many signatures of an address may turn out to be wrong: each costs
	// a verification. Where nothing is limited, this is not, either.
	forged = gcra.Limit{Rate: 20, Period: time.Second, Burst: 40}
)

// buckets bounds how many clients, and how many addresses, an instance keeps in mind.
const buckets = 10_000

// Limiter is what an instance counts by itself. Many goroutines use it.
type Limiter struct {
	limits  gcra.Limits
	clock   func() time.Time
	here    *gcra.Limiter // what Redis does not count, and what it has refused
	address *gcra.Limiter
	forged  gcra.Limit // of an address
}

// New makes the limiter of an instance; without limits it has the usual ones, and what
// they do not set is as usual.
func New(limits gcra.Limits, clock func() time.Time) *Limiter {
	l := &Limiter{limits: limits.Over(Usual), clock: clock, here: gcra.NewLimiter(buckets), address: gcra.NewLimiter(buckets)}
	for _, kind := range gcra.Kinds {
		if !l.limits[kind].None() {
			l.limits[gcra.Refused], l.forged = refused, forged
		}
	}
	return l
}

// Count is a request of a client under a grant (nil: it is not known) that counts in the
// limit of a kind: the grant's own, or the client's. nil: there is none.
func (l *Limiter) Count(kind gcra.Kind, client string, grant *accounts.Grant) *gcra.Count {
	c := &gcra.Count{Kind: kind, Of: client, Limit: l.limits[kind]}
	if grant != nil {
		if limit, set := grant.Limits[kind]; set {
			c.Limit = limit
		}
		if limit, own := grant.Own[kind]; own {
			c.Limit, c.Of = limit, grant.ID
		}
	}
	if c.Limit.None() {
		return nil
	}
	return c
}

// Take counts a request here. The error is CodeRateLimited.
func (l *Limiter) Take(c *gcra.Count) error {
	if c == nil {
		return nil
	}
	return l.answer(c, l.here.Take(bucket(c), c.Limit, l.clock()))
}

// Refuse refuses what Redis would refuse, as far as it has said so: a flood does not
// reach it. The error is CodeRateLimited.
func (l *Limiter) Refuse(c *gcra.Count) error {
	if c == nil {
		return nil
	}
	if s := l.here.Look(bucket(c), c.Limit, l.clock()); s.Refused() {
		return l.answer(c, s)
	}
	return nil
}

// Refused notes that Redis has refused a request.
func (l *Limiter) Refused(c *gcra.Count) {
	if s, ok := c.State(); ok && s.Refused() {
		l.here.Empty(bucket(c), c.Limit, l.clock(), s.Retry)
	}
}

// Guard refuses to verify another signature of an address that has sent too many wrong
// ones. It returns the count that says when it may go on.
func (l *Limiter) Guard(from netip.Prefix) (*gcra.Count, error) {
	if l.forged.None() || !from.IsValid() {
		return nil, nil
	}
	if s := l.address.Look(from.String(), l.forged, l.clock()); s.Refused() {
		c := new(gcra.Count)
		return c, l.answer(c, s)
	}
	return nil, nil
}

// Forged notes that a signature was wrong.
func (l *Limiter) Forged(from netip.Prefix) {
	if from.IsValid() && !l.forged.None() {
		l.address.Take(from.String(), l.forged, l.clock())
	}
}

func (l *Limiter) answer(c *gcra.Count, s gcra.State) error {
	c.Answer(s)
	if !s.Refused() {
		return nil
	}
	return &tollgate.Error{Code: tollgate.CodeRateLimited, Message: "These are more requests than the rate limit allows. Send the next one after Retry-After."}
}

func bucket(c *gcra.Count) string { return c.Of + "/" + string(c.Kind) }

// Headers tell a client of the limit that its request has counted in, and what it has
// left; nothing where that is not known.
func Headers(h http.Header, c *gcra.Count) {
	s, known := c.State()
	if !known || c.Kind == "" {
		return
	}
	h.Set("RateLimit-Policy", fmt.Sprintf(`"%s";q=%d;w=%d`, c.Kind, c.Limit.Burst, gcra.Seconds(c.Limit.Window())))
	h.Set("RateLimit", fmt.Sprintf(`"%s";r=%d;t=%d`, c.Kind, s.Remaining, gcra.Seconds(s.Reset)))
}
