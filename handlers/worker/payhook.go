package worker

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers/worker/delivery"
	"tollgate/handlers/worker/hook"
)

// Later is the error of a payout step that has no answer yet. After is what the
// one who pays asked for; zero: the webhook back-off decides.
type Later struct {
	After time.Duration
	Cause error
}

func (l *Later) Error() string { return "asked again later: " + l.Cause.Error() }

func (l *Later) Unwrap() error { return l.Cause }

const (
	payHookAnswer = 64 << 10  // bytes of an answer that are read
	payHookText   = 255       // characters of a reference or a reason that are kept
	payHookWait   = time.Hour // the longest Retry-After
)

// PayHook is the payout step as an HTTP request, which anyone can answer in any
// language (interface §11, "payout"): POST URL with the payout's JSON, signed as
// webhooks are, the payout's id as Idempotency-Key. The URL is the operator's.
type PayHook struct {
	hook   *hook.Hook
	secret []tollgate.WebhookKey
	clock  func() time.Time // real time: receivers compare it with theirs
}

// NewPayHook checks where and with what to sign: an absolute http or https URL
// without user info, and a secret of the form whsec_….
func NewPayHook(address, secret string, clock func() time.Time, version string) (*PayHook, error) {
	to, err := hook.New(address, "the payout URL", version)
	if err != nil {
		return nil, err
	}
	key, err := delivery.ParseSecret(secret)
	if err != nil {
		return nil, fmt.Errorf("the payout secret: %w", err)
	}
	return &PayHook{hook: to, secret: []tollgate.WebhookKey{key}, clock: clock}, nil
}

// Pay is a PayFunc. Anything but a 2xx with paid or failed is a *Later.
func (h *PayHook) Pay(ctx context.Context, p tollgate.Payout) (o tollgate.PayoutOutcome, err error) {
	body, err := json.Marshal(p.JSON(), json.Deterministic(true))
	if err != nil {
		return o, err
	}
	at := h.clock().Unix()
	resp, err := h.hook.Post(ctx, map[string]string{
		"Content-Type": "application/json", "Idempotency-Key": p.ID, "webhook-id": p.ID,
		"webhook-timestamp": strconv.FormatInt(at, 10), "webhook-signature": delivery.Signatures(h.secret, p.ID, at, body),
	}, body)
	if err != nil {
		return o, &Later{Cause: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, payHookAnswer+1))
	later := func(format string, args ...any) error {
		return &Later{After: min(delivery.RetryAfter(resp.Header.Get("Retry-After"), h.clock()), payHookWait), Cause: fmt.Errorf(format, args...)}
	}
	switch {
	case err != nil:
		return o, later("the answer broke off: %w", err)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return o, later("the payout URL answered %d", resp.StatusCode)
	case len(text) > payHookAnswer:
		return o, later("the payout URL answered more than %d bytes", payHookAnswer)
	}
	return h.outcome(text, later)
}

// outcome reads an answer; nonsense is asked again, for it says nothing.
func (h *PayHook) outcome(text []byte, later func(string, ...any) error) (o tollgate.PayoutOutcome, err error) {
	var answer struct {
		Status    string  `json:"status"`
		Reference *string `json:"reference"`
		Reason    *string `json:"reason"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return o, later("the answer is no JSON of the documented form: %w", err)
	}
	o.Reference = kept(answer.Reference)
	switch answer.Status {
	case "paid":
		return o, nil
	case "failed":
		if o.Failure = kept(answer.Reason); o.Failure == "" {
			o.Failure = "The payout step said that it failed."
		}
		return o, nil
	case "later":
		return o, later("the payout URL answered later")
	default:
		return o, later("the answer's status is %q, not paid, failed or later", answer.Status)
	}
}

// kept is text that may be stored and shown: printable, and cut.
func kept(text *string) string {
	if text == nil {
		return ""
	}
	clean := []rune(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return -1
		}
		return r
	}, *text))
	return string(clean[:min(len(clean), payHookText)])
}
