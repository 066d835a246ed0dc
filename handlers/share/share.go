// Package share is the only one that knows how tenants divide what all of them
// use: each organization, and each client of it, has a share of a resource, and
// turns at it go round. A queue knows no clock: a tenant that asks for little is
// served after at most one turn of every other organization, however much they
// ask for.
package share

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrExhausted: the organization or the client has its whole share in use.
var ErrExhausted = errors.New("the share of a common resource is in use")

// Limits bound what is in use at the same time, waiting included; zero is no
// bound.
type Limits struct {
	Turns        int // of all organizations together; the others wait for theirs
	Beside       int // turns of one organization while others have had some lately
	Organization int
	Client       int
	// Notice is called with every turn that an organization has right after its own
	// while others have had some lately: before it goes on, theirs can be noticed.
	Notice func()
}

// Queue is a resource in shares. It is safe for concurrent use.
type Queue struct {
	limits Limits

	mu      sync.Mutex
	taken   int // turns
	in      map[string]*tenant
	waiting ring[*tenant]
	spare   []*tenant // that nobody is, for the next one
	given   int       // turns, so far
	latest  had       // the last turn
	other   had       // the last one of another organization than that
}

// had is which turn an organization had.
type had struct {
	name string
	turn int
}

// spares are kept for tenants that come and go with every request.
const spares = 64

// lately is how many turns ago another organization's turn counts as one that is
// beside.
const lately = 10_000

// tenant is an organization that uses the resource.
type tenant struct {
	name    string
	entered int
	turns   int // taken or waited for
	taken   int
	clients map[string]*client
	waiting ring[*client]
	spare   *client // that nobody is
}

// client is one of an organization's.
type client struct {
	name    string
	entered int
	turns   int
	waiting []chan bool // the longest wait first; each is told whether it is to notice others
	done    func()      // ends one of its turns
}

// New makes a Queue that nobody uses.
func New(limits Limits) *Queue {
	return &Queue{limits: limits, in: make(map[string]*tenant)}
}

// Acquire enters and waits for a turn. ErrExhausted comes at once, the error of
// ctx when it ends first. release gives both back and may be called once.
func (q *Queue) Acquire(ctx context.Context, organization, name string) (release func(), err error) {
	leave, err := q.Enter(organization, name)
	if err != nil {
		return nil, err
	}
	done, err := q.Turn(ctx, organization, name)
	if err != nil {
		leave()
		return nil, err
	}
	return func() { done(); leave() }, nil
}

// SetTurns changes how many turns there are, of all and of one organization
// beside others. Whoever has one keeps it.
func (q *Queue) SetTurns(all, beside int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limits.Turns, q.limits.Beside = all, beside
	for q.next() {
	}
}

// Enter counts a use against the shares without waiting: ErrExhausted when one
// of them is used up.
func (q *Queue) Enter(organization, name string) (leave func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t, c := q.of(organization, name)
	if full(t.entered, q.limits.Organization) || full(c.entered, q.limits.Client) {
		q.forget(t, c)
		return nil, ErrExhausted
	}
	t.entered++
	c.entered++
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		t.entered--
		c.entered--
		q.forget(t, c)
	}, nil
}

func full(used, limit int) bool { return limit > 0 && used >= limit }

// Turn waits for a turn, whoever has entered. Turns go round the organizations,
// and within one round its clients; a client's own come in their order.
func (q *Queue) Turn(ctx context.Context, organization, name string) (done func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	q.mu.Lock()
	t, c := q.of(organization, name)
	t.turns++
	c.turns++
	if q.free(t) {
		again := q.take(t)
		q.mu.Unlock()
		q.notice(again)
		return c.done, nil
	}
	mine := make(chan bool, 1)
	if c.waiting = append(c.waiting, mine); len(c.waiting) == 1 {
		if t.waiting.push(c); len(t.waiting) == 1 {
			q.waiting.push(t)
		}
	}
	q.mu.Unlock()
	select {
	case again := <-mine:
		q.notice(again)
		return c.done, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-mine: // it came in the last moment, and is somebody else's now
		q.pass(t)
	default:
		q.withdraw(t, c, mine)
	}
	q.end(t, c)
	return nil, context.Cause(ctx)
}

// end forgets a turn that is no longer wanted. q.mu is held.
func (q *Queue) end(t *tenant, c *client) {
	t.turns--
	c.turns--
	q.forget(t, c)
}

// Waiting is how many of an organization's turns are waited for.
func (q *Queue) Waiting(organization string) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.in[organization]; t != nil {
		for _, c := range t.waiting {
			n += len(c.waiting)
		}
	}
	return n
}

// free reports whether a tenant can have another turn. q.mu is held.
func (q *Queue) free(t *tenant) bool {
	return !full(q.taken, q.limits.Turns) && !(full(t.taken, q.limits.Beside) && q.beside(t))
}

// beside reports whether another tenant than t has had a turn lately. q.mu is
// held.
func (q *Queue) beside(t *tenant) bool {
	last := q.latest
	if last.name == t.name {
		last = q.other
	}
	return last.name != "" && q.given-last.turn < lately
}

func (q *Queue) notice(again bool) {
	if again && q.limits.Notice != nil {
		q.limits.Notice()
	}
}

// take gives a tenant a turn, and says whether it is right after its own, beside
// others. q.mu is held.
func (q *Queue) take(t *tenant) (again bool) {
	again = q.latest.name == t.name && q.beside(t)
	q.taken++
	t.taken++
	q.given++
	if q.latest.name != t.name {
		q.other = q.latest
	}
	q.latest = had{t.name, q.given}
	return again
}

// pass ends a tenant's turn and hands it to whose turn is next. q.mu is held.
func (q *Queue) pass(from *tenant) {
	q.taken--
	from.taken--
	for q.next() { // more than one, when nobody is beside it any more
	}
}

// next gives a turn to the first in the round that can have one. q.mu is held.
func (q *Queue) next() (given bool) {
	i := slices.IndexFunc(q.waiting, q.free)
	if i < 0 {
		return false
	}
	t := q.waiting[i]
	q.waiting = slices.Delete(q.waiting, i, i+1)
	again := q.take(t)
	c := t.waiting.pop()
	next := c.waiting[0]
	if c.waiting = c.waiting[1:]; len(c.waiting) > 0 {
		t.waiting.push(c)
	}
	if len(t.waiting) > 0 {
		q.waiting.push(t)
	}
	next <- again
	return true
}

// withdraw takes somebody who no longer waits out. q.mu is held.
func (q *Queue) withdraw(t *tenant, c *client, mine chan bool) {
	for i, one := range c.waiting {
		if one == mine {
			c.waiting = append(c.waiting[:i:i], c.waiting[i+1:]...)
			break
		}
	}
	if len(c.waiting) > 0 {
		return
	}
	t.waiting.remove(c)
	if len(t.waiting) == 0 {
		q.waiting.remove(t)
	}
}

// of finds who asks. q.mu is held.
func (q *Queue) of(organization, name string) (*tenant, *client) {
	t := q.in[organization]
	if t == nil {
		if n := len(q.spare); n > 0 {
			t, q.spare = q.spare[n-1], q.spare[:n-1]
		} else {
			t = &tenant{clients: make(map[string]*client)}
		}
		t.name = organization
		q.in[organization] = t
	}
	c := t.clients[name]
	if c == nil {
		if c = t.spare; c == nil {
			c = &client{}
			c.done = func() {
				q.mu.Lock()
				defer q.mu.Unlock()
				q.pass(t)
				q.end(t, c)
			}
		}
		t.spare = nil
		c.name = name
		t.clients[name] = c
	}
	return t, c
}

// forget drops who uses nothing any more, so that a Queue is as large as what is
// in use. q.mu is held.
func (q *Queue) forget(t *tenant, c *client) {
	if c.entered == 0 && c.turns == 0 && t.clients[c.name] == c {
		delete(t.clients, c.name)
		t.spare = c
	}
	if t.entered == 0 && t.turns == 0 && q.in[t.name] == t {
		delete(q.in, t.name)
		if len(q.spare) < spares {
			q.spare = append(q.spare, t)
		}
	}
}

// ring is who has a turn, in order.
type ring[T comparable] []T

func (r *ring[T]) push(one T) { *r = append(*r, one) }

func (r *ring[T]) pop() T {
	first := (*r)[0]
	*r = (*r)[1:]
	return first
}

func (r *ring[T]) remove(one T) {
	for i, other := range *r {
		if other == one {
			*r = append((*r)[:i:i], (*r)[i+1:]...)
			return
		}
	}
}
