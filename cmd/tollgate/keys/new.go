package keys

import (
	"encoding/base64"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
	"tollgate/handlers/auth"
)

func newCommand(a *cli.App) *cobra.Command {
	newKey := &cobra.Command{
		Use:   "new",
		Short: "Make a key",
		Long: `Make a key.

  signing  a key for access tokens, for TOLLGATE_SIGNING_KEY; without it the
           service makes its own
  client   a client's key pair: the private half is its TOLLGATE_CLIENT_JWK,
           the public half goes into the provisioning file
  secret   the server's 32 random bytes: TOLLGATE_SECRET_KEY

  rule-signer  the key pair of a team that publishes pricing rules: the private
               half signs (rule publish --key), the public half goes into the
               provisioning file`,
	}
	newKey.AddCommand(
		newPairCommand(a, "rule-signer", "Make the key pair of a team that publishes pricing rules"),
		newKeyCommand(a, "signing", "Make the server's key for access tokens", "",
			func() ([]byte, []byte, error) {
				private, err := auth.GenerateSigningKey(a.Entropy)
				return private, nil, err
			}),
		newPairCommand(a, "client", "Make a client's key pair"),
		newKeyCommand(a, "secret", "Make the server's secret for cursors and webhook secrets", "",
			func() ([]byte, []byte, error) {
				key := make([]byte, 32)
				_, err := io.ReadFull(a.Entropy, key)
				return []byte(base64.StdEncoding.EncodeToString(key)), nil, err
			}))
	return newKey
}

func newPairCommand(a *cli.App, kind, short string) *cobra.Command {
	alg := "ES256"
	c := newKeyCommand(a, kind, short, `

Without --out both halves are printed, the private one first. With it the
private half goes to the file and the public one is printed.`,
		func() ([]byte, []byte, error) { return auth.GenerateClientKey(a.Entropy, alg) })
	c.Flags().StringVar(&alg, "alg", alg, "ES256, Ed25519, EdDSA or PS256")
	return c
}

func newKeyCommand(a *cli.App, kind, short, long string, generate func() (private, public []byte, err error)) *cobra.Command {
	out := ""
	c := &cobra.Command{
		Use:     kind,
		Short:   short,
		Long:    short + "." + long,
		Example: fmt.Sprintf("  tollgate key new %s --out .tollgate/%s.key", kind, kind),
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			private, public, err := generate()
			if err != nil {
				return cli.UsageError(err)
			}
			if out == "" {
				if _, err := fmt.Fprintf(a.Stdout, "%s\n", private); err != nil {
					return err
				}
			} else if err := cli.WriteNew(out, append(private, '\n')); err != nil {
				return cli.UsageError(err)
			}
			if public == nil {
				return nil
			}
			_, err = fmt.Fprintf(a.Stdout, "%s\n", public)
			return err
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "write the private key to this new file, mode 0600, instead of printing it")
	return c
}
