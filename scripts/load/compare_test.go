package main

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"tollgate/rediskv"
)

// Every kind of request is answered, or there is nothing to ask for: a Redis whose clock
// stays as it is has no payouts.
func TestCompare(t *testing.T) {
	var urls [2]string
	for i, payments := range []int{60, 200} {
		urls[i] = "redis://" + miniredis.RunT(t).Addr()
		m, err := open(t.Context(), rediskv.Options{URL: urls[i]}, options{payments: payments, clients: 8, seed: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = m.fill(t.Context())
		m.close()
		if err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := compare(t.Context(), &out, urls[0], urls[1], 3, options{clients: 8, seed: 1}); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(rows) != len(requests)+1 {
		t.Fatalf("%d rows of %d kinds:\n%s", len(rows)-1, len(requests), out.String())
	}
	for i, asked := range requests {
		none := strings.Contains(rows[i+1], errNone.Error())
		if !strings.HasPrefix(rows[i+1], asked.name+" ") || none != (asked.name == "payout by id") {
			t.Errorf("%q: %s", asked.name, rows[i+1])
		}
	}
}
