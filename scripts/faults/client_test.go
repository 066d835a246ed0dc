package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate/cmd/tollgate/clitest"
)

// answer is what the service said.
type answer struct {
	status   int
	text     string
	repeated bool
}

// into reads a member of the answer; a path has dots.
func (a answer) at(path string) string {
	var v any
	if json.Unmarshal([]byte(a.text), &v) != nil {
		return ""
	}
	for name := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	text, _ := v.(string)
	return text
}

// amount is a member as minor units.
func (a answer) amount(path string) int64 {
	n, _ := minor(a.at(path))
	return n
}

func minor(text string) (n int64, ok bool) {
	var whole, cents int64
	if got, err := fmt.Sscanf(text, "%d.%02d", &whole, &cents); err != nil || got != 2 {
		return 0, false
	}
	return whole*100 + cents, true
}

const (
	tryPatience = 5 * time.Second // with one request
	askPatience = 2 * time.Minute // with all its repeats
)

// token is an organization's access token.
type token struct {
	mu   sync.Mutex
	text string
}

func (t *token) forget(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text == text {
		t.text = ""
	}
}

// bearer is the token of an organization, which is asked for where there is none.
func (w *world) bearer(ctx context.Context, base string, o *org) (string, error) {
	o.token.mu.Lock()
	defer o.token.mu.Unlock()
	if o.token.text == "" {
		a, err := clitest.AskToken(ctx, base, issuer, o.client, w.key)
		if err != nil {
			return "", err
		}
		said := answer{status: a.StatusCode, text: a.Text}
		if o.token.text = said.at("access_token"); o.token.text == "" {
			return "", fmt.Errorf("no token: %d %s", said.status, said.text)
		}
	}
	return o.token.text, nil
}

// once is one request to one of the instances.
func (w *world) once(o *org, base, method, path, body, key string) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), tryPatience)
	defer cancel()
	bearer, err := w.bearer(ctx, base, o)
	if err != nil {
		return answer{}, err
	}
	a, err := clitest.Send(ctx, bearer, method, base+path, body, "Idempotency-Key", key)
	if err != nil {
		return answer{}, err
	}
	// A token may be of before a loss (410), or too old.
	if a.StatusCode == http.StatusUnauthorized || a.StatusCode == http.StatusGone {
		o.token.forget(bearer)
	}
	return answer{a.StatusCode, a.Text, a.Header.Get("Idempotent-Replayed") == "true"}, nil
}

// send repeats a request, with the same key and at any of the instances, until there is
// an answer that says what became of it. Then known is true.
func (w *world) send(o *org, method, path, body, key string) (said answer, known bool) {
	begun := time.Now()
	for try := 0; time.Since(begun) < askPatience; try++ {
		if try > 0 {
			time.Sleep(time.Duration(20+rand.IntN(min(try, 10)*40)) * time.Millisecond)
		}
		base := "http://" + w.serves[rand.IntN(len(w.serves))].addr
		var err error
		said, err = w.once(o, base, method, path, body, key)
		switch {
		case err != nil:
			said = answer{text: err.Error()}
			continue
		case said.status == http.StatusInternalServerError:
			w.fail("%s %s is answered %d %s", method, path, said.status, said.text)
			continue
		case said.status == http.StatusServiceUnavailable:
			w.outage.refuse()
			continue
		case said.status > 500, said.status == http.StatusTooManyRequests, said.status == http.StatusUnauthorized, said.status == http.StatusGone:
			continue
		case try == 0 && said.repeated && !strings.HasPrefix(key, "again-"):
			w.fail("%s %s with %s is sent for the first time and answered as a repeat: %d %s", method, path, key, said.status, said.text)
		}
		w.outage.answered(begun, try > 0)
		return said, true
	}
	return said, false
}

// outage measures how long nobody is answered, and how long one request takes that is
// repeated.
type outage struct {
	mu            sync.Mutex
	answers       int
	refused       int // with 503
	last          time.Time
	silence, wait time.Duration
}

func (x *outage) answered(begun time.Time, repeated bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	if x.answers++; x.answers > 1 {
		x.silence = max(x.silence, now.Sub(x.last))
	}
	if x.last = now; repeated {
		x.wait = max(x.wait, now.Sub(begun))
	}
}

func (x *outage) refuse() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refused++
}

func (x *outage) refusals() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.refused
}

func (x *outage) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return fmt.Sprintf("%d answers, and %d times 503; nobody was answered for at most %s, one request was repeated for at most %s",
		x.answers, x.refused, x.silence.Round(time.Millisecond), x.wait.Round(time.Millisecond))
}
