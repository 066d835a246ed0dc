package dev

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"tollgate"
	"tollgate/cmd/sandbox"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/rules"
	"tollgate/wasm"
)

// freeRule is a table that charges nothing anywhere, and says so.
const freeRule = `label = "Triggered fee"
otherwise = "free"

[[fee]]
currencies = ["EUR"]
percentage = "0"
`

// publishNext publishes the next version of the rule that triggers use.
func publishNext(ctx context.Context, c *cli.Client) (rule tollgate.Citation, err error) {
	signer, _ := c.App.Env("TOLLGATE_RULE_SIGNER")
	key, _ := c.App.Env("TOLLGATE_RULE_KEY")
	if signer == "" || key == "" {
		return rule, cli.UsageError(errors.New("set TOLLGATE_RULE_SIGNER and TOLLGATE_RULE_KEY; 'tollgate dev --write-env FILE' writes them"))
	}
	rule = tollgate.Citation{Name: "triggered", Version: 1}
	query := url.Values{"name": {rule.Name}, "limit": {"100"}}
	for {
		_, page, err := cli.Read[tollgate.List[tollgate.Rule]](c.Get(ctx, "/v1/rules", query))
		if err != nil {
			return rule, err
		}
		for _, r := range page.Data {
			rule.Version = max(rule.Version, r.Rule.Version+1)
		}
		if page.NextCursor == nil {
			break
		}
		query = url.Values{"cursor": {*page.NextCursor}, "limit": {"100"}}
	}
	golden := []wasm.GoldenCase{{Amount: "1.00", Currency: "EUR"}}
	return rule, rules.PublishTable(ctx, c, signer, key, rule, freeRule, golden)
}

func publish(ctx context.Context, c *cli.Client) (played, error) {
	rule, err := publishNext(ctx, c)
	return played{object: tollgate.RuleID(rule)}, err
}

// activate adds a free rule to the account's, and takes it back afterwards.
func activate(ctx context.Context, c *cli.Client) (played, error) {
	_, err := putInForce(ctx, c)
	return played{sandbox.AccountEUR, func() error { return rollBack(ctx, c) }}, err
}

// retire does so before: then no account has the rule.
func retire(ctx context.Context, c *cli.Client) (played, error) {
	rule, err := putInForce(ctx, c)
	if err == nil {
		err = rollBack(ctx, c)
	}
	return played{object: tollgate.RuleID(rule)}, err
}

// onAccount is what both activations and rollbacks name.
var onAccount = []string{sandbox.AccountEUR}

func putInForce(ctx context.Context, c *cli.Client) (tollgate.Citation, error) {
	rule, err := publishNext(ctx, c)
	if err != nil {
		return rule, err
	}
	return rule, moved(ctx, c, "/activations", map[string]any{"rule": rule.String(), "adds": true, "merchant_account_ids": onAccount})
}

func rollBack(ctx context.Context, c *cli.Client) error {
	return moved(ctx, c, "/rollback", map[string]any{"merchant_account_ids": onAccount})
}

// moved asks for another version of the account's rule set, and waits until it is in
// force.
func moved(ctx context.Context, c *cli.Client, path string, request map[string]any) error {
	_, account, err := cli.Read[tollgate.MerchantAccount](c.Get(ctx, "/v1/merchant-accounts/"+sandbox.AccountEUR, nil))
	if err != nil {
		return err
	}
	set := "/v1/rule-sets/" + account.RuleSet.ID
	_, v, err := cli.Read[tollgate.ActivationAnswer](c.Post(ctx, set+path, request, c.App.RandomText()))
	for pause := 50 * time.Millisecond; err == nil && v.Status == tollgate.ActivationScheduled; pause = min(2*pause, time.Second) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		_, v, err = cli.Read[tollgate.ActivationAnswer](c.Get(ctx, set+"/activations/"+v.ID, nil))
	}
	if err == nil && v.Status == tollgate.ActivationFailed {
		err = fmt.Errorf("activation %s failed: %s", v.ID, cli.Deref(v.FailureReason))
	}
	return err
}
