package rules

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

func activationTable(v *tollgate.ActivationAnswer) *cli.Table {
	t := &cli.Table{}
	t.Row(string(v.Kind), v.ID)
	t.Row("rule set", fmt.Sprintf("%s, version %d to %d", v.RuleSetID, v.FromVersion, v.ToVersion))
	if v.Rule != nil {
		t.Row("rule", v.Rule.String()+" "+effect(v))
	}
	for i, ref := range v.Rules {
		name := ""
		if i == 0 {
			name = "rules"
		}
		t.Row(name, ref.Rule.String())
	}
	t.Row("accounts", strings.Join(v.MerchantAccountIDs, ", "))
	t.Row("at", v.At.String())
	t.Row("status", string(v.Status))
	if v.FailureReason != nil {
		t.Row("", *v.FailureReason)
	}
	if v.ActivatedAt != 0 {
		t.Row("in force", v.ActivatedAt.String())
	}
	if v.EndedAt != 0 {
		t.Row("ended", v.EndedAt.String())
	}
	if v.Instances != nil {
		t.Row("instances", readiness(v.Instances))
		for _, f := range v.Instances.Failing {
			t.Row("", f.ID+": "+f.Error)
		}
	}
	return t
}

// effect says what becomes of a quote's lines.
func effect(v *tollgate.ActivationAnswer) string {
	if v.Replaces == nil {
		return "beside the others"
	}
	return "in the place of " + v.Replaces.String()
}

func readiness(i *tollgate.InstancesReady) string {
	return fmt.Sprintf("%d of %d have its rules", i.Ready, i.Total)
}

func showActivation(c *cli.Client) func(cli.Raw, error) error {
	return func(body cli.Raw, err error) error {
		body, v, err := cli.Read[tollgate.ActivationAnswer](body, err)
		if err == nil {
			err = c.Show(body, v.ID, activationTable(&v))
		}
		if err == nil && v.Status == tollgate.ActivationFailed {
			err = errors.New("the activation has failed; nothing was changed")
		}
		return err
	}
}

func ruleRollbackCommand(a *cli.App) *cobra.Command {
	key := ""
	var accounts []string
	c := &cobra.Command{
		Use:   "rollback [RULE_SET]",
		Short: "Go back to the version before, at once",
		Long: `Give merchant accounts the version of their rule set back that they had before
its latest activation, at once: those of --accounts, or all that still have what
the latest activation in force gave them. What is scheduled for them is canceled.`,
		Example: `  tollgate rule rollback $RULE_SET
  tollgate rule rollback --accounts $TOLLGATE_MERCHANT_ACCOUNT`,
		Args: cobra.MaximumNArgs(1),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		set, err := ruleSetOf(ctx, api, strings.Join(args, ""), accounts)
		if err != nil {
			return err
		}
		return showActivation(api)(api.Post(ctx, ruleSetPath(set, "/rollback"), map[string]any{"merchant_account_ids": accounts}, a.IdempotencyKey(key)))
	})
	c.Flags().StringSliceVar(&accounts, "accounts", nil, "merchant accounts, separated by commas")
	cli.KeyFlag(c, &key)
	return c
}

func ruleCancelCommand(a *cli.App) *cobra.Command {
	key := ""
	c := &cobra.Command{
		Use:     "cancel RULE_SET ACTIVATION",
		Short:   "Cancel an activation that is still to come",
		Example: "  tollgate rule cancel $RULE_SET $ACTIVATION",
		Args:    cobra.ExactArgs(2),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		return showActivation(api)(api.Post(ctx, ruleSetPath(args[0], "/activations/"+url.PathEscape(args[1])+"/cancel"), nil, a.IdempotencyKey(key)))
	})
	cli.KeyFlag(c, &key)
	return c
}

func ruleActivationsCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "activations RULE_SET",
		Short:   "List activations and rollbacks, the newest first",
		Example: "  tollgate rule activations $RULE_SET",
		Args:    cobra.ExactArgs(1),
	}
	return a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		t := &cli.Table{}
		t.Row("AT", "KIND", "STATUS", "VERSION", "RULE", "REPLACES", "ACCOUNTS", "ID")
		return cli.ShowAll(ctx, api, ruleSetPath(args[0], "/activations"), url.Values{}, t, func(v *tollgate.Activation) string {
			t.Row(v.At.String(), string(v.Kind), string(v.Status), fmt.Sprintf("%d to %d", v.FromVersion, v.ToVersion),
				cited(v.Rule), cited(v.Replaces), fmt.Sprint(len(v.MerchantAccountIDs)), v.ID)
			return v.ID
		})
	})
}

// cited is a citation that need not be there.
func cited(c *tollgate.Citation) string {
	if c == nil {
		return "-"
	}
	return c.String()
}
