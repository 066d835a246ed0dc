// Package testkit is what tests of the service begin with: an organization, the
// Store that knows it, a clock that only the test moves, payments, and waiting.
package testkit

import (
	"cmp"
	"crypto/rand"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
)

// Clock is a clock that tests move.
type Clock struct{ nanos atomic.Int64 }

// NewClock is a clock that stands at noon, UTC, of Saturday 2026-11-21.
func NewClock() *Clock {
	c := new(Clock)
	c.Set(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	return c
}

// Now is where the clock stands, in UTC.
func (c *Clock) Now() time.Time { return time.Unix(0, c.nanos.Load()).UTC() }

// Set puts the clock somewhere else.
func (c *Clock) Set(at time.Time) { c.nanos.Store(at.UnixNano()) }

// Advance lets time pass.
func (c *Clock) Advance(d time.Duration) { c.nanos.Add(int64(d)) }

// Open opens a Store that ends with the test. It leaves a machine with much to do
// its time, unless the options say otherwise.
func Open(t testing.TB, o rediskv.Options) *store.Store {
	t.Helper()
	o.Entropy, o.Timeout = rand.Reader, cmp.Or(o.Timeout, redistest.Patience)
	var s *store.Store
	Eventually(t, "the store is open", func() (open bool) { // a busy machine may need longer than Timeout for all scripts
		var err error
		if s, err = store.Open(t.Context(), o); err == nil {
			return true
		}
		if e, is := errors.AsType[*tollgate.Error](err); !is || e.Code != tollgate.CodeStoreUnavailable {
			t.Fatal(err)
		}
		t.Log(err)
		return false
	})
	t.Cleanup(func() { s.Close() })
	s.Histories.Settled() // what is written from now on is the test's
	return s
}

// Eventually waits for what has to come, a minute at most.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	Within(t, what, time.Minute, holds)
}

// Within waits for what has to come within a time.
func Within(t testing.TB, what string, within time.Duration, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// EUR is an amount in cents.
func EUR(minor int64) tollgate.Money { return tollgate.Money{Minor: minor, Currency: "EUR"} }

// Payee reads a payee.
func Payee(t testing.TB, text string) tollgate.Payee {
	t.Helper()
	p, err := tollgate.ParsePayee(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Answer is the answer to a client that an object is.
func Answer(t testing.TB, status int, of any) rediskv.Answer {
	t.Helper()
	body, err := json.Marshal(of, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return rediskv.Answer{Status: status, Location: "/v1/x", Body: body}
}

// Code is the code of an error meant for a client, or its text.
func Code(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*tollgate.Error](err); ok {
		return string(e.Code)
	}
	return err.Error()
}
