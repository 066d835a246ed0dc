package simulate

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"tollgate/scripts/simulate/draw"
	"tollgate/scripts/simulate/story"
)

// about asks the service for something about a token, until it answers with 200.
func (c *client) about(path, token string) (said answer, known bool) {
	x := c.world
	c.mu.Lock()
	c.sends++
	number := c.sends
	c.mu.Unlock()
	for try := range tries {
		if x.ctx.Err() != nil {
			return said, false
		}
		n := x.wire.chance.Of(c.name, path, number, try)
		if try > 0 {
			pause(x.ctx, draw.Between(n>>8, 50*time.Millisecond, time.Duration(min(try, 10))*500*time.Millisecond))
		}
		var err error
		said, err = c.assert(x.serving(n), path, url.Values{"token": {token}}, n)
		if err == nil && said.status == http.StatusInternalServerError {
			x.judge.wrong("POST %s is answered %d %s", path, said.status, said.body)
		}
		if err == nil && said.status == http.StatusOK {
			return said, true
		}
	}
	x.wire.tell("%s gives up %s: %d %s", c.name, path, said.status, said.body)
	return said, false
}

// own is a token that no other client has; empty: it got none.
func (c *client) own() (token string) {
	x := c.world
	for try := 0; try < tries && token == "" && x.ctx.Err() == nil; try++ {
		n := x.wire.chance.Of(c.name, "own", try)
		if try > 0 {
			pause(x.ctx, draw.Between(n>>8, 50*time.Millisecond, time.Duration(min(try, 10))*500*time.Millisecond))
		}
		token, _, _ = c.issued(x.serving(n), n)
	}
	return token
}

// revoke has a client ask for a token of its own and revoke it. Once that is acknowledged,
// it looks now and then whether the token still works.
func (x *world) revoke(o *outcome) {
	c := &client{world: x, name: o.name()}
	if o.token = c.own(); o.token == "" {
		return
	}
	if said, known := c.about("/oauth2/introspect", o.token); known && !active(said) && x.inTime(said.by, o.token) {
		if _, ever := x.loss.back(); !ever {
			x.judge.wrong("%s has a token, and %s says that it is not active", o.name(), said.by.name)
		}
	}
	x.ask(o)
	said, known := c.about("/oauth2/revoke", o.token)
	// By a clock that is wrong the token may have expired: then there is nothing to revoke.
	x.take(o)(said, known && x.inTime(said.by, o.token))
	x.wire.tell("%s %s: %d", o.name(), o.Want, o.status)
	for _, wait := range []time.Duration{0, time.Second, 10 * time.Second, time.Minute} {
		pause(x.ctx, wait)
		x.holdRevoked(c, o)
	}
}

// active is what introspection says of a token (RFC 7662).
func active(said answer) bool {
	var is struct {
		Active bool `json:"active"`
	}
	return json.Unmarshal(said.body, &is) == nil && is.Active
}

// holdRevoked: a token whose revocation was acknowledged works nowhere, unless Redis may
// have forgotten that.
func (x *world) holdRevoked(c *client, o *outcome) {
	for _, place := range story.Places[:2] {
		r := request("GET", "/v1/organizations/"+organization, "")
		r.Header.Set("Authorization", "Bearer "+o.token)
		p := x.who(place)
		said, err := x.exchange(p, r, x.wire.chance.Of(c.name, "revoked", place, uint64(x.wire.now().UnixNano())))
		if err == nil && said.status < 400 && o.made() {
			x.judge.wrong("%s has revoked its token at %s, and with it %s answers %d", o.name(), o.acked.Format(clock), p.name, said.status)
		}
	}
	if said, known := c.about("/oauth2/introspect", o.token); known && active(said) && o.made() {
		x.judge.wrong("%s has revoked its token at %s, and %s says that it is active", o.name(), o.acked.Format(clock), said.by.name)
	}
}

// judgeRevoked looks at all that were revoked.
func (x *world) judgeRevoked() {
	c := &client{world: x, name: "revoked"}
	for _, o := range x.judge.wants {
		if o.Kind == "revoke" && o.made() {
			x.holdRevoked(c, o)
		}
	}
}
