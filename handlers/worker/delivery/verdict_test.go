package delivery

import (
	"testing"
	"time"

	"tollgate"
)

func TestJudge(t *testing.T) {
	b := DefaultBackoff
	const now = tollgate.Instant(1_800_000_000_000)
	answer := func(status int, retryAfter time.Duration) Sent {
		return Sent{Response: &tollgate.AttemptResponse{StatusCode: status}, RetryAfter: retryAfter}
	}
	late := Sent{TimedOut: true, Error: &tollgate.AttemptError{Code: "timeout"}}
	broken := Sent{Response: &tollgate.AttemptResponse{StatusCode: 200}, Error: &tollgate.AttemptError{Code: "response_invalid"}}
	for name, c := range map[string]struct {
		run    int
		sent   Sent
		random float64
		state  tollgate.DeliveryState
		wait   time.Duration
		pause  time.Duration
		reason string
	}{
		"200":                                   {1, answer(200, 0), 0, tollgate.DeliverySucceeded, 0, 0, ""},
		"299":                                   {9, answer(299, time.Hour), 0, tollgate.DeliverySucceeded, 0, 0, ""},
		"199":                                   {1, answer(199, 0), .5, tollgate.DeliveryRetrying, 5 * time.Second, 0, "http_199"},
		"300":                                   {1, answer(300, 0), .5, tollgate.DeliveryRetrying, 5 * time.Second, 0, "http_300"},
		"404, the least jitter":                 {2, answer(404, 0), 0, tollgate.DeliveryRetrying, 4 * time.Minute, 0, "http_404"},
		"500, nearly the most":                  {2, answer(500, 0), .75, tollgate.DeliveryRetrying, 330 * time.Second, 0, "http_500"},
		"half an answer":                        {1, broken, .5, tollgate.DeliveryRetrying, 5 * time.Second, 0, "response_invalid"},
		"410":                                   {1, answer(410, 0), .5, tollgate.DeliveryFailed, 0, 0, "http_410"},
		"429":                                   {1, answer(429, 0), .5, tollgate.DeliveryRetrying, time.Minute, time.Minute, "http_429"},
		"502":                                   {1, answer(502, 0), .5, tollgate.DeliveryRetrying, time.Minute, time.Minute, "http_502"},
		"503":                                   {2, answer(503, 0), .5, tollgate.DeliveryRetrying, 5 * time.Minute, time.Minute, "http_503"},
		"504":                                   {1, answer(504, 0), .5, tollgate.DeliveryRetrying, time.Minute, time.Minute, "http_504"},
		"a time-out":                            {1, late, .5, tollgate.DeliveryRetrying, time.Minute, time.Minute, "timeout"},
		"Retry-After below the schedule":        {3, answer(503, time.Second), .5, tollgate.DeliveryRetrying, 30 * time.Minute, time.Minute, "http_503"},
		"Retry-After above the schedule":        {1, answer(503, time.Hour), .5, tollgate.DeliveryRetrying, time.Hour, time.Hour, "http_503"},
		"Retry-After without a reason to pause": {1, answer(500, time.Hour), .5, tollgate.DeliveryRetrying, time.Hour, 0, "http_500"},
		"a huge Retry-After":                    {1, answer(429, 1e6*time.Hour), .5, tollgate.DeliveryRetrying, 24 * time.Hour, 24 * time.Hour, "http_429"},
		"the last attempt":                      {10, answer(500, 0), .5, tollgate.DeliveryFailed, 0, 0, "http_500"},
		"the last attempt, 503":                 {10, answer(503, 0), .5, tollgate.DeliveryFailed, 0, time.Minute, "http_503"},
	} {
		o := verdict(b, c.run, c.sent, now, c.random)
		at := func(d time.Duration) tollgate.Instant {
			if d == 0 {
				return 0
			}
			return now.Add(d)
		}
		if o.State != c.state || o.Next != at(c.wait) || o.Pause != at(c.pause) || o.Reason != c.reason {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// Retry-After comes in two forms, and from anybody.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "120": 2 * time.Minute, "007": 7 * time.Second, "-1": 0, "1.5": 0, "soon": 0, "+5": 0, " ": 0,
		"99999999999999999999999999": 366 * 24 * time.Hour, "9223372036854775807": 366 * 24 * time.Hour,
		"Sat, 21 Nov 2026 12:01:00 GMT": time.Minute, "Sat, 21 Nov 2026 11:59:00 GMT": 0, "Fri, 31 Dec 9999 23:59:59 GMT": 366 * 24 * time.Hour,
		"Saturday, 21-Nov-26 12:00:30 GMT": 30 * time.Second,
	} {
		if got := RetryAfter(text, now); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
