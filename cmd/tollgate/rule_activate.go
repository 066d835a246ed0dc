package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

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
		return "adds a line; --replace RULE would put it in the place of another"
	}
	return "in the place of " + *v.Replaces
}

func (v *activation) instances() string {
	return fmt.Sprintf("%d of %d have its rules", v.Instances.Ready, v.Instances.Total)
}

func ruleSetPath(id, below string) string { return "/v1/rule-sets/" + url.PathEscape(id) + below }

func (a *app) ruleActivateCommand() *cobra.Command {
	ruleSet, replace, at, key, position, noWait := "", "", "", "", 0, false
	var accounts []string
	c := &cobra.Command{
		Use:   "activate RULE",
		Short: "Put a rule in force at a time",
		Long: `Put a rule in force: make the next version of a rule set, with the rule in the
place of the one that --replace cites, or of the version before it, and give it
to merchant accounts at a time. A rule of another name without --replace adds its
lines to those of the others. Until then every instance of the service loads it.
Payments that exist are captured with the rules that they were created with.

Without --accounts it is for all that use the rule set, without --rule-set for
the one that the accounts use. --at is a time (RFC 3339) or how long from now
(2h, by the service's clock); without it, it is now, and the command waits until
it is so.`,
		Example: `  tollgate rule activate rule:my_fee@v1 --replace rule:card_fee@v2 --accounts $TOLLGATE_MERCHANT_ACCOUNT
  tollgate rule activate rule:my_fee@v2 --accounts $TOLLGATE_MERCHANT_ACCOUNT
  tollgate rule activate rule:my_fee@v2 --rule-set $RULE_SET --at 2026-12-01T00:00:00+01:00`,
		Args: cobra.ExactArgs(1),
	}
	a.clientCommand(c, func(ctx context.Context, api *client, args []string) error {
		request := map[string]any{"rule": args[0]}
		if replace != "" {
			if _, err := tollgate.ParseCitation(replace); err != nil {
				return usageError(fmt.Errorf("--replace: %w", err))
			}
			request["replaces"] = replace
		}
		if at != "" {
			when, err := momentAhead(ctx, api, at)
			if err != nil {
				return err
			}
			request["at"] = when
		}
		if position != 0 {
			request["position"] = position
		}
		if len(accounts) > 0 {
			request["merchant_account_ids"] = accounts
		}
		set, err := api.ruleSetOf(ctx, ruleSet, accounts)
		if err != nil {
			return err
		}
		body, err := api.post(ctx, ruleSetPath(set, "/activations"), request, a.idempotencyKey(key))
		if err == nil && at == "" && !noWait {
			body, err = api.awaitActivation(ctx, body)
		}
		if err != nil {
			return err
		}
		return api.showActivation(body)
	})
	f := c.Flags()
	f.StringVar(&ruleSet, "rule-set", "", "the rule set to change")
	f.StringSliceVar(&accounts, "accounts", nil, "merchant accounts, separated by commas")
	f.StringVar(&at, "at", "", "when: an RFC 3339 time, or how long from now, such as 2h")
	f.StringVar(&replace, "replace", "", "citation of the rule in force whose place it takes (default: its version before)")
	f.IntVar(&position, "position", 0, "where a rule stands that adds a line, from 1 (default: at the end)")
	f.BoolVar(&noWait, "no-wait", false, "do not wait until it is in force")
	keyFlag(c, &key)
	return c
}

// ruleSetOf is a rule set that was named, or the one that accounts use.
func (c *client) ruleSetOf(ctx context.Context, named string, accounts []string) (string, error) {
	if named != "" {
		return named, nil
	}
	if len(accounts) == 0 {
		return "", usageError(errors.New("name the rule set with --rule-set, or accounts that use it with --accounts"))
	}
	body, err := c.get(ctx, "/v1/merchant-accounts/"+url.PathEscape(accounts[0]), nil)
	if err != nil {
		return "", err
	}
	var account struct {
		RuleSet tollgate.RuleSet `json:"rule_set"`
	}
	err = parse(body, &account)
	return account.RuleSet.ID, err
}

// awaitActivation asks for an activation until it is no longer to come.
func (c *client) awaitActivation(ctx context.Context, body jsontext.Value) (jsontext.Value, error) {
	pause, said := 50*time.Millisecond, ""
	for {
		var v activation
		if err := parse(body, &v); err != nil {
			return nil, err
		}
		if v.Status != "scheduled" {
			return body, nil
		}
		if v.Instances != nil && v.instances() != said {
			said = v.instances()
			fmt.Fprintf(c.a.stderr, "instances: %s\n", said)
		}
		select {
		case <-ctx.Done():
			return nil, unavailableError(errors.New("not waiting any longer; it happens without this command"))
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
		var err error
		if body, err = c.get(ctx, ruleSetPath(v.RuleSetID, "/activations/"+url.PathEscape(v.ID)), nil); err != nil {
			return nil, err
		}
	}
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

// momentAhead reads --at, a time or how long it is until then. The service's
// clock is read to the second; what is asked for must not be over for that.
func momentAhead(ctx context.Context, api *client, text string) (tollgate.Instant, error) {
	if ahead, err := time.ParseDuration(text); err == nil && ahead >= 0 {
		now, err := api.now(ctx)
		return tollgate.At(now.Add(ahead + time.Second)), err
	}
	at, err := tollgate.ParseInstant(text)
	if err != nil {
		return 0, usageError(fmt.Errorf("--at: %q is neither an RFC 3339 time such as 2026-12-01T00:00:00+01:00 nor how long from now, such as 2h", text))
	}
	return at, nil
}
