package rules

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/rules/source"
	"tollgate/handlers/auth"
	"tollgate/wasm"
	"tollgate/wasm/compiler"
)

func rulePublishCommand(a *cli.App) *cobra.Command {
	citation, golden, key := "", "", ""
	var settings *cli.Config
	c := &cobra.Command{
		Use:   "publish RULE --rule rule:NAME@vN",
		Short: "Sign a rule and publish it",
		Long: `Sign a module and its golden cases with the team's key and publish them as one
version of a rule.

` + source.TakenRules + `

The service takes them from a rule signer of the organization only, runs the
golden cases itself, and never changes a version. Publishing the same again does
no harm. A published rule prices nothing yet: activate it.`,
		Example: `  tollgate rule publish my_fee --rule rule:my_fee@v1 --rule-signer $SIGNER --rule-key .tollgate/team.jwk`,
		Args:    cobra.ExactArgs(1),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		rule, err := tollgate.ParseCitation(citation)
		if err != nil {
			return cli.UsageError(fmt.Errorf("--rule: %w", err))
		}
		reader := &source.Reader{App: a, Service: func() (*cli.Client, error) { return api, nil }}
		module, err := reader.Read(ctx, args[0])
		if err != nil {
			return err
		}
		if golden == "" {
			err = reader.Golden(ctx, module)
		} else if module.Golden, err = source.ReadGolden(a, golden); err != nil {
			err = cli.UsageError(err)
		}
		if err != nil {
			return err
		}
		if len(module.Golden) == 0 {
			return cli.UsageError(fmt.Errorf("%s has no golden cases: there is no golden.json beside it; name a file with --golden", args[0]))
		}
		p, err := sign(ctx, api, settings.Text("rule-signer"), settings.Text("rule-key"), rule, module, key)
		if err != nil {
			return err
		}
		return showRule(api)(api.Post(ctx, "/v1/rules", p, a.IdempotencyKey(key)))
	})
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		settings = a.Config(cmd)
		return run(cmd, args)
	}
	c.Flags().StringVar(&citation, "rule", "", "what it is published as, such as rule:my_fee@v1")
	c.Flags().StringVar(&golden, "golden", "", "file with the golden cases, when not golden.json beside the module")
	cli.KeyFlag(c, &key)
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
func sign(ctx context.Context, c *cli.Client, signer, text string, rule tollgate.Citation, source *source.Rule, key string) (publication, error) {
	p := publication{Rule: rule, Module: base64.StdEncoding.EncodeToString(source.Module), Golden: source.Golden}
	if signer == "" || text == "" {
		return p, cli.UsageError(errors.New("set TOLLGATE_RULE_SIGNER and TOLLGATE_RULE_KEY, or --rule-signer and --rule-key"))
	}
	keys, err := cli.ReadJWKs(text)
	if err != nil || len(keys) != 1 {
		return p, cli.UsageError(errors.Join(errors.New("TOLLGATE_RULE_KEY must be one private JWK or the path of a file with it"), err))
	}
	organization, err := organization(ctx, c)
	if err != nil {
		return p, err
	}
	_, digest, err := wasm.GoldenDigest(source.Golden)
	if err != nil {
		return p, err
	}
	statement := auth.RuleStatement{
		Signer: signer, Organization: organization, Rule: rule, SHA256: wasm.RefOf(rule, source.Module).SHA256,
		GoldenSHA256: digest, IssuedAt: c.App.Clock().Unix(),
	}
	if u := c.App.Kept(key); u != nil && signs(u.Signature, statement) {
		p.Signature = u.Signature
	} else if p.Signature, err = auth.SignRule(keys[0], statement); err != nil {
		return p, cli.UsageError(fmt.Errorf("TOLLGATE_RULE_KEY: %w", err))
	}
	c.Signature = p.Signature
	return p, nil
}

// PublishTable publishes a table as one version of a rule, signed by a rule signer with
// its private JWK or the path of a file with it.
func PublishTable(ctx context.Context, c *cli.Client, signer, jwk string, rule tollgate.Citation, table string, golden []wasm.GoldenCase) error {
	module, _, err := compiler.Build([]byte(table))
	if err != nil {
		return err
	}
	key := c.App.RandomText()
	p, err := sign(ctx, c, signer, jwk, rule, &source.Rule{Name: rule.String(), Citation: rule, Module: module, Golden: golden}, key)
	if err != nil {
		return err
	}
	_, err = c.Post(ctx, "/v1/rules", p, key)
	return err
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
func organization(ctx context.Context, c *cli.Client) (string, error) {
	token, err := c.Authorization(ctx)
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
	return "", cli.UsageError(errors.New("the access token does not say which organization it is for"))
}
