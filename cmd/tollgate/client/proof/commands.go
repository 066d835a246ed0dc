package proof

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
	"tollgate/handlers/audit"
	"tollgate/handlers/tlog/auditor"
	"tollgate/handlers/tlog/checkpoint"
)

// Commands stand under audit.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{verifyCommand(a), proveCommand(a), checkpointCommand(a), exportCommand(a)}
}

func verifyCommand(a *cli.App) *cobra.Command {
	var files, keys []string
	c := &cobra.Command{
		Use:   "verify",
		Short: "Verify that nothing in the audit record was changed or removed",
		Long: `Read the whole audit record and compare it with what was sealed and signed. Entries
that were changed, removed, inserted or moved are named, and the exit code is 1.

To find out whether the record was rolled back or written anew, keep a checkpoint
outside ('tollgate audit checkpoint >FILE') and name it with --checkpoint. To trust no
other key than the one you know, name it with --key.

Where Redis once lost data, another history began, and with it another tree. The
output shows the seam. That alone is no fault.`,
		Example: `  tollgate audit verify
  tollgate audit verify --checkpoint yesterday.txt`,
		Args: cobra.NoArgs,
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, _ []string) error {
		o, err := options(a, files, keys)
		if err != nil {
			return err
		}
		report, err := auditor.Verify(ctx, source(api), o)
		if err != nil {
			return err
		}
		return show(api, report)
	})
	c.Flags().StringArrayVar(&files, "checkpoint", nil, "file with a checkpoint of before; may be given several times")
	c.Flags().StringArrayVar(&keys, "key", nil, "verifier key that may have signed, as 'key' in a checkpoint, or public key of 'tollgate key list'; may be given several times; none: those that the service names")
	return c
}

// options reads the checkpoints and keys that the auditor has.
func options(a *cli.App, files, keys []string) (o auditor.Options, err error) {
	for _, file := range files {
		note, err := a.ReadInput(file)
		if err != nil {
			return o, cli.UsageError(err)
		}
		if _, err := checkpoint.Parse(string(note)); err != nil {
			return o, cli.UsageError(fmt.Errorf("%s: %w", file, err))
		}
		o.Earlier = append(o.Earlier, string(note))
	}
	o.Keys, err = publicKeys(keys)
	return o, err
}

func publicKeys(vkeys []string) (keys []ed25519.PublicKey, err error) {
	for _, vkey := range vkeys {
		k, err := checkpoint.PublicKey(vkey)
		if err != nil {
			return nil, cli.UsageError(fmt.Errorf("--key: %w", err))
		}
		keys = append(keys, k)
	}
	return keys, nil
}

var errFound = errors.New("the audit record is not what was sealed")

func show(api *cli.Client, report auditor.Report) error {
	if api.JSON {
		if err := api.App.PrintJSON(report); err != nil {
			return err
		}
	} else if err := print(api, report); err != nil {
		return err
	}
	if len(report.Findings) > 0 {
		return cli.RefusedError(errFound)
	}
	return nil
}

func print(api *cli.Client, report auditor.Report) error {
	out := api.App.Stdout
	for _, f := range report.Findings {
		if _, err := fmt.Fprintln(out, f); err != nil {
			return err
		}
	}
	if api.Quiet {
		return nil
	}
	if len(report.Trees) == 0 {
		_, err := fmt.Fprintln(out, "nothing is sealed yet: 'tollgate work' seals entries within a minute")
		return err
	}
	for _, tree := range report.Trees {
		if _, err := fmt.Fprintf(out, "%s: %d leaves, %d entries as they were sealed, %d no longer kept, %d not sealed yet\n  sealed at %s\n  key %s\n",
			tree.HistoryID, tree.Size, tree.Checked, tree.KeptFrom, tree.Unsealed, tree.SealedAt, tree.Key); err != nil {
			return err
		}
		if tree.Before == "" {
			continue
		}
		if _, err := fmt.Fprintf(out, "  goes on from %s, of which %d leaves were lost with Redis' data\n", tree.Before, tree.Lost); err != nil {
			return err
		}
	}
	if len(report.Findings) > 0 {
		return nil
	}
	_, err := fmt.Fprintln(out, "ok: nothing was changed, removed, inserted or moved")
	return err
}

func proveCommand(a *cli.App) *cobra.Command {
	var keys []string
	c := &cobra.Command{
		Use:   "prove ENTRY",
		Short: "Prove that an entry is in the audit record",
		Long: `Print the proof that an entry is in the audit record, as JSON: its exact text, the
hashes from its leaf up to the root, and the signed checkpoint. It is verified before
it is printed. Anybody can verify it again without this service, for example with
scripts/audit_verify.py.`,
		Example: `  tollgate audit prove $ENTRY >proof.json
  python3 scripts/audit_verify.py proof.json`,
		Args: cobra.ExactArgs(1),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		body, proof, err := cli.Read[audit.Proof](api.Get(ctx, "/v1/audit/proofs/"+url.PathEscape(args[0]), nil))
		if err != nil {
			return err
		}
		if proof.Index == nil || proof.Note == nil || proof.Key == nil {
			return cli.RefusedError(errors.New("the entry is not sealed yet: 'tollgate work' does it within a minute"))
		}
		if len(keys) == 0 {
			keys = []string{*proof.Key}
		}
		known, err := publicKeys(keys)
		if err != nil {
			return err
		}
		if _, err := auditor.Inclusion(proof.Entry, *proof.Index, proof.Hashes, *proof.Note, known...); err != nil {
			return cli.RefusedError(fmt.Errorf("the proof is not valid: %w", err))
		}
		if api.Quiet {
			_, err = fmt.Fprintln(a.Stdout, proof.ID)
			return err
		}
		return a.PrintJSON(body)
	})
	c.Flags().StringArrayVar(&keys, "key", nil, "verifier key that may have signed; none: the one that the service names")
	return c
}

func checkpointCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "checkpoint",
		Short: "Print the last checkpoint of the audit record, to be kept",
		Long: `Print the last checkpoint of the audit record: a signed note, as C2SP tlog-checkpoint
has it. Keep it where the service cannot reach it. 'tollgate audit verify
--checkpoint FILE' then finds out whether the record was rolled back or written anew.`,
		Example: `  tollgate audit checkpoint >checkpoint.txt`,
		Args:    cobra.NoArgs,
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, _ []string) error {
		row, err := latest(ctx, api, "")
		if err != nil {
			return err
		}
		if row == nil {
			return cli.RefusedError(errors.New("nothing is sealed yet: 'tollgate work' does it within a minute"))
		}
		if api.JSON {
			return api.Show(row, "", nil)
		}
		_, one, err := cli.Read[auditor.Signed](row, nil)
		if err == nil {
			_, err = fmt.Fprint(a.Stdout, one.Note)
		}
		return err
	})
	return c
}
