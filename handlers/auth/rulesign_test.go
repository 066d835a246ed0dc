package auth_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/auth"
)

// published is what the rule signatures here are about.
var published = auth.RuleStatement{
	Signer: "sig_team", Organization: "org_1", Rule: tollgate.Citation{Name: "shop_fee", Version: 4},
	SHA256: strings.Repeat("a", 64), GoldenSHA256: strings.Repeat("b", 64), IssuedAt: now.Unix(),
}

// ruleSignature is a correct one, to be spoilt in one place.
func (c client) ruleSignature(t testing.TB) *draft {
	t.Helper()
	return &draft{
		t: t, key: c.key,
		header: map[string]any{"alg": member(t, c.public, "alg"), "kid": member(t, c.public, "kid"), "typ": "tollgate-rule+jws"},
		claims: map[string]any{
			"golden_sha256": published.GoldenSHA256, "iat": published.IssuedAt, "iss": published.Signer, "org": published.Organization,
			"rule": published.Rule.String(), "sha256": published.SHA256,
		},
	}
}

// Every algorithm signs, and what SignRule makes is verified, now and later.
func TestRuleSignature(t *testing.T) {
	for _, alg := range auth.Algorithms() {
		private, public, err := auth.GenerateClientKey(entropy("rule "+alg), alg)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := auth.SignRule(private, published)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []time.Time{now, now.Add(-5 * time.Second), now.Add(365 * 24 * time.Hour)} {
			kid, err := auth.VerifyRule(signature, parseKeys(t, public), published, at)
			if err != nil || kid != member(t, public, "kid") {
				t.Errorf("%s at %s: %q, %v", alg, at, kid, err)
			}
		}
		if signer, err := auth.PeekRuleSigner(signature); err != nil || signer != published.Signer {
			t.Errorf("%s: %q, %v", alg, signer, err)
		}
		if _, err := auth.SignRule(public, published); err == nil {
			t.Errorf("%s: a public key signs", alg)
		}
	}
	team := newClient(t, "team", "ES256")
	if _, err := auth.VerifyRule(team.ruleSignature(t).String(), parseKeys(t, team.public), published, now); err != nil {
		t.Errorf("the draft of the table below: %v", err)
	}
}

// Every row is a correct signature with one thing changed.
func TestRuleSignatureRefused(t *testing.T) {
	team, other := newClient(t, "team", "ES256"), newClient(t, "other", "ES256")
	claim := func(name string, value any) func(*draft) { return func(d *draft) { d.claims[name] = value } }
	header := func(name string, value any) func(*draft) { return func(d *draft) { d.header[name] = value } }
	without := func(name string) func(*draft) { return func(d *draft) { delete(d.claims, name) } }
	raw := func(payload string) func(*draft) { return func(d *draft) { d.rawClaims = payload } }
	canonical := string(marshal(t, team.ruleSignature(t).claims))
	for _, row := range []struct {
		name   string
		reason auth.Reason
		change func(*draft)
	}{
		{"empty", auth.ReasonSize, func(d *draft) { d.finish = func(string) string { return "" } }},
		{"unsigned", auth.ReasonMalformed, func(d *draft) { d.sign = func(string) []byte { return nil } }},
		{"another key's", auth.ReasonSignature, func(d *draft) { d.key = other.key }},
		{"typ missing", auth.ReasonType, func(d *draft) { delete(d.header, "typ") }},
		{"typ of an assertion", auth.ReasonType, header("typ", "client-authentication+jwt")},
		{"typ JWT", auth.ReasonType, header("typ", "JWT")},
		{"kid missing", auth.ReasonKey, func(d *draft) { delete(d.header, "kid") }},
		{"kid unknown", auth.ReasonKey, header("kid", "unknown")},
		{"kid of another", auth.ReasonKey, header("kid", member(t, other.public, "kid"))},
		{"alg none", auth.ReasonAlgorithm, header("alg", "none")},
		{"alg ES384", auth.ReasonAlgorithm, header("alg", "ES384")},
		{"crit", auth.ReasonHeader, header("crit", []string{"exp"})},
		{"b64", auth.ReasonHeader, header("b64", false)},
		{"jwk", auth.ReasonHeader, header("jwk", json.RawMessage(team.public))},
		{"jku", auth.ReasonHeader, header("jku", "https://evil.example")},
		{"x5c", auth.ReasonHeader, header("x5c", []string{"AAAA"})},
		{"another signer", auth.ReasonIssuer, claim("iss", "sig_other")},
		{"no signer", auth.ReasonIssuer, without("iss")},
		{"another organization", auth.ReasonClaims, claim("org", "org_2")},
		{"no organization", auth.ReasonClaims, without("org")},
		{"another rule", auth.ReasonClaims, claim("rule", "rule:shop@v4")},
		{"another version", auth.ReasonClaims, claim("rule", "rule:shop_fee@v5")},
		{"other bytes", auth.ReasonClaims, claim("sha256", strings.Repeat("c", 64))},
		{"bytes in capitals", auth.ReasonClaims, claim("sha256", strings.Repeat("A", 64))},
		{"other golden cases", auth.ReasonClaims, claim("golden_sha256", strings.Repeat("c", 64))},
		{"no golden cases", auth.ReasonClaims, without("golden_sha256")},
		{"one claim more", auth.ReasonClaims, claim("aud", "https://pay.example")},
		{"iat missing", auth.ReasonNotYetValid, without("iat")},
		{"iat a text", auth.ReasonNotYetValid, claim("iat", "1772442000")},
		{"iat ahead", auth.ReasonNotYetValid, claim("iat", now.Add(11*time.Second).Unix())},
		{"iat a fraction", auth.ReasonClaims, claim("iat", float64(now.Unix())+0.5)},
		{"spaces", auth.ReasonClaims, raw(strings.ReplaceAll(canonical, ",", ", "))},
		{"another order", auth.ReasonClaims, raw(`{"sha256":"` + published.SHA256 + `",` + strings.Replace(canonical[1:], `,"sha256":"`+published.SHA256+`"`, "", 1))},
		{"a claim twice", auth.ReasonMalformed, raw(canonical[:len(canonical)-1] + `,"org":"org_1"}`)},
		{"not an object", auth.ReasonMalformed, raw("[" + canonical + "]")},
	} {
		d := team.ruleSignature(t)
		row.change(d)
		_, err := auth.VerifyRule(d.String(), parseKeys(t, team.public), published, now)
		t.Run(row.name, func(t *testing.T) { refusedAs(t, err, auth.ErrRuleSignature, row.reason) })
	}
	// What was signed for another purpose is no rule's signature, and the reverse.
	assertion := team.assertion(t).String()
	if _, err := auth.VerifyRule(assertion, parseKeys(t, team.public), published, now); auth.ReasonOf(err) != auth.ReasonType {
		t.Errorf("an assertion: %v", err)
	}
	if _, err := verify(team.ruleSignature(t).String(), parseKeys(t, team.public)); auth.ReasonOf(err) != auth.ReasonType {
		t.Errorf("as an assertion: %v", err)
	}
	for _, text := range []string{"", "a.b.c", "nonsense", strings.Repeat("a", 9000)} {
		if _, err := auth.PeekRuleSigner(text); auth.ReasonOf(err) == "" {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}
