package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/handlers/auth"
	"tollgate/rediskv/testkit"
)

const siteIssuer = "https://pay.tollgate.test"

// site is an organization on one Redis, provisioned by the program, and what
// its servers are started with.
type site struct {
	t            *testing.T
	env          []string
	client       string
	key          []byte // private JWK
	organization string
	account      string
	token        string

	ids    map[string]string // by prefix
	public string
}

func newSite(t *testing.T, redisURL string) *site {
	t.Helper()
	s := &site{t: t, ids: map[string]string{}}
	testkit.Organization(func(prefix string) string {
		s.ids[prefix] = tollgate.NewID(prefix, time.Now(), rand.Reader)
		return s.ids[prefix]
	})
	s.organization, s.account, s.client = s.ids[tollgate.PrefixOrganization], s.ids[tollgate.PrefixMerchantAccount], s.ids[tollgate.PrefixClient]
	var public []byte
	var err error
	if s.key, public, err = auth.GenerateClientKey(rand.Reader, "ES256"); err != nil {
		t.Fatal(err)
	}
	s.public = string(public)
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	s.env = []string{
		"TOLLGATE_REDIS_URL=" + redisURL, "TOLLGATE_ISSUER=" + siteIssuer, "TOLLGATE_SECRET_KEY=" + base64.StdEncoding.EncodeToString(secret), "TOLLGATE_ADDR=127.0.0.1:0", "TOLLGATE_METRICS_ADDR=off", "TOLLGATE_RATE_LIMITS=off",
		"TOLLGATE_DRAIN_DELAY=300ms",
	}
	s.activate(1, `"rule:card_fee@v2", "rule:platform_fee@v1", "rule:sandbox@v1"`)
	return s
}

// hasty lets calls to Redis take no longer than they may in the field.
func (s *site) hasty() { s.env = append(s.env, storeTimeoutVariable+"=") }

// activate gives the account a rule set, by `tollgate provision`.
func (s *site) activate(version int, rules string) {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "site.yaml")
	if err := os.WriteFile(file, []byte(s.provisioning(version, rules)), 0o600); err != nil {
		s.t.Fatal(err)
	}
	runProgram(s.t, s.env, "provision", "-f", file)
}

func (s *site) provisioning(version int, rules string) string {
	scopes := `"` + strings.ReplaceAll(auth.AllScopes().String(), " ", `", "`) + `"`
	return fmt.Sprintf(`
organizations:
  - id: %[1]s
    name: Site
    home_region: fra
    status: active
    legal_entities: [{id: %[2]s, legal_name: Site GmbH, country: DE, type: company, status: verified}]
    perimeters: [{id: %[4]s, version: 1, constraints: {payees_blocked: [deny.test]}}]
    rule_sets: [{id: %[5]s, version: %[6]d, rules: [%[7]s]}]
    merchant_accounts:
      - id: %[3]s
        legal_entity_id: %[2]s
        name: Europe
        currencies: [EUR]
        default_currency: EUR
        perimeter: {id: %[4]s, version: 1}
        rule_set: {id: %[5]s, version: %[6]d}
    clients: [{id: %[8]s, name: shop, status: active, keys: [%[9]s]}]
    grants: [{id: %[10]s, client_id: %[8]s, status: active, scopes: [%[11]s]}]
`, s.organization, s.ids[tollgate.PrefixLegalEntity], s.account, s.ids[tollgate.PrefixPerimeter], s.ids[tollgate.PrefixRuleSet],
		version, rules, s.client, s.public, s.ids[tollgate.PrefixGrant], scopes)
}

// serve starts a server of the site; flags go behind what all of them have.
func (s *site) serve(flags ...string) *process {
	s.t.Helper()
	return launch(s.t, s.env, append([]string{"serve"}, flags...)...)
}

// received is an answer of the interface, read.
type received struct{ clitest.Answer }

func (r received) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.Text), v); err != nil {
		t.Fatalf("%s: %v in %s", r.Request.URL, err, r.Text)
	}
}

// send makes a request under the site's token. It is safe for concurrent use.
func (s *site) send(method, address, key, body string) (received, error) {
	a, err := clitest.Send(s.t.Context(), s.token, method, address, body, "Idempotency-Key", key)
	return received{a}, err
}

// must is send where only one status will do.
func (s *site) must(status int, method, address, key, body string) received {
	s.t.Helper()
	r, err := s.send(method, address, key, body)
	if err != nil {
		s.t.Fatal(err)
	}
	if r.StatusCode != status {
		s.t.Fatalf("%s %s: %d %s, want %d", method, address, r.StatusCode, r.Text, status)
	}
	return r
}

// askToken sends a new assertion to the token endpoint.
func (s *site) askToken(base string) (received, error) {
	a, err := clitest.AskToken(s.t.Context(), base, siteIssuer, s.client, s.key)
	return received{a}, err
}

// authenticate gets the token that send uses; it is good on every instance and
// after every restart, because they have the same signing key.
func (s *site) authenticate(base string) {
	s.t.Helper()
	var r received
	testkit.Eventually(s.t, "the token endpoint answers", func() (answered bool) {
		var err error
		if r, err = s.askToken(base); err != nil {
			s.t.Fatal(err)
		}
		return r.StatusCode != http.StatusServiceUnavailable // Redis took too long
	})
	var issued struct {
		AccessToken string `json:"access_token"`
	}
	if r.into(s.t, &issued); issued.AccessToken == "" {
		s.t.Fatalf("no token: %d %s", r.StatusCode, r.Text)
	}
	s.token = issued.AccessToken
}
