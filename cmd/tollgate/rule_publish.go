package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/wasm"
)

func (a *app) rulePublishCommand() *cobra.Command {
	citation, golden, key := "", "", ""
	var settings *config
	c := &cobra.Command{
		Use:   "publish RULE --rule rule:NAME@vN",
		Short: "Sign a rule and publish it",
		Long: `Sign a module and its golden cases with the team's key and publish them as one
version of a rule.

` + takenRules + `

The service takes them from a rule signer of the organization only, runs the
golden cases itself, and never changes a version. Publishing the same again does
no harm. A published rule prices nothing yet: activate it.`,
		Example: `  tollgate rule publish my_fee --rule rule:my_fee@v1 --rule-signer $SIGNER --rule-key .tollgate/team.jwk`,
		Args:    cobra.ExactArgs(1),
	}
	a.clientCommand(c, func(ctx context.Context, api *client, args []string) error {
		rule, err := tollgate.ParseCitation(citation)
		if err != nil {
			return usageError(fmt.Errorf("--rule: %w", err))
		}
		reader := &ruleReader{a, func() (*client, error) { return api, nil }}
		source, err := reader.read(ctx, args[0])
		if err != nil {
			return err
		}
		if golden == "" {
			err = reader.golden(ctx, source)
		} else if source.golden, err = a.readGolden(golden); err != nil {
			err = usageError(err)
		}
		if err != nil {
			return err
		}
		if len(source.golden) == 0 {
			return usageError(fmt.Errorf("%s has no golden cases: there is no golden.json beside it; name a file with --golden", args[0]))
		}
		p, err := api.sign(ctx, settings, rule, source, key)
		if err != nil {
			return err
		}
		body, err := api.post(ctx, "/v1/rules", p, a.idempotencyKey(key))
		if err != nil {
			return err
		}
		return api.showRule(body)
	})
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		settings = a.config(cmd)
		return run(cmd, args)
	}
	c.Flags().StringVar(&citation, "rule", "", "what it is published as, such as rule:my_fee@v1")
	c.Flags().StringVar(&golden, "golden", "", "file with the golden cases, when not golden.json beside the module")
	keyFlag(c, &key)
	_ = c.MarkFlagRequired("rule")
	return c
}

// publication is the body of POST /v1/rules.
type publication struct {
	Rule      tollgate.Citation `json:"rule"`
	Module    string            `json:"module"`
	Golden    []wasm.GoldenCase `json:"golden"`
	Signature string            `json:"signature"`
}

// sign makes what is sent of a rule. The organization is the token's. A request
// whose answer has not come keeps its signature: another would make it another
// request, because it says when it was made.
func (c *client) sign(ctx context.Context, settings *config, rule tollgate.Citation, source *ruleSource, key string) (publication, error) {
	p := publication{Rule: rule, Module: base64.StdEncoding.EncodeToString(source.module), Golden: source.golden}
	signer, text := settings.text("rule-signer"), settings.text("rule-key")
	if signer == "" || text == "" {
		return p, usageError(errors.New("set TOLLGATE_RULE_SIGNER and TOLLGATE_RULE_KEY, or --rule-signer and --rule-key"))
	}
	keys, err := readJWKs(text)
	if err != nil || len(keys) != 1 {
		return p, usageError(errors.Join(errors.New("TOLLGATE_RULE_KEY must be one private JWK or the path of a file with it"), err))
	}
	organization, err := c.organization(ctx)
	if err != nil {
		return p, err
	}
	_, digest, err := wasm.GoldenDigest(source.golden)
	if err != nil {
		return p, err
	}
	statement := auth.RuleStatement{
		Signer: signer, Organization: organization, Rule: rule, SHA256: wasm.RefOf(rule, source.module).SHA256,
		GoldenSHA256: digest, IssuedAt: c.a.clock().Unix(),
	}
	if u := c.a.kept(key); u != nil && signs(u.Signature, statement) {
		p.Signature = u.Signature
	} else if p.Signature, err = auth.SignRule(keys[0], statement); err != nil {
		return p, usageError(fmt.Errorf("TOLLGATE_RULE_KEY: %w", err))
	}
	c.signature = p.Signature
	return p, nil
}

// signs reports whether a signature of ours is of a statement, whenever it was
// made.
func signs(signature string, statement auth.RuleStatement) bool {
	var signed auth.RuleStatement
	parts := strings.Split(signature, ".")
	if len(parts) != 3 {
		return false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &signed) != nil {
		return false
	}
	statement.IssuedAt = signed.IssuedAt
	return signed == statement
}

// organization is the one that the access token is for (interface §5).
func (c *client) organization(ctx context.Context) (string, error) {
	token, err := c.authorization(ctx)
	if err != nil {
		return "", err
	}
	var claims struct {
		Organization string `json:"org"`
	}
	parts := strings.Split(token, ".")
	if len(parts) == 3 {
		payload, err := base64.RawURLEncoding.DecodeString(parts[1])
		if err == nil && json.Unmarshal(payload, &claims) == nil && claims.Organization != "" {
			return claims.Organization, nil
		}
	}
	return "", usageError(errors.New("the access token does not say which organization it is for"))
}
