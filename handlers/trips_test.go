package handlers_test

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"tollgate/handlers"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
)

// trip is how long a round trip to Redis takes in a bubble.
const trip = 40 * time.Millisecond

func TestTripsExplore(t *testing.T) {
	w := newWorld(t)
	operations := w.operations()
	w.token("all", "")
	for _, o := range operations {
		req := w.request(o.method, o.path, o.text(nil), o.headers()...)
		synctest.Test(t, func(t *testing.T) {
			i := *w
			i.t = t
			i.store = openWith(t, rediskv.Options{URL: w.redis, Clock: w.service, Dial: redistest.Far(trip).Dial})
			server, err := handlers.New(i.config())
			h := must(t, server, err).Handler()
			check(t, i.store.Ping(t.Context()))
			begun := time.Now()
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, req.WithContext(t.Context()))
			t.Logf("%-22s %-6s %-50s first %d  %d", o.id, o.method, o.path, time.Since(begun)/trip, rec.Code)
		})
	}
}
