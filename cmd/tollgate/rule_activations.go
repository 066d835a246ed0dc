package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate"
)

func activationTable(v *tollgate.ActivationAnswer) *table {
	t := &table{}
	t.row(string(v.Kind), v.ID)
	t.row("rule set", fmt.Sprintf("%s, version %d to %d", v.RuleSetID, v.FromVersion, v.ToVersion))
	if v.Rule != nil {
		t.row("rule", v.Rule.String()+" "+effect(v))
	}
	for i, ref := range v.Rules {
		name := ""
		if i == 0 {
			name = "rules"
		}
		t.row(name, ref.Rule.String())
	}
	t.row("accounts", strings.Join(v.MerchantAccountIDs, ", "))
	t.row("at", v.At.String())
	t.row("status", string(v.Status))
	if v.FailureReason != nil {
		t.row("", *v.FailureReason)
	}
	if v.ActivatedAt != 0 {
		t.row("in force", v.ActivatedAt.String())
	}
	if v.EndedAt != 0 {
		t.row("ended", v.EndedAt.String())
	}
	if v.Instances != nil {
		t.row("instances", readiness(v.Instances))
		for _, f := range v.Instances.Failing {
			t.row("", f.ID+": "+f.Error)
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

func (c *client) showActivation(body jsontext.Value) error {
	var v tollgate.ActivationAnswer
	if err := parse(body, &v); err != nil {
		return err
	}
	if err := c.show(body, v.ID, activationTable(&v)); err != nil {
		return err
	}
	if v.Status == tollgate.ActivationFailed {
		return errors.New("the activation has failed; nothing was changed")
	}
	return nil
}

func (a *app) ruleRollbackCommand() *cobra.Command {
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
	a.clientCommand(c, func(ctx context.Context, api *client, args []string) error {
		set, err := api.ruleSetOf(ctx, strings.Join(args, ""), accounts)
		if err != nil {
			return err
		}
		body, err := api.post(ctx, ruleSetPath(set, "/rollback"), map[string]any{"merchant_account_ids": accounts}, a.idempotencyKey(key))
		if err != nil {
			return err
		}
		return api.showActivation(body)
	})
	c.Flags().StringSliceVar(&accounts, "accounts", nil, "merchant accounts, separated by commas")
	keyFlag(c, &key)
	return c
}

func (a *app) ruleCancelCommand() *cobra.Command {
	key := ""
	c := &cobra.Command{
		Use:     "cancel RULE_SET ACTIVATION",
		Short:   "Cancel an activation that is still to come",
		Example: "  tollgate rule cancel $RULE_SET $ACTIVATION",
		Args:    cobra.ExactArgs(2),
	}
	a.clientCommand(c, func(ctx context.Context, api *client, args []string) error {
		body, err := api.post(ctx, ruleSetPath(args[0], "/activations/"+url.PathEscape(args[1])+"/cancel"), nil, a.idempotencyKey(key))
		if err != nil {
			return err
		}
		return api.showActivation(body)
	})
	keyFlag(c, &key)
	return c
}

func (a *app) ruleActivationsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "activations RULE_SET",
		Short:   "List activations and rollbacks, the newest first",
		Example: "  tollgate rule activations $RULE_SET",
		Args:    cobra.ExactArgs(1),
	}
	return a.clientCommand(c, func(ctx context.Context, api *client, args []string) error {
		t := &table{}
		t.row("AT", "KIND", "STATUS", "VERSION", "RULE", "REPLACES", "ACCOUNTS", "ID")
		return showAll(ctx, api, ruleSetPath(args[0], "/activations"), url.Values{}, t, func(v *tollgate.Activation) string {
			t.row(v.At.String(), string(v.Kind), string(v.Status), fmt.Sprintf("%d to %d", v.FromVersion, v.ToVersion),
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
