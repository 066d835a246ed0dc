package webhooks

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/client"
	"tollgate/handlers/egress"
	"tollgate/handlers/worker/delivery"
)

func listenCommand(a *cli.App) *cobra.Command {
	forwardTo, secret, cursor := "", "", ""
	var events []string
	c := &cobra.Command{
		Use:   "listen PORT | --forward-to URL",
		Short: "Deliver events to a program on this machine as they happen",
		Long: `'tollgate listen 3000' delivers to http://127.0.0.1:3000/; --forward-to names any
other URL on this machine.

Follow events from now on and deliver each to a program on this machine, signed
as the service signs, until Ctrl-C. It prints the secret at the start and then
every answer. An event that cannot be delivered is not tried again; no endpoint
is made, and nothing can reach this machine from outside.`,
		Example: `  tollgate listen 3000
  tollgate listen --forward-to http://127.0.0.1:3000/hooks
  tollgate listen --forward-to http://localhost:3000/hooks --events 'payment.*' --json`,
		Args: func(_ *cobra.Command, args []string) (err error) {
			forwardTo, err = listenURL(forwardTo, args)
			return err
		},
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, _ []string) error {
		key, err := listenKey(a, secret)
		if err != nil {
			return cli.UsageError(fmt.Errorf("--secret: %w", err))
		}
		if err := checkLocal(forwardTo); err != nil {
			return cli.UsageError(fmt.Errorf("--forward-to: %w", err))
		}
		query := url.Values{"limit": {"100"}}
		if len(events) > 0 {
			query.Set("types", strings.Join(events, ","))
		}
		l := &listening{Client: api, to: forwardTo, key: key, sender: delivery.NewSender(delivery.SenderConfig{
			Clock: a.Clock, Development: true, Version: cli.VersionText(),
		})}
		defer l.sender.Close()
		if cursor != "" {
			query.Set("cursor", cursor)
		} else {
			query.Set("after", "latest")
			if err := client.StartAtEnd(ctx, api, query); err != nil {
				return err
			}
		}
		if err := l.begin(); err != nil {
			return err
		}
		err = client.FollowEvents(ctx, api, query, func(e jsontext.Value) error { return l.deliver(ctx, e) })
		if query.Get("cursor") != "" {
			fmt.Fprintf(a.Stderr, "Go on from here with --cursor %s\n", query.Get("cursor"))
		}
		return err
	})
	c.Flags().StringVar(&forwardTo, "forward-to", "", "http or https URL on 127.0.0.1, [::1] or localhost")
	c.Flags().StringSliceVar(&events, "events", nil, "types or patterns such as payment.*, separated by commas")
	c.Flags().StringVar(&secret, "secret", "", "sign with this secret (whsec_…) instead of a new one")
	c.Flags().StringVar(&cursor, "cursor", "", "go on where an earlier command ended")
	c.Flags().Lookup("quiet").Usage = "print only the secret and then the events' ids"
	return c
}

// listenURL is where to deliver: what a flag says, or a port of this machine.
func listenURL(flag string, args []string) (string, error) {
	switch {
	case len(args) > 1 || len(args) == 1 && flag != "":
		return "", errors.New("listen takes a port or --forward-to, not both")
	case len(args) == 0 && flag == "":
		return "", errors.New("listen needs the port of your program, such as 3000, or --forward-to URL")
	case len(args) == 0:
		return flag, nil
	}
	port, err := strconv.ParseUint(args[0], 10, 16)
	if err != nil || port == 0 {
		return "", fmt.Errorf("%q is not a port from 1 to 65535", args[0])
	}
	return fmt.Sprintf("http://127.0.0.1:%d/", port), nil
}

// listenKey is a new key, or that of a secret.
func listenKey(a *cli.App, secret string) (tollgate.WebhookKey, error) {
	if secret == "" {
		return tollgate.NewWebhookKey(1, tollgate.SignatureV1, a.Entropy)
	}
	text, ok := strings.CutPrefix(secret, "whsec_")
	raw, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(raw) < 24 {
		return tollgate.WebhookKey{}, errors.New("a secret is whsec_ and the base64 of 24 bytes or more")
	}
	return tollgate.WebhookKey{Version: 1, Scheme: tollgate.SignatureV1, Secret: raw}, nil
}

// checkLocal refuses what is not on this machine: a delivery that was meant for
// a test must not leave it.
func checkLocal(text string) error {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("%q is not an http or https URL", text)
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if !strings.EqualFold(u.Hostname(), "localhost") && (err != nil || !ip.IsLoopback()) {
		return fmt.Errorf("%s is not this machine: use 127.0.0.1, [::1] or localhost", u.Hostname())
	}
	var refused *tollgate.Error
	if errors.As(egress.CheckURL(text, true), &refused) { // the sender would refuse each event
		return errors.New(refused.Message)
	}
	return nil
}

// listening delivers events to one URL.
type listening struct {
	*cli.Client
	to     string
	key    tollgate.WebhookKey
	sender *delivery.Sender
}

func (l *listening) begin() error {
	switch secret := l.key.Text(); {
	case l.JSON:
		return printLine(l.Client, struct {
			ForwardTo string `json:"forward_to"`
			Secret    string `json:"secret"`
		}{l.to, secret})
	case l.Quiet:
		_, err := fmt.Fprintln(l.App.Stdout, secret)
		return err
	default:
		t := &cli.Table{}
		t.Row("forward to", l.to)
		t.Row("secret", secret)
		return l.App.Print(t)
	}
}

// forwarded is what --json prints of a delivery.
type forwarded struct {
	EventID    string                 `json:"event_id"`
	EventType  string                 `json:"event_type"`
	StatusCode *int                   `json:"status_code"`
	DurationMS int64                  `json:"duration_ms"`
	Error      *tollgate.AttemptError `json:"error"`
}

// deliver sends one event once and prints what came back. That nobody has taken
// it is no error.
func (l *listening) deliver(ctx context.Context, event jsontext.Value) error {
	var e struct {
		ID   string             `json:"id"`
		Type tollgate.EventType `json:"type"`
	}
	if err := cli.Parse(event, &e); err != nil || !e.Type.Deliverable() {
		return err
	}
	sent := l.sender.Send(ctx, delivery.Message{URL: l.to, EventID: e.ID, Body: event, Keys: []tollgate.WebhookKey{l.key}})
	if ctx.Err() != nil {
		return ctx.Err() // whether it arrived nobody knows: it comes again
	}
	f := forwarded{EventID: e.ID, EventType: string(e.Type), DurationMS: sent.Took.Milliseconds(), Error: sent.Error}
	result := "-"
	if sent.Response != nil {
		f.StatusCode = &sent.Response.StatusCode
		result = fmt.Sprint(sent.Response.StatusCode)
	}
	if l.JSON {
		return printLine(l.Client, f)
	}
	if l.Quiet {
		_, err := fmt.Fprintln(l.App.Stdout, e.ID)
		return err
	}
	if sent.Error != nil {
		result += "  " + sent.Error.Code + ": " + sent.Error.Message
	}
	_, err := fmt.Fprintln(l.App.Stdout, cli.Printable(fmt.Sprintf("%s  %-24s  %s  %5d ms  %s",
		l.App.Clock().Format(time.TimeOnly), e.Type, e.ID, f.DurationMS, result)))
	return err
}

// printLine prints one line of NDJSON.
func printLine(c *cli.Client, v any) error {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Stdout, "%s\n", text)
	return err
}
