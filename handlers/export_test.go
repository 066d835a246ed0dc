package handlers

import (
	"context"
	"fmt"

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
func (s *Server) Looks() int64 { return s.shares.network.Looks.Load() }

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

// Priced is priced.
func (s *Server) Priced(ctx context.Context, org string, rules []tollgate.RuleRef, in tollgate.PricingInput) (tollgate.Pricing, error) {
	return s.priced(ctx, org, rules, in)
}
