package sandbox

// Variable is one of the environment.
type Variable struct{ Name, Value string }

// Environment is what the client commands read, in the order in which it is
// written.
func (s *Secrets) Environment(url, token, webhookKey string) []Variable {
	return []Variable{
		{"TOLLGATE_URL", url},
		{"TOLLGATE_ISSUER", url},
		{"TOLLGATE_CLIENT_ID", Client},
		{"TOLLGATE_CLIENT_JWK", string(s.ClientKey)},
		{"TOLLGATE_TOKEN", token},
		{"TOLLGATE_ORGANIZATION", Organization},
		{"TOLLGATE_LEGAL_ENTITY", LegalEntity},
		{"TOLLGATE_MERCHANT_ACCOUNT", AccountEUR},
		{"TOLLGATE_GRANT", Grant},
		{"TOLLGATE_RULE_SET", RuleSet},
		{"TOLLGATE_RULE_SIGNER", RuleSigner},
		{"TOLLGATE_RULE_KEY", string(s.RuleKey)},
		{"TOLLGATE_WEBHOOK", Webhook},
		{"TOLLGATE_WEBHOOK_SECRET", webhookKey},
	}
}
