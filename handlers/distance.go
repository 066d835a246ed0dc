package handlers

import "time"

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
