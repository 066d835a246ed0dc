package handlers_test

import (
	"testing"
	"time"
)

// The sandbox's clock has an end; what would pass it moves nothing.
func TestSandboxClockHasAnEnd(t *testing.T) {
	w := newWorld(t)
	w.ahead.Store(int64(time.Date(2199, 12, 31, 0, 0, 0, 0, time.UTC).Sub(w.now())))
	before := w.service()
	for param, body := range map[string]string{"advance": `{"advance":"24h"}`, "to": `{"to":"2200-01-01T00:00:00Z"}`} {
		r := w.want(w.call("POST", "/v1/sandbox/clock", body), 400, "parameter_invalid")
		if r.body["param"] != param {
			t.Errorf("%s: %s", body, r.text)
		}
	}
	if now := w.service(); !now.Equal(before) {
		t.Errorf("the clock has moved from %s to %s", before, now)
	}
	w.want(w.call("POST", "/v1/sandbox/clock", `{"to":"2199-12-31T23:59:59.999Z"}`), 200, "")
}
