package keys

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
	"tollgate/handlers/keyring"
	"tollgate/handlers/secret"
)

func resealCommand(a *cli.App) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "reseal",
		Short: "Encrypt again what lies under the secret key before",
		Long: `Encrypt again what lies under the secret key before: the secrets of webhook
endpoints, and the keys that sign access tokens and audit records. The service runs
meanwhile.

  1. Make a secret key ('tollgate key new secret').
  2. Start every serve and work again, with the new key as TOLLGATE_SECRET_KEY and
     the one before as TOLLGATE_SECRET_KEY_PREVIOUS. They go on to encrypt with the
     one before, so that it does not matter who is first.
  3. Run this, with both. It refuses while a process lacks the new key.
  4. Keep TOLLGATE_SECRET_KEY_PREVIOUS for 30 days: cursors that were given out
     before are read with it.

It can be stopped and run again. Exit code 1 says that the key before is still
needed for something in Redis, and until when.`,
		Example: `  export TOLLGATE_SECRET_KEY=.tollgate/secret-2.key TOLLGATE_SECRET_KEY_PREVIOUS=.tollgate/secret.key
  tollgate key reseal`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd, a, true, func(ctx context.Context, k *keyring.Keyring) error { return reseal(ctx, a, k, asJSON) })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func reseal(ctx context.Context, a *cli.App, k *keyring.Keyring, asJSON bool) error {
	show := cli.NewProgress(a.Stderr, "webhook endpoints looked at")
	r, err := k.Reseal(ctx, func(r keyring.Resealed) { show.Show(int64(r.Looked), 0) })
	show.End()
	if lacking, ok := errors.AsType[*keyring.LackingError](err); ok {
		return cli.RefusedError(lacking)
	}
	if err != nil {
		return err
	}
	if asJSON {
		err = a.PrintJSON(r)
	} else {
		_, err = fmt.Fprintf(a.Stdout, "everybody encrypts with the secret key %s\n%d signing keys, %d audit keys and %d webhook endpoints were encrypted again\n", r.SecretKey, r.SigningKeys, r.AuditKeys, r.Endpoints)
	}
	switch {
	case err != nil:
		return err
	case len(r.Unreadable) > 0:
		return cli.RefusedError(fmt.Errorf("no key opens these: %s", strings.Join(r.Unreadable, ", ")))
	case r.KeepUntil != 0:
		return cli.RefusedError(fmt.Errorf("kept answers may need the key before until %s: run this again then", r.KeepUntil.Time().Format(time.RFC3339)))
	}
	return nil
}

func idCommand(a *cli.App) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "id",
		Short: "Print the ids of the secret keys that are set",
		Long: `Print the ids of the secret keys that are set, the newest first. They tell nothing of
the keys. A copy of 'tollgate backup' names the key that it needs by its id.`,
		Example: `  tollgate key id`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := a.Config(cmd)
			keys := c.SecretKeys()
			if err := c.Err(); err != nil {
				return err
			}
			ids := []string{}
			for _, k := range keys {
				ids = append(ids, secret.ID(k))
			}
			if asJSON {
				return a.PrintJSON(ids)
			}
			_, err := fmt.Fprintln(a.Stdout, strings.Join(ids, "\n"))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
