package provision

import (
	_ "embed"
	"fmt"
	"strings"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/handlers/auth"
)

// exampleText is a complete provisioning file with places for ids and a key.
//
//go:embed example.yaml.tmpl
var exampleText string

// printExample prints a file that can be applied as it is. The private half of
// its client key goes to a file; without one it is thrown away.
func printExample(a *cli.App, keyFile string) error {
	private, public, err := auth.GenerateClientKey(a.Entropy, "ES256")
	if err != nil {
		return err
	}
	if keyFile != "" {
		if err := cli.WriteNew(keyFile, append(private, '\n')); err != nil {
			return cli.UsageError(fmt.Errorf("--client-key: %w", err))
		}
	}
	id := func(prefix string) string { return tollgate.NewID(prefix, a.Clock(), a.Entropy) }
	var scopes strings.Builder
	for _, scope := range auth.AllScopes() {
		scopes.WriteString("\n          - " + string(scope))
	}
	text, err := cli.Fill(exampleText, map[string]string{
		"Organization": id(tollgate.PrefixOrganization), "LegalEntity": id(tollgate.PrefixLegalEntity),
		"AccountEUR": id(tollgate.PrefixMerchantAccount), "AccountUSD": id(tollgate.PrefixMerchantAccount),
		"Client": id(tollgate.PrefixClient), "Grant": id(tollgate.PrefixGrant),
		"Perimeter": id(tollgate.PrefixPerimeter), "RuleSet": id(tollgate.PrefixRuleSet),
		"Key": string(public), "KeyFile": keyFile, "Scopes": scopes.String(),
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(a.Stdout, text)
	return err
}
