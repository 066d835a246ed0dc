package handlers_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"tollgate/rediskv/redistest"
)

// TestAllocations counts what a request of the service allocates, the recorder of its
// answer and, of a create, the Redis of this process included: a bound that is passed is
// somebody's to explain. What takes time on one machine takes it on all.
func TestAllocations(t *testing.T) {
	if redistest.RaceDetector {
		t.Skip("pools lose what they are given")
	}
	i := start(t)
	i.authenticate()
	n := 0
	for _, c := range []struct {
		path   string
		status int
		most   float64
	}{
		{"/v1/quotes", 200, 84},
		{"/v1/payments", 201, 2270},
	} {
		allocated := testing.AllocsPerRun(200, func() {
			n++
			req := httptest.NewRequestWithContext(t.Context(), "POST", c.path, strings.NewReader(`{`+good+`}`))
			req.Header.Set("Authorization", "Bearer "+i.token)
			req.Header.Set("Content-Type", "application/json")
			if c.status == 201 {
				req.Header.Set("Idempotency-Key", fmt.Sprintf("key-%08d", n))
			}
			answer := httptest.NewRecorder()
			i.handler.Handler().ServeHTTP(answer, req)
			if answer.Code != c.status {
				t.Fatalf("%s: %d %s", c.path, answer.Code, answer.Body)
			}
		})
		if allocated > c.most {
			t.Errorf("%s: %v allocations, at most %v", c.path, allocated, c.most)
		}
	}
}
