package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/tracing"
	"tollgate/handlers/auth"
	"tollgate/handlers/connection"
	"tollgate/handlers/keyring"
	"tollgate/handlers/secret"
	"tollgate/rediskv"
	"tollgate/rediskv/gcra"
	"tollgate/rediskv/health"
)

func doctorCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look whether settings, clocks, Redis, the service and its webhooks are as they must be",
		Long: `Look at what you name: a Redis, a service, or both.

With TOLLGATE_REDIS_URL: the settings of serve and work, this machine's clock, and
Redis with its version, role, persistence, eviction, memory and replicas, and
whether it takes a write. It works on a Redis that takes no writes. With
TOLLGATE_ARCHIVE_URL also the archive: whether it can be written and read, and
has what Redis refers to.

With TOLLGATE_URL and a client's key: whether the service answers and is ready, its
clock, whether both sides know the same routes, your token and scopes, accounts and
rules that charge nothing, and each webhook endpoint: its state, what did not
arrive, and whether it can be reached from this machine.

Each line is ok, unknown (nobody says), warn or fail, and says what to do. Nothing
is changed but a heartbeat in Redis, and a file that is put into the archive and
removed. Exit code 1 when anything fails, 3 when Redis or the service cannot be
reached.`,
		Example: `  tollgate doctor --redis-url redis://127.0.0.1:6379
  tollgate doctor --url https://pay.example
  tollgate doctor --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return doctor(cmd.Context(), a, a.Config(cmd))
		},
	}
	cmd.Flags().Bool("json", false, "print JSON")
	return cmd
}

// diagnosis is what doctor prints.
type diagnosis struct {
	Status string           `json:"status"` // ok, warn or fail
	Checks []health.Finding `json:"checks"`
}

// doctorTimeout bounds each question.
const doctorTimeout = 5 * time.Second

func doctor(ctx context.Context, a *cli.App, c *cli.Config) error {
	redis, service := a.Config(c.Command).Text("redis-url"), a.Config(c.Command).Text("url")
	if redis == "" && service == "" {
		return cli.UsageError(errors.New("doctor: set TOLLGATE_REDIS_URL to look at a Redis, or TOLLGATE_URL and a client's key to look at a service, see 'tollgate help doctor'"))
	}
	d := diagnosis{Status: string(health.Fine), Checks: []health.Finding{{Check: "tollgate", Level: health.Fine, Message: "tollgate " + cli.VersionText()}, builtinFinding(ctx)}}
	var away []string
	if redis != "" {
		found, err := doctorRedis(ctx, a, c)
		if err != nil && found == nil {
			return err
		}
		if d.Checks = append(d.Checks, found...); err != nil {
			away = append(away, "redis")
		}
	}
	if service != "" {
		s := examineService(ctx, a, a.Config(c.Command))
		if d.Checks = append(d.Checks, s.found...); s.away {
			away = append(away, "the service")
		}
	}
	for _, f := range d.Checks {
		if f.Level == health.Failure || f.Level == health.Warning && d.Status == string(health.Fine) {
			d.Status = string(f.Level)
		}
	}
	if printed := d.print(a, c); printed != nil {
		return printed
	}
	switch {
	case len(away) > 0:
		return cli.UnavailableError(fmt.Errorf("%s cannot be reached", strings.Join(away, " and ")))
	case d.Status == string(health.Failure):
		return errors.New("not everything is as it must be")
	}
	return nil
}

// doctorRedis looks at the settings and at Redis. With an error and findings, Redis cannot
// be reached.
func doctorRedis(ctx context.Context, a *cli.App, c *cli.Config) ([]health.Finding, error) {
	o := rediskv.Options{
		URL: c.Text("redis-url"), WaitReplicas: c.Number("redis-wait-replicas"), Clock: a.Clock, Wall: a.Clock, Entropy: a.Entropy,
		Timeout: cmp.Or(a.StoreTimeout, doctorTimeout),
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	found, left, err := health.Examine(ctx, o)
	switch {
	case errors.Is(err, rediskv.ErrRefused):
		found = append(found, health.Finding{Check: "redis", Level: health.Failure, Message: err.Error(), Advice: "look at the user and the password in TOLLGATE_REDIS_URL"})
		err = nil
	case rediskv.Away(err):
		message := err.Error()
		if e, ok := errors.AsType[*tollgate.Error](err); ok && e.Cause != nil {
			message = e.Cause.Error()
		}
		found = append(found, health.Finding{Check: "redis", Level: health.Failure, Message: message, Advice: "look whether it runs, and at TOLLGATE_REDIS_URL"})
	case err != nil:
		return nil, cli.UsageError(err)
	}
	if err == nil {
		found = append(found, keysFinding(left.Keyring, tollgate.At(a.Clock())))
		more, failed := archiveFindings(ctx, a, a.Config(c.Command), o)
		found, err = append(found, more...), failed
	}
	return append(settingsFindings(c, left.Seal), found...), err
}

// keysFinding is of the keys that sign access tokens.
func keysFinding(text string, now tollgate.Instant) health.Finding {
	f := health.Finding{Check: "signing_keys", Level: health.Fine}
	ring, err := keyring.Parse(text)
	switch key := ring.Signing(now); {
	case err != nil:
		f.Level, f.Message, f.Advice = health.Failure, err.Error(), "an instance that runs puts them back; else 'tollgate key rotate --now' begins anew"
	case key != nil && ring.Late(now):
		f.Level, f.Message, f.Advice = health.Warning, fmt.Sprintf("%s signs since %s, and there is no next one", key.ID, key.ActiveAt), "look whether 'tollgate work' runs"
	case key != nil:
		f.Message = fmt.Sprintf("%s signs since %s", key.ID, key.ActiveAt)
	case len(ring.External) > 0:
		f.Message = fmt.Sprintf("%d keys were given by TOLLGATE_SIGNING_KEY", len(ring.External))
	default:
		f.Level, f.Message = health.Unknown, "there are none yet: the first 'tollgate serve' makes one"
	}
	return f
}

// checkSeal says whether a secret key, or the one that it takes the place of, is that of
// a seal.
func checkSeal(seal string, key []byte, previous string) error {
	keys := [][]byte{key}
	if before, err := cli.ReadSecretKey(previous); err == nil { // else its own finding says so
		keys = append(keys, before)
	}
	vault, err := secret.NewVault(keys...)
	if err != nil {
		return err
	}
	return vault.Use([]byte(seal))
}

// settingsFindings are of the settings that processes need, where they are given here.
// seal was made with the secret key of those that have run on this Redis; empty: none
// has.
func settingsFindings(c *cli.Config, seal string) []health.Finding {
	var found []health.Finding
	for _, s := range []struct {
		flag  string
		check func(text string) error
	}{
		{"issuer", checkIssuer},
		{"signing-key", func(text string) error {
			keys, err := cli.ReadJWKs(text)
			if err == nil {
				_, err = auth.ParseSigningKeys(keys...)
			}
			return err
		}},
		{"secret-key", func(text string) error {
			key, err := cli.ReadSecretKey(text)
			if err == nil && seal != "" {
				err = checkSeal(seal, key, c.Text("secret-key-previous"))
			}
			return err
		}},
		{"secret-key-previous", func(text string) error {
			_, err := cli.ReadSecretKey(text)
			return err
		}},
		{"traces-url", tracing.Check},
		{"trusted-proxies", func(text string) error {
			_, err := connection.ParseProxies(text)
			return err
		}},
		{"rate-limits", func(text string) error {
			_, err := gcra.Parse(text)
			return err
		}},
		{"tls-cert", func(text string) error {
			_, err := readPair(text, c.Text("tls-key"))
			return err
		}},
	} {
		name := "TOLLGATE_" + strings.ToUpper(strings.ReplaceAll(s.flag, "-", "_"))
		f := health.Finding{Check: "settings", Level: health.Fine, Message: name + " can be used"}
		if text := c.Text(s.flag); text == "" {
			f.Level, f.Message = health.Unknown, name+" is not set here"
		} else if err := s.check(text); err != nil {
			f.Level, f.Message, f.Advice = health.Failure, fmt.Sprintf("%s: %v", name, err), "see 'tollgate help serve' and 'tollgate help key new'"
		}
		found = append(found, f)
	}
	if overHTTPS(c.Text("issuer")) && c.Text("trusted-proxies") == "" && c.Text("tls-cert") == "" {
		found = append(found, health.Finding{Check: "settings", Level: health.Warning, Message: plainWarning, Advice: plainAdvice})
	}
	return found
}

// print prints it as a table, or as JSON.
func (d diagnosis) print(a *cli.App, c *cli.Config) error {
	if asJSON, _ := c.Command.Flags().GetBool("json"); asJSON {
		return a.PrintJSON(d)
	}
	t := &cli.Table{}
	t.Row("CHECK", "LEVEL", "FINDING")
	for _, f := range d.Checks {
		message := f.Message
		if f.Server != "" {
			message = f.Server + ": " + message
		}
		t.Row(f.Check, string(f.Level), message)
		if f.Advice != "" && f.Level != health.Fine {
			t.Row("", "", "→ "+f.Advice)
		}
	}
	return a.Print(t)
}
