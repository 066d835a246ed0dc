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

// activation is what the command line shows of an activation.
type activation struct {
	ID          string             `json:"id"`
	Kind        string             `json:"kind"`
	RuleSetID   string             `json:"rule_set_id"`
	Rule        *string            `json:"rule"`
	Replaces    *string            `json:"replaces"`
	FromVersion int64              `json:"from_version"`
	ToVersion   int64              `json:"to_version"`
	Rules       []tollgate.RuleRef `json:"rules"`
	Accounts    []string           `json:"merchant_account_ids"`
	At          string             `json:"at"`
	Status      string             `json:"status"`
	ActivatedAt *string            `json:"activated_at"`
	EndedAt     *string            `json:"ended_at"`
	Failure     *string            `json:"failure_reason"`
	Instances   *struct {
		Ready   int `json:"ready"`
		Total   int `json:"total"`
		Failing []struct {
			ID    string `json:"id"`
			Error string `json:"error"`
		} `json:"failing"`
	} `json:"instances"`
	Comparison *feeComparison `json:"comparison"` // in the answer that makes it, or would
}

func (v *activation) table() *table {
	t := &table{}
	t.row(v.Kind, v.ID)
	t.row("rule set", fmt.Sprintf("%s, version %d to %d", v.RuleSetID, v.FromVersion, v.ToVersion))
	if v.Rule != nil {
		t.row("rule", *v.Rule+" "+v.effect())
	}
	for i, ref := range v.Rules {
		name := ""
		if i == 0 {
			name = "rules"
		}
		t.row(name, ref.Rule.String())
	}
	t.row("accounts", strings.Join(v.Accounts, ", "))
	t.row("at", v.At)
	t.row("status", v.Status)
	if v.Failure != nil {
		t.row("", *v.Failure)
	}
	if v.ActivatedAt != nil {
		t.row("in force", *v.ActivatedAt)
	}
	if v.EndedAt != nil {
		t.row("ended", *v.EndedAt)
	}
	if v.Instances != nil {
		t.row("instances", v.instances())
		for _, f := range v.Instances.Failing {
			t.row("", f.ID+": "+f.Error)
		}
	}
	return t
}

// effect says what becomes of a quote's lines.
func (v *activation) effect() string {
	if v.Replaces == nil {
		return "beside the others"
	}
	return "in the place of " + *v.Replaces
}

func (v *activation) instances() string {
	return fmt.Sprintf("%d of %d have its rules", v.Instances.Ready, v.Instances.Total)
}

func (c *client) showActivation(body jsontext.Value) error {
	var v activation
	if err := parse(body, &v); err != nil {
		return err
	}
	if err := c.show(body, v.ID, v.table()); err != nil {
		return err
	}
	if v.Status == "failed" {
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
		return showAll(ctx, api, ruleSetPath(args[0], "/activations"), url.Values{}, t, func(v *activation) string {
			t.row(v.At, v.Kind, v.Status, fmt.Sprintf("%d to %d", v.FromVersion, v.ToVersion), deref(v.Rule), deref(v.Replaces), fmt.Sprint(len(v.Accounts)), v.ID)
			return v.ID
		})
	})
}
