// Package keys is the command key: it makes keys, and looks after those that sign
// access tokens and audit records.
package keys

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/server"
	"tollgate/handlers/keyring"
	"tollgate/handlers/service"
	"tollgate/rediskv/store"
)

// Command is key with all that stands under it.
func Command(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "key",
		Short: "Make keys, and rotate those that sign access tokens",
		Long: `Make keys, and rotate those that sign access tokens. 'key new' needs no
configuration.`,
	}
	c.AddCommand(newCommand(a), listCommand(a), rotateCommand(a), revokeCommand(a), resealCommand(a), idCommand(a))
	return c
}

func listCommand(a *cli.App) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the keys that sign access tokens",
		Long: `List the keys that sign access tokens. 'tollgate work' makes the next one by itself:

  next      published for a day before it signs
  active    signs for 30 days
  retired   published for a day after it signed
  external  given to an instance by TOLLGATE_SIGNING_KEY, which signs with it

Below them are the keys that sign checkpoints of audit records. An auditor names
their public keys to 'tollgate audit verify --key'.`,
		Example: `  tollgate key list
  tollgate key list --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd, a, false, func(ctx context.Context, k *keyring.Keyring) error { return list(ctx, a, k, asJSON) })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func rotateCommand(a *cli.App) *cobra.Command {
	var now, audit, asJSON bool
	c := &cobra.Command{
		Use:   "rotate",
		Short: "Make the next key before it is time",
		Long: `Make the next key before it is time. It signs in a day, when everybody who keeps
the key set has it. With --now it signs at once: whoever verifies access tokens
with a key set of before cannot verify new ones until it is read again. What the
key before has signed stays valid.

With --audit it is the key that signs checkpoints of audit records, and the next
checkpoint is signed by it. Tell auditors who name a key with --key.`,
		Example: `  tollgate key rotate
  tollgate key rotate --now
  tollgate key rotate --audit`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd, a, true, func(ctx context.Context, k *keyring.Keyring) error {
				rotate := k.RotateAudit
				if !audit {
					rotate = func(ctx context.Context) error { return k.Rotate(ctx, now) }
				}
				if err := rotate(ctx); err != nil {
					return refused(err)
				}
				return list(ctx, a, k, asJSON)
			})
		},
	}
	c.Flags().BoolVar(&now, "now", false, "have it sign at once")
	c.Flags().BoolVar(&audit, "audit", false, "rotate the key that signs checkpoints of audit records, at once")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func revokeCommand(a *cli.App) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "revoke KID",
		Short: "Take a key out that others may have",
		Long: `Take a key out that others may have. Within a second every instance refuses what it
signed. If it was the one that signs, the next one signs at once, or a new one
is made. Clients get new tokens by themselves; whoever keeps the key set goes on
trusting the key until the set is read again. Two dashes come before an id that
begins with one, which only a key from outside has.`,
		Example: `  tollgate key revoke Iq0c3hVZ8Fa2YF0P1mJx1yqvEuJg3mZc4w6Qn8oT2kE`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, a, true, func(ctx context.Context, k *keyring.Keyring) error {
				if err := k.Revoke(ctx, args[0]); err != nil {
					return refused(err)
				}
				return list(ctx, a, k, asJSON)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// refused gives what the keys themselves speak against its exit code.
func refused(err error) error {
	if errors.Is(err, keyring.ErrUnknown) || errors.Is(err, keyring.ErrNext) {
		return cli.RefusedError(err)
	}
	return err
}

// with does something with the keys of a deployment. Who writes needs its secret key.
func with(cmd *cobra.Command, a *cli.App, writes bool, do func(context.Context, *keyring.Keyring) error) error {
	c := a.Config(cmd)
	var secrets [][]byte
	if writes {
		secrets = c.SecretKeys()
	}
	return server.WithStore(a, c, func(ctx context.Context, s *store.Store) (err error) {
		config := keyring.Config{Store: s, Entropy: a.Entropy, Clock: a.Clock}
		if writes {
			if config.Vault, err = service.Vault(ctx, s, a.Entropy, secrets...); err != nil {
				return err
			}
		}
		k, err := keyring.New(config)
		if err != nil {
			return err
		}
		return do(ctx, k)
	})
}

// key is one as it is shown.
type key struct {
	ID             string           `json:"kid"`
	State          keyring.State    `json:"state"`
	MadeAt         tollgate.Instant `json:"made_at"`
	ActiveAt       tollgate.Instant `json:"active_at"`
	PublishedUntil tollgate.Instant `json:"published_until"` // null: until a next key signs
	SeenAt         tollgate.Instant `json:"seen_at"`         // of external ones
	PublicKey      []byte           `json:"public_key"`      // of audit keys; empty: in the key set
}

// States of keys that sign checkpoints of audit records.
const (
	stateAudit        keyring.State = "audit"         // signs
	stateAuditRetired keyring.State = "audit_retired" // has signed
)

func list(ctx context.Context, a *cli.App, k *keyring.Keyring, asJSON bool) error {
	ring, err := k.Ring(ctx)
	if err != nil {
		return err
	}
	audit, err := auditKeys(ctx, k)
	if err != nil {
		return err
	}
	now := tollgate.At(a.Clock())
	keys := []key{}
	for i, one := range ring.Keys {
		keys = append(keys, key{ID: one.ID, State: ring.StateOf(i, now), MadeAt: one.MadeAt, ActiveAt: one.ActiveAt, PublishedUntil: ring.RemovedAt(i)})
	}
	for _, one := range ring.External {
		keys = append(keys, key{ID: one.ID, State: keyring.FromOutside, PublishedUntil: one.Until(), SeenAt: one.SeenAt})
	}
	if asJSON {
		return a.PrintJSON(append(keys, audit...))
	}
	if len(keys)+len(audit) == 0 {
		_, err := fmt.Fprintln(a.Stdout, "no keys yet: the first 'tollgate serve' makes one")
		return err
	}
	t := &cli.Table{}
	t.Row("KID", "STATE", "SIGNS FROM", "PUBLISHED UNTIL")
	for _, one := range keys {
		t.Row(one.ID, string(one.State), text(one.ActiveAt), text(one.PublishedUntil))
	}
	if err := a.Print(t); err != nil || len(audit) == 0 {
		return err
	}
	t = &cli.Table{}
	t.Row("AUDIT KEY", "STATE", "SIGNS FROM", "PUBLIC KEY")
	for _, one := range audit {
		t.Row(one.ID, string(one.State), text(one.ActiveAt), base64.StdEncoding.EncodeToString(one.PublicKey))
	}
	if _, err := fmt.Fprintln(a.Stdout); err != nil {
		return err
	}
	return a.Print(t)
}

// auditKeys are those that sign checkpoints of audit records; the last one signs now.
func auditKeys(ctx context.Context, k *keyring.Keyring) (keys []key, err error) {
	ring, err := k.AuditRing(ctx)
	for i, one := range ring.Keys {
		state := stateAuditRetired
		if i == len(ring.Keys)-1 {
			state = stateAudit
		}
		keys = append(keys, key{ID: one.ID, State: state, MadeAt: one.MadeAt, ActiveAt: one.MadeAt, PublicKey: one.Public})
	}
	return keys, err
}

func text(at tollgate.Instant) string {
	if at == 0 {
		return ""
	}
	return at.String()
}
