package connection

import "tollgate/handlers/share"

// owner is who made the last request on a connection.
type owner struct{ org, client string }

// Belongs notes who makes requests on the connection.
func (c *Conn) Belongs(org, client string) {
	if was := c.owner.Load(); was == nil || was.org != org || was.client != client {
		c.owner.Store(&owner{org, client})
	}
}

// arrives waits until the processors are for the request that has begun to
// arrive. Beside others an organization leaves them a core, and what it has to
// wait with waits here, where it does not keep anybody else's from being noticed.
// Whose it is says the request before it: with a proxy that sends several
// tenants' requests on one connection, some wait in another's line.
func (c *Conn) arrives() {
	o := c.owner.Load()
	if o == nil || c.answering.Load() || c.turn.Load() != nil {
		return
	}
	done, err := c.host.Turn(o.org, o.client)
	if err != nil { // what still comes is carried out at once
		return
	}
	c.turn.Store(share.Soon(done)) // a client may send the rest of its request slowly
}

// HasTurn reports whether the request has its turn since it arrived.
func (c *Conn) HasTurn() bool { return c.turn.Load() != nil }

// Computed ends the turn of a request that has been answered, or waits for
// something else.
func (c *Conn) Computed() {
	c.turn.Swap(nil).End()
}
