package handlers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tollgate/rediskv/redistest"
)

// TestAllocations counts what a request of the service allocates, the recorder of its
// answer and the Redis of this process included: a bound that is passed is somebody's to
// explain. What takes time on one machine takes it on all.
func TestAllocations(t *testing.T) {
	if redistest.RaceDetector {
		t.Skip("pools lose what they are given")
	}
	i := start(t)
	i.authenticate()
	send := func(path, body string, headers ...string) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		for n := 0; n < len(headers); n += 2 {
			req.Header.Set(headers[n], headers[n+1])
		}
		answer := httptest.NewRecorder()
		i.handler.Handler().ServeHTTP(answer, req)
		return answer
	}
	keys := 0
	write := func(path, body string) *httptest.ResponseRecorder {
		keys++
		return send(path, body, "Authorization", "Bearer "+i.token, "Idempotency-Key", fmt.Sprintf("key-%08d", keys))
	}
	const runs = 200
	var captures, forms []string // one for each run, and one to warm up
	for range runs + 1 {
		var payment struct{ ID string }
		if err := json.Unmarshal(write("/v1/payments", `{`+good+`,"capture_method":"manual"}`).Body.Bytes(), &payment); err != nil {
			t.Fatal(err)
		}
		captures = append(captures, "/v1/payments/"+payment.ID+"/captures")
		forms = append(forms, tokenForm(i.assertion()).Encode())
	}
	next := func(list *[]string) (one string) {
		one, *list = (*list)[0], (*list)[1:]
		return one
	}
	for _, c := range []struct {
		what   string
		do     func() *httptest.ResponseRecorder
		status int
		most   float64
	}{
		{"a quote", func() *httptest.ResponseRecorder {
			return send("/v1/quotes", `{`+good+`}`, "Authorization", "Bearer "+i.token)
		}, http.StatusOK, 84},
		{"a payment", func() *httptest.ResponseRecorder { return write("/v1/payments", `{`+good+`}`) }, http.StatusCreated, 2290},
		{"a capture", func() *httptest.ResponseRecorder { return write(next(&captures), `{}`) }, http.StatusCreated, 3025},
		{"a token", func() *httptest.ResponseRecorder {
			return send("/oauth2/token", next(&forms), "Content-Type", "application/x-www-form-urlencoded")
		}, http.StatusOK, 1545},
	} {
		allocated := testing.AllocsPerRun(runs, func() {
			if answer := c.do(); answer.Code != c.status {
				t.Fatalf("%s: %d %s", c.what, answer.Code, answer.Body)
			}
		})
		if allocated > c.most {
			t.Errorf("%s: %v allocations, at most %v", c.what, allocated, c.most)
		}
	}
}
