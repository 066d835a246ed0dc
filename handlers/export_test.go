package handlers

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tollgate"
	"tollgate/handlers/share"
)

// What the external tests look at from inside.
var (
	ParseIdempotencyKey = parseIdempotencyKey
	ParseTraceparent    = parseTraceparent
	CheckContentType    = checkContentType
	CheckAccept         = checkAccept
	CheckJSON           = checkJSON
	Matches             = matches
)

// ParseQuery is parseQuery.
func ParseQuery(raw string, names ...string) (map[string]string, error) {
	return parseQuery(raw, names)
}

// TestCursor is a cursor with a position of its own.
type TestCursor struct {
	Filters  map[string]string
	Order    string
	Position int64
}

// Cursors is a cursorSeal.
type Cursors struct{ *cursorSeal }

// NewCursors makes one.
func NewCursors(key [32]byte) (Cursors, error) {
	s, err := newCursorSeal(key)
	return Cursors{s}, err
}

// Seal is sealCursor.
func (c Cursors) Seal(listing, org string, t TestCursor) (string, error) {
	return sealCursor(c.cursorSeal, listing, org, cursor[int64]{t.Filters, t.Order, t.Position})
}

// Open is openCursor.
func (c Cursors) Open(listing, org, text string) (TestCursor, error) {
	t, err := openCursor[int64](c.cursorSeal, listing, org, text)
	return TestCursor{t.Filters, t.Order, t.Position}, err
}

// DecodePayment, DecodeQuote, DecodeCapture and DecodeReview read bodies.
func DecodePayment(body string) (any, error) { return decode([]byte(body), false, readPayment) }

func DecodeQuote(body string) (any, error) { return decode([]byte(body), false, readQuote) }

func DecodeCapture(body string) (any, error) { return decode([]byte(body), true, readCapture) }

func DecodeReview(body string) (any, error) { return decode([]byte(body), false, readReview) }

// Problem is the answer to an error.
func Problem(e *tollgate.Error, requestID string) (status int, body []byte) {
	a := problemOf(e, requestID)
	return a.Status, a.Body
}

// HeaderRequest is a request with one header.
func HeaderRequest(name string, values ...string) *http.Request {
	return &http.Request{Header: http.Header{name: values}}
}

// LoadAhead makes the server load only so many rules in force before it is asked.
func (s *Server) LoadAhead(n int) {
	s.following.fits = func() bool { n--; return n >= 0 }
}

// Framed is a connection as net/http reads it; last is what a handler is told
// of the request that has been read.
func Framed(c net.Conn) (framed net.Conn, last func() (fault error, final bool)) {
	own := &connection{Conn: c}
	return own, func() (error, bool) {
		f := own.begin()
		if f.fault == nil {
			return nil, f.final
		}
		return f.fault, f.final
	}
}

// Begin and Sent stand around a handler that is not the server's.
func Begin(req *http.Request) { connectionOf(req).begin() }

// Sent is called at its end.
func Sent(w http.ResponseWriter, req *http.Request) { connectionOf(req).sent(w) }

// Queue is one of the resources that tenants share.
func (s *Server) Queue(name, org string) *share.Queue {
	switch name {
	case "reads":
		return s.shares.reads[s.store.Lane(org)]
	case "examining":
		return s.shares.examining
	case "compiling":
		return s.shares.compiling
	case "refusals":
		return s.shares.refusals
	case "processors":
		return s.shares.processors
	case "sending":
		return s.shares.sending
	default: // requests that are being carried out
		return s.shares.carried[map[string]use{
			"requests": usesLittle, "quotes": quotes, "changes of rules": compares, "publications": publishes,
			"searches": searches, "previews": previews, "events": waits,
		}[name]]
	}
}

// Looks is how often others' requests were noticed before an organization's next
// turn.
func (s *Server) Looks() int64 { return s.shares.network.looks.Load() }

// Noticed makes a network of its own and has it look.
func Noticed() func() { return newNetwork().noticed }

// Turn waits for a turn at Redis as a request of a client does.
func (s *Server) Turn(ctx context.Context, org, client string) error {
	_, err := s.reading(&call{org: org, client: client})(ctx)
	return err
}

// UseUp takes the whole share of every resource that a client, or all of an
// organization when client is empty, may have in use.
func (s *Server) UseUp(org, client string) (leave func()) {
	queues := []*share.Queue{s.shares.polls, s.shares.examining, s.shares.compiling}
	for _, q := range s.shares.enter {
		queues = append(queues, q) // that of lists is there twice, and full the second time
	}
	var entered []func()
	for _, q := range queues {
		for n := 0; ; n++ {
			who := client
			if client == "" {
				who = fmt.Sprint("cli_", n)
			} else if q == s.shares.compiling { // which is the organization's
				who = ""
			}
			out, err := q.Enter(org, who)
			if err != nil {
				break
			}
			entered = append(entered, out)
		}
	}
	return func() {
		for _, out := range entered {
			out()
		}
	}
}

// ManyFailing has so many published rules fail, and returns how many are
// watched then and how many series tell of them.
func ManyFailing(rules int, now time.Time) (watched, series int, err error) {
	registry := prometheus.NewRegistry()
	o, err := newRuleOutcomes(registry, func() time.Time { return now }, nil)
	if err != nil {
		return 0, 0, err
	}
	for n := range rules {
		ref := tollgate.RuleRef{Rule: tollgate.Citation{Name: "fee", Version: n + 1}}
		for range failingLeast {
			o.note([]tollgate.RuleRef{ref}, &tollgate.Error{Code: tollgate.CodeRuleFailed, Rule: &ref.Rule})
		}
	}
	families, err := registry.Gather()
	for _, f := range families {
		series += len(f.GetMetric())
	}
	return len(o.windows), series, err
}

// Priced is priced.
func (s *Server) Priced(ctx context.Context, org string, rules []tollgate.RuleRef, in tollgate.PricingInput) (tollgate.Pricing, error) {
	return s.priced(ctx, org, rules, in)
}
