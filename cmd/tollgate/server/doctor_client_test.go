package server

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/clitest"
)

// sick is a service where everything is wrong that a client can see.
func sick(t *testing.T) *httptest.Server {
	t.Helper()
	answers := map[string]string{
		"/readyz":                      `{"status":"unavailable","checks":{"redis":"out_of_memory","rules":"missing","persistence":"warn","policy":"unknown"},"failing_rules":2}`,
		"/openapi.json":                `{"paths":{"/v2/of-tomorrow":{}}}`,
		"/v1/webhooks":                 `{"object":"list","data":[{"object":"webhook_endpoint","id":"we_1","status":"disabled","disabled_reason":"failing","url":"https://shop.example"},{"object":"webhook_endpoint","id":"we_2","status":"active","url":"http://127.0.0.1:1/hook"}],"has_more":false,"next_cursor":null}`,
		"/v1/webhooks/we_2/deliveries": `{"object":"list","data":[{"object":"delivery","id":"dlv_1"}],"has_more":false,"next_cursor":null}`,
		"/v1/merchant-accounts":        `{"object":"list","data":[{"object":"merchant_account","id":"ma_1","name":"Shop","status":"paused","currencies":[],"silent_rules":[{"rule":"rule:my_fee@v1","currencies":["CHF"]}]}],"has_more":false,"next_cursor":null}`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(90*time.Second).UTC().Format(http.TimeFormat))
		text, ok := answers[r.URL.Path]
		switch {
		case r.URL.Path == "/readyz":
			w.WriteHeader(http.StatusServiceUnavailable)
		case !ok && r.URL.Path != "/healthz":
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, text)
	}))
	t.Cleanup(s.Close)
	return s
}

// A client's doctor says each thing that is wrong with a service, and what to do.
func TestDoctorOfAService(t *testing.T) {
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"scope":"accounts:read webhooks:read"}`))
	env := map[string]string{"TOLLGATE_URL": sick(t).URL, "TOLLGATE_TOKEN": "e30." + claims + ".x"}
	code, stdout, stderr := clitest.Inside(t.Context(), Commands, env, strings.NewReader(""), "doctor")
	if code != cli.ExitRefused {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{
		"clock             warn   the service's clock is 1m30s from this machine's",
		"ready             fail   the service takes no payments",
		"service redis     fail   it says out_of_memory",
		"service rules     fail   it says missing",
		"service persistence  warn   it says warn",
		"rules             fail   2 rules fail",
		"it has 1 routes that tollgate",
		"2; not grants:read",
		"ma_1 (Shop) is paused and takes no payments",
		"rule:my_fee@v1 charges ma_1 nothing in CHF",
		"we_1 is disabled (failing)",
		"tollgate recover we_1 --since 24h",
		"we_2 has 1 deliveries that did not arrive",
		"http://127.0.0.1:1/hook cannot be reached from this machine",
	} {
		if !strings.Contains(strings.Join(strings.Fields(stdout), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("it does not say %q:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "policy") {
		t.Errorf("it complains of what nobody knows:\n%s", stdout)
	}
}

// Nobody who answers is exit code 3; nothing to look at is wrong usage.
func TestDoctorOfNobody(t *testing.T) {
	for want, env := range map[int]map[string]string{
		cli.ExitUnavailable: {"TOLLGATE_URL": "http://127.0.0.1:1", "TOLLGATE_TOKEN": "e30.e30.x"},
		cli.ExitRefused:     {"TOLLGATE_URL": "http://127.0.0.1:1"},
		cli.ExitUsage:       {},
	} {
		if code, stdout, stderr := clitest.Inside(t.Context(), Commands, env, strings.NewReader(""), "doctor"); code != want {
			t.Errorf("%v: exit code %d, want %d\n%s%s", env, code, want, stdout, stderr)
		}
	}
}
