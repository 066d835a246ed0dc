package handlers

import (
	"context"
	"fmt"
	"slices"

	"tollgate"
	"tollgate/handlers/input"
	"tollgate/handlers/share"
)

// DecodePayment, DecodeQuote, DecodeCapture and DecodeReview read bodies.
func DecodePayment(body string) (any, error) { return input.Decode([]byte(body), false, parsePayment) }

func DecodeQuote(body string) (any, error) { return input.Decode([]byte(body), false, parseQuote) }

func DecodeCapture(body string) (any, error) { return input.Decode([]byte(body), true, parseCapture) }

func DecodeReview(body string) (any, error) { return input.Decode([]byte(body), false, parseReview) }

// LoadAhead makes the server load only so many rules in force before it is asked.
func (s *Server) LoadAhead(n int) {
	s.sync.Fits = func() bool { n--; return n >= 0 }
}

// Queue is one of the resources that tenants share.
func (s *Server) Queue(name, org string) *share.Queue {
	switch name {
	case "reads":
		return s.shares.Reads[s.store.Lane(org)]
	case "examining":
		return s.shares.Examining
	case "compiling":
		return s.shares.Compiling
	case "refusals":
		return s.shares.Refusals
	case "processors":
		return s.shares.Processors
	case "sending":
		return s.shares.Sending
	default: // requests that are being carried out
		return s.shares.Carried[map[string]share.Use{
			"requests": share.UsesLittle, "quotes": share.Quotes, "changes of rules": share.Compares, "publications": share.Publishes,
			"searches": share.Searches, "previews": share.Previews, "events": share.Waits,
		}[name]]
	}
}

// Looks is how often others' requests were noticed before an organization's next
// turn.
func (s *Server) Looks() int64 { return s.shares.Network.Looks.Load() }

// Turn waits for a turn at Redis as a request of a client does.
func (s *Server) Turn(ctx context.Context, org, client string) error {
	_, err := s.reading(&call{org: org, client: client})(ctx)
	return err
}

// UseUp takes the whole share of every resource that a client, or all of an
// organization when client is empty, may have in use.
func (s *Server) UseUp(org, client string) (leave func()) {
	queues := []*share.Queue{s.shares.Polls, s.shares.Examining, s.shares.Compiling}
	for _, q := range s.shares.Entered {
		queues = append(queues, q) // that of lists is there twice, and full the second time
	}
	var entered []func()
	for _, q := range queues {
		for n := 0; ; n++ {
			who := client
			if client == "" {
				who = fmt.Sprint("cli_", n)
			} else if q == s.shares.Compiling { // which is the organization's
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

// Priced is priced.
func (s *Server) Priced(ctx context.Context, org string, rules []tollgate.RuleRef, in tollgate.PricingInput) (tollgate.Pricing, error) {
	return s.priced(ctx, org, rules, in)
}

// Shared reports whether a route's requests have a share of their own of what all
// tenants have in common, and is refused over it: what compares waits for its turn.
func Shared(method, path string) bool {
	return slices.ContainsFunc(rows, func(r row) bool {
		return r.Method == method && r.Path == path && r.use != share.UsesLittle && r.use != share.Compares
	})
}
