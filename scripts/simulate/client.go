package simulate

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"

	"tollgate/handlers/auth"

	"tollgate/scripts/simulate/draw"
)

// client sends requests to the service, and sends them again until it knows what
// became of them.
type client struct {
	world *world
	name  string

	mu    sync.Mutex
	sends int             // requests
	sent  map[string]bool // that were
	// keyed: it has sent a key, when it knew of so many histories that have ended.
	keyed  bool
	within int
}

// answer is what the service said.
type answer struct {
	status   int
	body     []byte
	replayed bool
	by       *process
}

const (
	patience = 10 * time.Second // with one request
	tries    = 60
)

// send is one request, until there is an answer that says what became of it. Then
// known is true.
func (c *client) send(method, path, body, key string) (said answer, known bool) {
	return c.sendUpTo(tries, method, path, body, key)
}

func (c *client) sendUpTo(tries int, method, path, body, key string) (said answer, known bool) {
	x := c.world
	c.mu.Lock()
	c.sends++
	number := c.sends
	c.mu.Unlock()
	bare, _, _ := strings.Cut(path, "?") // cursors are other ones each time
	for try := range tries {
		if x.ctx.Err() != nil {
			return said, false
		}
		n := x.wire.chance.Of(c.name, method, bare, key, number, try)
		if try > 0 {
			pause(x.ctx, draw.Between(n>>8, 50*time.Millisecond, time.Duration(min(try, 10))*500*time.Millisecond))
		}
		p := x.serving(n)
		token, err := c.bearer(p, n)
		if err != nil {
			continue
		}
		if key != "" && c.stops() {
			x.wire.tell("%s stops asking for %s: something may be missing", c.name, path)
			return answer{}, false
		}
		r := request(method, path, body)
		r.Header.Set("Authorization", "Bearer "+token)
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		before := c.sentBefore(method, path, key)
		said, err = x.exchange(p, r, n)
		if err == nil && said.replayed && !before {
			x.judge.wrong("%s %s with %s is sent for the first time and answered as a repeat: %d %s", method, path, key, said.status, said.body)
		}
		if err == nil && said.status == http.StatusInternalServerError {
			x.judge.wrong("%s %s is answered %d %s", method, path, said.status, said.body)
		}
		switch {
		case err != nil, said.status >= 500, said.status == http.StatusTooManyRequests:
			continue
		case said.status == http.StatusUnauthorized:
			x.judgeRefusal(p, said, token)
			x.token.forget(token)
			continue
		case historyCode(said) != "":
			x.changed(said)
			x.token.forget(token)
			x.token.ended()
		}
		return said, true
	}
	x.wire.tell("%s gives up %s %s: %d %s", c.name, method, path, said.status, said.body)
	return said, false
}

// judgeRefusal: where Redis has lost everything, nobody is told that they are unknown, at
// least by a process that knew of something. By its clock what was sent has to be in time:
// that is judged before anybody is looked for.
func (x *world) judgeRefusal(p *process, said answer, sent string) {
	since, emptied := x.wire.emptied()
	if emptied && said.status == http.StatusUnauthorized && p.ready.Load() != 0 && p.ready.Load() < since.UnixNano() && x.inTime(p, sent) {
		x.judge.wrong("Redis was emptied, and %s answers %d %s", p.name, said.status, said.body)
	}
}

// inTime says whether a token is in time (RFC 7519) by the clock of a process, which may be
// skewed, or may have been when it answered.
func (x *world) inTime(p *process, token string) bool {
	const exact = 10 * time.Second // to which clocks are the same
	says, err := claimsOf(token)
	if err != nil {
		x.judge.wrong("%s: %v", token, err)
	}
	now := p.clock()
	return time.Since(time.Unix(0, p.moved.Load())) > patience && !now.Before(time.Unix(says.Issued, 0).Add(-exact)) && now.Before(time.Unix(says.Expires, 0))
}

// stops says whether it knows, since it first sent a key, that data may be missing: it
// does not go on with that.
func (c *client) stops() bool {
	now := c.world.token.histories()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.keyed {
		c.keyed, c.within = true, now
	}
	return c.within != now
}

// sentBefore says whether a request with a key has been sent before.
func (c *client) sentBefore(method, path, key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent == nil {
		c.sent = map[string]bool{}
	}
	name := method + " " + path + " " + key
	before := c.sent[name]
	c.sent[name] = true
	return before
}

func request(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, issuer+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// token is an access token that clients share.
type token struct {
	mu     sync.Mutex
	text   string
	asked  int    // how often
	within string // the history of the last one
	past   int    // how many histories its clients know have ended
}

// claims are those of a token (RFC 7519) that a client reads. his is its history.
type claims struct {
	History string `json:"his"`
	Issued  int64  `json:"iat"`
	Expires int64  `json:"exp"`
}

func claimsOf(token string) (c claims, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, errors.New("it is no JWT")
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(text, &c)
}

func (t *token) histories() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.past
}

func (t *token) ended() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.past++
}

func (t *token) forget(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text == text {
		t.text = ""
	}
}

// bearer is the token, which is asked for where there is none.
func (c *client) bearer(p *process, n uint64) (string, error) {
	shared := &c.world.token
	shared.mu.Lock()
	text := shared.text
	shared.mu.Unlock()
	if text != "" {
		return text, nil
	}
	text, says, err := c.issued(p, n)
	if err != nil {
		return "", err
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.within != "" && shared.within != says.History {
		shared.past++
		c.world.told()
	}
	shared.text, shared.within = text, says.History
	return text, nil
}

// issued is a token that nobody has had before.
func (c *client) issued(p *process, n uint64) (text string, says claims, err error) {
	said, err := c.assert(p, "/oauth2/token", url.Values{"grant_type": {"client_credentials"}}, n)
	if err != nil {
		return "", says, err
	}
	var got struct {
		Token string `json:"access_token"`
	}
	if said.status != http.StatusOK || json.Unmarshal(said.body, &got) != nil {
		return "", says, fmt.Errorf("no token: %d %s", said.status, said.body)
	}
	if says, err = claimsOf(got.Token); err != nil {
		c.world.judge.wrong("the token %s: %v", got.Token, err)
	}
	return got.Token, says, nil
}

// assert sends a form with a new assertion of the client (RFC 7523).
func (c *client) assert(p *process, path string, form url.Values, n uint64) (said answer, err error) {
	x := c.world
	x.token.mu.Lock()
	x.token.asked++
	asked := x.token.asked
	x.token.mu.Unlock()
	assertion, err := auth.SignAssertion(x.clientKey, clientID, issuer, fmt.Sprintf("%s-%d", c.name, asked), x.wire.now())
	if err != nil {
		return said, err
	}
	form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
	form.Set("client_assertion", assertion)
	r := request("POST", path, form.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if said, err = x.exchange(p, r, draw.Mixed(n)); err == nil {
		x.judgeRefusal(p, said, assertion)
	}
	return said, err
}

var (
	errRefused = errors.New("connection refused")
	errGone    = errors.New("connection reset by peer")
)

// exchange takes a request to a process and brings the answer back.
func (x *world) exchange(p *process, r *http.Request, n uint64) (answer, error) {
	way := &outbound{p}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := way.wait(ctx, draw.Between(n, 100*time.Microsecond, 2*time.Millisecond)); err != nil {
		return answer{}, err
	}
	h := p.handler.Load()
	if h == nil {
		return answer{}, errRefused
	}
	to, done := httptest.NewRecorder(), make(chan struct{})
	x.running.Go(func() {
		defer close(done)
		p.entropy.own(fmt.Sprint(r.Method, r.URL.Path, n), func() { (*h).ServeHTTP(to, r.WithContext(ctx)) })
	})
	select {
	case <-done:
	case <-p.stopped:
		return answer{}, errGone
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
	if err := way.wait(ctx, draw.Between(draw.Mixed(n), 100*time.Microsecond, 2*time.Millisecond)); err != nil {
		return answer{}, err
	}
	return answer{to.Code, to.Body.Bytes(), to.Header().Get("Idempotent-Replayed") != "", p}, nil
}
