package webhooks

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/handlers/worker/delivery"
)

// Message is a delivery as a receiver has it.
type Message struct {
	ID, Timestamp, Signature string // the headers webhook-id, webhook-timestamp, webhook-signature
	Body                     []byte
}

func webhookVerifyCommand(a *cli.App) *cobra.Command {
	var m Message
	key, tolerance, quiet := "", 5*time.Minute, false
	c := &cobra.Command{
		Use:   "verify",
		Short: "Check a delivery's signature, and say why it is wrong",
		Long: `Check the signature of a delivery whose body comes on standard input, byte for
byte as it was received, and say why it is wrong. --secret is the secret
(whsec_…) or the public key (whpk_…). It asks no server. A timestamp that is off
by more than the tolerance is wrong too, as receivers have it.`,
		Example: `  tollgate webhooks verify --id evt_… --timestamp 1795285000 --signature 'v1,…' --secret whsec_… <body.json
  tollgate webhooks verify --id evt_… --timestamp 1795285000 --signature 'v1a,…' --secret whpk_… --tolerance 0 <body.json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) (err error) {
			if m.Body, err = a.ReadInput("-"); err != nil {
				return cli.UsageError(err)
			}
			if err := m.Verify(key, tolerance, a.Clock()); err != nil {
				return err
			}
			if quiet {
				return nil
			}
			_, err = fmt.Fprintf(a.Stdout, "The signature of %s is right.\n", cli.Printable(m.ID))
			return err
		},
	}
	c.Flags().StringVar(&m.ID, "id", "", "header webhook-id")
	c.Flags().StringVar(&m.Timestamp, "timestamp", "", "header webhook-timestamp")
	c.Flags().StringVar(&m.Signature, "signature", "", "header webhook-signature, all of it")
	c.Flags().StringVar(&key, "secret", "", "whsec_… or whpk_…")
	c.Flags().DurationVar(&tolerance, "tolerance", tolerance, "how far the timestamp may be off; 0 does not look")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing; the exit code says it")
	for _, flag := range []string{"id", "timestamp", "signature", "secret"} {
		_ = c.MarkFlagRequired(flag)
	}
	return c
}

// Verify is nil for a delivery that a receiver may trust, else says why not.
func (m Message) Verify(key string, tolerance time.Duration, now time.Time) error {
	seconds, err := strconv.ParseInt(m.Timestamp, 10, 64)
	if err != nil {
		return fmt.Errorf("webhook-timestamp: %q is not a whole number of seconds since 1970", m.Timestamp)
	}
	if err := delivery.VerifySignature(key, m.ID, m.Timestamp, m.Signature, m.Body); err != nil {
		return cmp.Or(m.explain(key), err)
	}
	off := math.Abs(float64(now.Unix()-seconds)) * float64(time.Second)
	if tolerance > 0 && off > float64(tolerance) {
		return fmt.Errorf("the signature is right, but the timestamp is off by %s: receivers take it for a replay", time.Duration(off))
	}
	return nil
}

// explain finds the usual mistakes; nil when it is none of them.
func (m Message) explain(key string) error {
	signs := func(id string, body []byte) bool {
		return delivery.VerifySignature(key, id, m.Timestamp, m.Signature, body) == nil
	}
	trimmed := bytes.TrimRight(m.Body, "\r\n")
	switch {
	case len(m.Body) == 0:
		return errors.New("there is no body on standard input")
	case signs(m.ID, trimmed):
		return errors.New("the body has a new line at its end that was not sent: keep the bytes as they came")
	case strings.HasPrefix(m.ID, tollgate.PrefixDelivery):
		return fmt.Errorf("webhook-id is the event's id (%s…), not the delivery's", tollgate.PrefixEvent)
	}
	return nil
}
