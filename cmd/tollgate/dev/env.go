package dev

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/demo"
)

// environment is what the client commands read, in the order in which it is
// written.
type environment []variable

type variable struct{ name, value string }

func (d *provided) environment(url, token, webhookKey string) environment {
	return environment{
		{"TOLLGATE_URL", url},
		{"TOLLGATE_ISSUER", url},
		{"TOLLGATE_CLIENT_ID", d.clientID},
		{"TOLLGATE_CLIENT_JWK", string(d.clientKey)},
		{"TOLLGATE_TOKEN", token},
		{"TOLLGATE_ORGANIZATION", demo.Organization},
		{"TOLLGATE_LEGAL_ENTITY", demo.LegalEntity},
		{"TOLLGATE_MERCHANT_ACCOUNT", demo.AccountEUR},
		{"TOLLGATE_GRANT", demo.Grant},
		{"TOLLGATE_RULE_SET", demo.RuleSet},
		{"TOLLGATE_RULE_SIGNER", demo.RuleSigner},
		{"TOLLGATE_RULE_KEY", string(d.ruleKey)},
		{"TOLLGATE_WEBHOOK", demo.Webhook},
		{"TOLLGATE_WEBHOOK_SECRET", webhookKey},
	}
}

// write makes the file that a shell can source, and the private keys beside it,
// whose paths the file has instead of the keys.
func (e environment) write(path string) error {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(absolute), 0o700); err != nil {
		return err
	}
	beside := strings.TrimSuffix(absolute, filepath.Ext(absolute))
	files := map[string]string{"TOLLGATE_CLIENT_JWK": beside + ".client.jwk", "TOLLGATE_RULE_KEY": beside + ".rule.jwk"}
	var b strings.Builder
	for _, v := range e {
		if file, ok := files[v.name]; ok {
			if err := cli.ReplaceFile(file, []byte(v.value+"\n")); err != nil {
				return err
			}
			v.value = file
		}
		fmt.Fprintf(&b, "%s=%s\n", v.name, cli.ShellQuote(v.value))
	}
	return cli.ReplaceFile(absolute, []byte(b.String()))
}
