package worker_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/handlers/worker/delivery"
	"tollgate/rediskv/redistest"
)

// The payout hook is asked for each payout with a signed request until it says
// paid or failed: after Retry-After, or after the webhook back-off, for ever and
// with the same id.
func TestPayHook(t *testing.T) {
	const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	answers := []struct {
		status     int
		retryAfter string
		body       string
		wait       time.Duration // at most
	}{
		{500, "", "", 6 * time.Second},
		{200, "30", `{"status":"later"}`, 30 * time.Second},
		{200, "", `nonsense`, 36 * time.Minute},
		{302, "", `{"status":"paid"}`, 144 * time.Minute},
		{200, "", `{"status":"maybe"}`, 6 * time.Hour},
		{200, "", `{"status":"paid"}` + strings.Repeat(" ", 70<<10), 12 * time.Hour},
		{201, "", `{"status":"paid","reference":"bank-7"}`, 0},
	}
	s := newShop(t, redistest.URL(t))
	var asked atomic.Int32
	ids := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		a := answers[min(int(asked.Add(1))-1, len(answers)-1)]
		body, _ := io.ReadAll(req.Body)
		h := req.Header
		if err := delivery.VerifySignature(secret, h.Get("webhook-id"), h.Get("webhook-timestamp"), h.Get("webhook-signature"), body); err != nil {
			t.Error(err)
		}
		var p struct {
			Object       string `json:"object"`
			ID           string `json:"id"`
			Amount       string `json:"amount"`
			Organization string `json:"organization_id"`
		}
		if err := json.Unmarshal(body, &p); err != nil || p.Object != "payout" || p.Amount != "10.00" || p.Organization == "" || p.ID != h.Get("Idempotency-Key") || req.Method != "POST" {
			t.Errorf("asked with %s %s, %v", body, h, err)
		}
		ids[p.ID] = true
		if a.retryAfter != "" {
			rw.Header().Set("Retry-After", a.retryAfter)
		}
		if a.status == 302 {
			rw.Header().Set("Location", "/elsewhere")
		}
		rw.WriteHeader(a.status)
		fmt.Fprint(rw, a.body)
	}))
	t.Cleanup(server.Close)
	hook, err := worker.NewPayHook(server.URL, secret, time.Now, "test")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorker(t, worker.Config{Store: s.Store, Clock: s.Clock.Now, Pay: hook.Pay})
	s.sell(t, 1000)
	s.Clock.Advance(24 * time.Hour)
	for i, a := range answers {
		// An answer of any kind is no failed round, whose pause others would share.
		if _, err := w.PayoutRound(t.Context()); err != nil || int(asked.Load()) != i+1 {
			t.Fatalf("answer %d: asked %d times, %v", i, asked.Load(), err)
		}
		if _, err := w.PayoutRound(t.Context()); err != nil || int(asked.Load()) != i+1 {
			t.Fatalf("after answer %d it is asked again at once, %v", i, err)
		}
		s.Clock.Advance(a.wait)
	}
	if len(ids) != 1 {
		t.Errorf("asked for %v", ids)
	}
	for _, x := range s.moved(t, tollgate.TransactionPayout) {
		if x.Status != "paid" || x.Reference == nil || *x.Reference != "bank-7" {
			t.Errorf("it is %+v", x)
		}
	}
}

// What is no address or no secret is refused at the start.
func TestPayHookSettings(t *testing.T) {
	for _, c := range [][2]string{
		{"", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="},
		{"ftp://pay.example", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="},
		{"http:///pay", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="},
		{"/pay", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="},
		{"http://u:p@pay.example", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="},
		{"http://10.0.0.1/pay", ""},
		{"http://10.0.0.1/pay", "secret"},
	} {
		if _, err := worker.NewPayHook(c[0], c[1], time.Now, "test"); err == nil {
			t.Errorf("%q is taken", c)
		}
	}
}

// TestPayHookNamesNoSecret: a URL that nobody answers at is not in the error, for
// its query may be what the receiver knows us by.
func TestPayHookNamesNoSecret(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	hook, err := worker.NewPayHook(server.URL+"/?key=hidden", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", time.Now, "test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hook.Pay(t.Context(), tollgate.Payout{ID: "po_1", Currency: "EUR"}); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("the error is %v", err)
	}
}
