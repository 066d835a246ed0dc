package rules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

func ruleSetPath(id, below string) string { return "/v1/rule-sets/" + url.PathEscape(id) + below }

// activateFlags are what `rule activate` is told.
type activateFlags struct {
	ruleSet, replace, at, key string
	accounts                  []string
	position                  int
	adds, yes, dryRun, noWait bool
}

func ruleActivateCommand(a *cli.App) *cobra.Command {
	var f activateFlags
	c := &cobra.Command{
		Use:   "activate RULE",
		Short: "Put a rule in force at a time",
		Long: `Put a rule in force: make the next version of a rule set and give it to merchant
accounts at a time. Until then every instance of the service loads the rule.
Payments that exist are captured with the rules that they were created with.

A new version of a rule takes the place of the one before. A rule of another name
takes the place of the rule that --replace names, or with --add charges beside
the others.

The command shows what sample amounts are charged before and after, and asks.
--yes does not ask, for scripts. --dry-run only shows it.

Without --accounts it is for all that use the rule set, without --rule-set for
the one that the accounts use. --at is a time (RFC 3339) or how long from now
(2h, by the service's clock); without it, it is now, and the command waits until
it is so.`,
		Example: `  tollgate rule activate rule:my_fee@v1 --replace card_fee --accounts $TOLLGATE_MERCHANT_ACCOUNT
  tollgate rule activate rule:my_fee@v2 --accounts $TOLLGATE_MERCHANT_ACCOUNT --dry-run
  tollgate rule activate rule:my_fee@v2 --rule-set $RULE_SET --at 2026-12-01T00:00:00+01:00 --yes`,
		Args: cobra.ExactArgs(1),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		if !f.yes && !f.dryRun && !a.AtTerminal() {
			return cli.UsageError(errors.New("standard input is not a terminal, so nobody can be asked; say --yes to activate, or --dry-run to see what it changes"))
		}
		set, request, err := activationRequest(ctx, api, args[0], &f)
		if err != nil {
			return err
		}
		if !f.yes {
			if goes, err := askActivation(ctx, api, set, request, &f); err != nil || !goes {
				return err
			}
		}
		body, err := api.Post(ctx, ruleSetPath(set, "/activations"), request, a.IdempotencyKey(f.key))
		if err != nil {
			return hinted(err, &f)
		}
		if f.yes {
			if err := showSamples(api, body); err != nil {
				return err
			}
		}
		if f.at == "" && !f.noWait {
			if body, err = awaitActivation(ctx, api, body); err != nil {
				return err
			}
		}
		return showActivation(api)(body, nil)
	})
	flags := c.Flags()
	flags.StringVar(&f.ruleSet, "rule-set", "", "the rule set to change")
	flags.StringSliceVar(&f.accounts, "accounts", nil, "merchant accounts, separated by commas")
	flags.StringVar(&f.at, "at", "", "when: an RFC 3339 time, or how long from now, such as 2h")
	flags.StringVar(&f.replace, "replace", "", "the rule in force whose place it takes: a name or a citation (default: its version before)")
	flags.BoolVar(&f.adds, "add", false, "charge it beside the rules in force")
	flags.IntVar(&f.position, "position", 0, "where a rule stands that is added, from 1 (default: at the end)")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only show what it would change")
	flags.BoolVar(&f.noWait, "no-wait", false, "do not wait until it is in force")
	c.MarkFlagsMutuallyExclusive("replace", "add")
	c.MarkFlagsMutuallyExclusive("yes", "dry-run")
	cli.KeyFlag(c, &f.key)
	return c
}

// activationRequest is the rule set and the body of the request.
func activationRequest(ctx context.Context, c *cli.Client, rule string, f *activateFlags) (set string, request map[string]any, err error) {
	request = map[string]any{"rule": rule}
	if f.replace != "" {
		if _, err := tollgate.ParseRule(f.replace); err != nil {
			return "", nil, cli.UsageError(fmt.Errorf("--replace: %w, nor a rule's name such as card_fee", err))
		}
		request["replaces"] = f.replace
	}
	if f.adds {
		request["adds"] = true
	}
	if f.at != "" {
		at, err := momentAhead(ctx, c, f.at)
		if err != nil {
			return "", nil, err
		}
		request["at"] = at
		c.App.Pin("at", at.String())
	}
	if f.position != 0 {
		request["position"] = f.position
	}
	if len(f.accounts) > 0 {
		request["merchant_account_ids"] = f.accounts
	}
	if set, err = ruleSetOf(ctx, c, f.ruleSet, f.accounts); err == nil {
		c.App.Pin("rule-set", set)
	}
	return set, request, err
}

// askActivation shows what an activation would change and reports whether it is
// to be made. What is then asked for names the rule that was shown as replaced.
func askActivation(ctx context.Context, c *cli.Client, set string, request map[string]any, f *activateFlags) (goes bool, err error) {
	asked := maps.Clone(request)
	asked["dry_run"] = true
	body, err := c.Post(ctx, ruleSetPath(set, "/activations"), asked, "")
	if err != nil {
		return false, hinted(err, f)
	}
	var v tollgate.ActivationAnswer
	if err := cli.Parse(body, &v); err != nil {
		return false, err
	}
	if f.dryRun && c.JSON {
		return false, c.App.PrintJSON(body)
	}
	if err := showSamples(c, body); err != nil || f.dryRun {
		return false, err
	}
	if v.Replaces != nil {
		request["replaces"] = v.Replaces.String()
		c.App.Pin("replace", v.Replaces.String())
	}
	question := fmt.Sprintf("Put %s in force %s for %d accounts?", cited(v.Rule), effect(&v), len(v.MerchantAccountIDs))
	if len(v.MerchantAccountIDs) == 1 {
		question = fmt.Sprintf("Put %s in force %s for %s?", cited(v.Rule), effect(&v), v.MerchantAccountIDs[0])
	}
	goes, err = confirm(c.App, question)
	if err == nil && !goes {
		err = errors.New("not activated; nothing was changed")
	}
	c.App.Pin("yes", "")
	return goes, err
}

// showSamples prints what an activation changes: on standard error when standard
// output is for programs.
func showSamples(c *cli.Client, body jsontext.Value) error {
	var v tollgate.ActivationAnswer
	if err := cli.Parse(body, &v); err != nil || v.Comparison == nil {
		return err
	}
	out := c.App.Stdout
	if c.JSON || c.Quiet {
		out = c.App.Stderr
	}
	_, err := fmt.Fprintf(out, "before  %s\nafter   %s\n\n%s\n", rulesText(v.Comparison.Before), rulesText(v.Comparison.After), samplesTable(v.Comparison))
	return err
}

func rulesText(rules []tollgate.Citation) string {
	names := make([]string, len(rules))
	for i, rule := range rules {
		names[i] = rule.String()
	}
	return cli.Joined(names, "no rules")
}

// hinted adds the flags to a refusal that asks whether a rule adds or replaces.
func hinted(err error, f *activateFlags) error {
	var refused *cli.Refusal
	if errors.As(err, &refused) && !refused.AsJSON && refused.Code == tollgate.CodeParameterMissing && refused.Param == "replaces" && f.replace == "" {
		return fmt.Errorf("%w\n\nSay --replace NAME to put it in the place of one of these rules, or --add to charge it beside them", err)
	}
	return err
}

// ruleSetOf is a rule set that was named, or the one that accounts use.
func ruleSetOf(ctx context.Context, c *cli.Client, named string, accounts []string) (string, error) {
	if named != "" {
		return named, nil
	}
	if len(accounts) == 0 {
		return "", cli.UsageError(errors.New("name the rule set with --rule-set, or accounts that use it with --accounts"))
	}
	body, err := c.Get(ctx, "/v1/merchant-accounts/"+url.PathEscape(accounts[0]), nil)
	if err != nil {
		return "", err
	}
	var account tollgate.MerchantAccount
	err = cli.Parse(body, &account)
	return account.RuleSet.ID, err
}

// awaitActivation asks for an activation until it is no longer to come.
func awaitActivation(ctx context.Context, c *cli.Client, body jsontext.Value) (jsontext.Value, error) {
	pause, said := 50*time.Millisecond, ""
	for {
		var v tollgate.ActivationAnswer
		if err := cli.Parse(body, &v); err != nil {
			return nil, err
		}
		if v.Status != tollgate.ActivationScheduled {
			return body, nil
		}
		if v.Instances != nil && readiness(v.Instances) != said {
			said = readiness(v.Instances)
			fmt.Fprintf(c.App.Stderr, "instances: %s\n", said)
		}
		select {
		case <-ctx.Done():
			return nil, cli.UnavailableError(errors.New("not waiting any longer; it happens without this command"))
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
		var err error
		if body, err = c.Get(ctx, ruleSetPath(v.RuleSetID, "/activations/"+url.PathEscape(v.ID)), nil); err != nil {
			return nil, err
		}
	}
}

// momentAhead reads --at, a time or how long it is until then. The service's
// clock is read to the second; what is asked for must not be over for that.
func momentAhead(ctx context.Context, api *cli.Client, text string) (tollgate.Instant, error) {
	if ahead, err := time.ParseDuration(text); err == nil && ahead >= 0 {
		now, err := api.Now(ctx)
		return tollgate.At(now.Add(ahead + time.Second)), err
	}
	at, err := tollgate.ParseInstant(text)
	if err != nil {
		return 0, cli.UsageError(fmt.Errorf("--at: %q is neither an RFC 3339 time such as 2026-12-01T00:00:00+01:00 nor how long from now, such as 2h", text))
	}
	return at, nil
}
