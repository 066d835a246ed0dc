package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tollgate"
	"tollgate/cmd/sandbox"
	"tollgate/handlers/auth"
)

// issuer is who the tokens are of. Nobody listens there.
const issuer = "http://127.0.0.1:8080"

// api sends requests to the service's handlers, without a network.
type api struct {
	handler http.Handler
	private []byte // the client's key
	prefix  string // of the run's idempotency keys
	sent    atomic.Int64

	mu    sync.Mutex
	token string
	until time.Time // a new one is fetched then
}

// bearer is an access token that lasts some minutes more.
func (a *api) bearer(ctx context.Context) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if now.Before(a.until) {
		return a.token, nil
	}
	signed, err := auth.SignAssertion(a.private, sandbox.Client, issuer, rand.Text(), now)
	if err != nil {
		return "", err
	}
	form := url.Values{
		"grant_type": {"client_credentials"}, "client_assertion": {signed},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/oauth2/token", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	var issued struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &issued); err != nil || issued.Token == "" {
		return "", fmt.Errorf("no token: %d %s", w.Code, w.Body)
	}
	a.token, a.until = issued.Token, now.Add(5*time.Minute)
	return a.token, nil
}

// once sends a request, and reports how long its answer took.
func (a *api) once(ctx context.Context, method, path, body, key string) (*httptest.ResponseRecorder, time.Duration, error) {
	token, err := a.bearer(ctx)
	if err != nil {
		return nil, 0, err
	}
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w, begun := httptest.NewRecorder(), time.Now()
	a.handler.ServeHTTP(w, r)
	return w, time.Since(begun), nil
}

// tries is how often a request is sent that the service has no room for.
const tries = 100

// post sends a request until it is carried out.
func (a *api) post(ctx context.Context, path, body string) (status int, answer []byte, err error) {
	key := fmt.Sprintf("%s-%d", a.prefix, a.sent.Add(1))
	for range tries {
		w, _, err := a.once(ctx, http.MethodPost, path, body, key)
		if err != nil {
			return 0, nil, err
		}
		if w.Code != http.StatusTooManyRequests && w.Code != http.StatusServiceUnavailable {
			return w.Code, w.Body.Bytes(), nil
		}
		status, answer = w.Code, w.Body.Bytes()
		time.Sleep(10 * time.Millisecond)
	}
	return status, answer, fmt.Errorf("%s: %d %s", path, status, answer)
}

// send makes a step, and returns those that follow it.
func (m *market) send(ctx context.Context, s step) ([]step, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if s.sale != nil {
		return m.create(ctx, s)
	}
	status, answer, err := m.api.post(ctx, "/v1/payments/"+s.payment+s.path, s.body)
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("%s %s: %d %s", s.path, s.body, status, answer)
	}
	return m.chain(s.then, s.payment, s.created), err
}

// chain is the first of steps, behind which the others wait: what is done with one
// payment is not done at once.
func (m *market) chain(steps []step, payment string, created time.Time) []step {
	if len(steps) == 0 {
		return nil
	}
	first := steps[0]
	if m.span == 0 {
		first.delay = 0
	}
	first.payment, first.created, first.at, first.then = payment, created, created.Add(first.delay), steps[1:]
	return []step{first}
}

// create makes a payment. One that is under review is decided about first, and captured
// by hand.
func (m *market) create(ctx context.Context, s step) ([]step, error) {
	status, answer, err := m.api.post(ctx, s.path, s.body)
	if err != nil {
		return nil, err
	}
	m.made.Add(1)
	if status == http.StatusForbidden && strings.Contains(string(answer), string(tollgate.CodePerimeterDenied)) {
		return nil, nil
	}
	var payment struct {
		ID      string                 `json:"id"`
		Status  tollgate.PaymentStatus `json:"status"`
		Created time.Time              `json:"created_at"`
		Method  tollgate.CaptureMethod `json:"capture_method"`
	}
	if err := json.Unmarshal(answer, &payment); err != nil || status != http.StatusCreated {
		return nil, fmt.Errorf("%s: %d %s", s.body, status, answer)
	}
	if m.created != nil {
		m.created(payment.ID)
	}
	following := s.sale.later
	if payment.Status == tollgate.RequiresReview {
		following = reviewed(s.sale, payment.Method)
	}
	return m.chain(following, payment.ID, payment.Created), nil
}

// reviewed is what becomes of a payment under review.
func reviewed(s *sale, method tollgate.CaptureMethod) []step {
	if s.review == "" {
		return nil
	}
	decision := step{path: "/reviews", body: fmt.Sprintf(`{"decision":%q}`, s.review), delay: 30 * time.Second}
	switch {
	case s.review == "reject":
		return []step{decision}
	case method == tollgate.CaptureAutomatic:
		return append([]step{decision, {path: "/captures", body: `{}`, delay: time.Hour}}, s.later...)
	default:
		return append([]step{decision}, s.later...)
	}
}
