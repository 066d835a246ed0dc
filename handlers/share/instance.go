package share

import (
	"runtime"
	"time"
)

// Use is what a route uses of what all tenants share.
type Use int

const (
	UsesLittle Use = iota // of everything
	Quotes                // which ask Redis nothing, as a rule
	Compares              // prices before and after a change of rules
	Publishes             // its turn is that at examining
	Waits                 // listEvents says what for
	Pages                 // a short list: one turn
	Searches              // a list that may have to look at much: a turn for each batch
	Previews              // of cutoffs; their turns are those of searches
	Downloads             // of export files; their turns are those of searches, too
)

// Instance is the resources of an instance that its tenants divide. Whoever has
// its whole share in use is refused at once; turns go round the organizations.
type Instance struct {
	distance   distance
	Network    *Network
	Holds      Holds
	Entered    map[Use]*Queue
	Carried    map[Use]*Queue // requests that are being carried out; the others of their organization wait
	Reads      []*Queue       // by lane of the Store: one batch after the other
	Refusals   *Queue
	Processors *Queue // requests that are read, and quotes until they are answered
	Sending    *Queue // pieces of files
	Polls      *Queue // listings of events that wait
	Examining  *Queue // modules that are to be published
	Compiling  *Queue // modules that somebody asks for and that are not loaded
}

// Two at a time: Redis answers one while the other's answer is read. With more,
// one organization's batches stand between another's and its turn.
const readsAtOnce = 2

// The other cores are for those who ask for something else (cmd/tollgate says the
// same of the processes that examine).
const examinedAtOnce = 1

// What one organization has carried out at once beside others, for each core:
// computing, or writing to Redis and waiting for it half of the time. More stand
// in front of the others' in the scheduler, among the connections and in Redis.
// No organization waits here for another, so whoever Redis does not answer holds
// up nobody else, and one that is alone has all of the instance.
const (
	computedEach = 1
	writtenEach  = 2
)

// What a request computes for one round trip to Redis, and what Redis does for
// one batch of a list. While a distant Redis is on its way, others can.
const (
	computingATrip = 500 * time.Microsecond
	readingATrip   = time.Millisecond
)

// NewInstance are those of an instance whose Store has so many lanes.
func NewInstance(lanes int) *Instance {
	cores := runtime.GOMAXPROCS(0)
	each := func(turns int) *Queue { return New(Limits{Beside: turns}) }
	network := NewNetwork()
	notice := network.Noticed
	// One core is the others': a request that comes while all compute is noticed late.
	leaving := Limits{Beside: max(1, cores-1), Notice: notice}
	lists := New(Limits{Organization: 64, Client: 32})
	examining := New(Limits{Turns: examinedAtOnce, Organization: 8, Client: 4})
	s := &Instance{
		Network: network,
		Entered: map[Use]*Queue{
			Pages: lists, Searches: lists,
			Previews:  New(Limits{Organization: 16, Client: 8}),
			Downloads: New(Limits{Organization: 32, Client: 16}),
			Publishes: examining,
		},
		Carried: map[Use]*Queue{
			UsesLittle: each(0), Quotes: each(0), Waits: each(0), Searches: each(0),
			Compares:  each(max(1, cores/2)), // which may have to compile, too
			Publishes: each(computedEach * cores), Previews: each(computedEach * cores),
		},
		Refusals:   each(0),
		Processors: New(leaving),
		Sending:    New(leaving),
		Polls:      New(Limits{Organization: 512, Client: 128}),
		Examining:  examining,
		Compiling:  New(Limits{Turns: cores, Organization: 256}),
	}
	for range lanes {
		s.Reads = append(s.Reads, New(Limits{Notice: notice}))
	}
	s.stretch(0)
	return s
}

// Trip notes how long a round trip to Redis took, and stretches the shares by it.
func (s *Instance) Trip(took time.Duration) { s.stretch(s.distance.add(took)) }

// stretch has as much more under way at once as a round trip to Redis takes
// longer than computing: what waits for a distant Redis stands in front of nobody.
func (s *Instance) stretch(trip time.Duration) {
	cores := runtime.GOMAXPROCS(0)
	more := 2 * int(trip/computingATrip)
	s.Carried[Quotes].SetTurns(0, (computedEach+more)*cores)
	for _, queue := range []*Queue{s.Carried[UsesLittle], s.Carried[Waits], s.Carried[Searches], s.Refusals} {
		queue.SetTurns(0, (writtenEach+more)*cores)
	}
	for _, lane := range s.Reads {
		lane.SetTurns(readsAtOnce+int(trip/readingATrip), 0)
	}
}

// distance is how far away Redis is: the quickest of the round trips that were
// measured lately. A busy Redis is not a distant one.
type distance struct {
	least, before time.Duration
	trips         int // that least is of
}

// distanceTrips is how many round trips are remembered at least: a minute's, when
// one is made every second.
const distanceTrips = 60

// add notes a round trip and returns the distance.
func (d *distance) add(trip time.Duration) time.Duration {
	if d.trips == distanceTrips {
		d.before, d.least, d.trips = d.least, 0, 0
	}
	if d.trips == 0 || trip < d.least {
		d.least = trip
	}
	d.trips++
	if d.before != 0 {
		return min(d.least, d.before)
	}
	return d.least
}
