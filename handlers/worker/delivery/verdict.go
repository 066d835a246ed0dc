package delivery

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"tollgate"
	"tollgate/rediskv/webhooks"
)

// slowDown are the statuses with which an endpoint asks for time.
var slowDown = []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// slow is how long an attempt takes that must not have many beside it: an
// endpoint that answers late holds up slots that others could use.
const slow = time.Second

// verdict says what an attempt means for its delivery and its endpoint
// (interface §6). run counts the attempts of this run of the schedule from 1;
// random is in [0, 1).
func verdict(b Backoff, run int, s Sent, now tollgate.Instant, random float64) webhooks.Outcome {
	var o webhooks.Outcome
	if s.Response != nil {
		o.StatusCode = s.Response.StatusCode
	}
	o.Own, o.Unheard = s.Own, s.TimedOut || s.Error != nil && s.Error.Code == "response_invalid"
	if s.Succeeded() {
		o.State, o.Slow = tollgate.DeliverySucceeded, s.Took >= slow
		return o
	}
	o.State, o.Reason = tollgate.DeliveryFailed, "http_"+strconv.Itoa(o.StatusCode)
	if s.Error != nil {
		o.Reason = s.Error.Code
	}
	asked := min(s.RetryAfter, b.MaxRetryAfter)
	wait, more := b.Next(run, random)
	wait = max(wait, asked)
	if s.TimedOut || slices.Contains(slowDown, o.StatusCode) {
		pause := max(b.SlowDown, asked)
		o.Pause = now.Add(pause)
		wait = max(wait, pause)
	}
	if more && !gone(o) {
		o.State, o.Next = tollgate.DeliveryRetrying, now.Add(wait)
	}
	return o
}

// Bounds of the wait after a fault of this service's own.
const (
	soonestAgain = 5 * time.Second
	latestAgain  = 30 * time.Minute
)

// again is the wait after a fault of this service's own. It grows with the
// attempt's number, because nobody knows when the fault is mended, and has no
// end: the delivery is not to pay for it.
func again(b Backoff, number int, random float64) time.Duration {
	wait, _ := b.Next(min(number, len(b.Waits)-1), random)
	return min(max(wait, soonestAgain), latestAgain)
}

// gone reports whether the endpoint says that it will never take events again.
func gone(o webhooks.Outcome) bool { return o.StatusCode == http.StatusGone }
