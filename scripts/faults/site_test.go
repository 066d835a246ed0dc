package faults

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/rediskv/redistest"
)

const (
	issuer = "https://pay.tollgate.test"
	budget = 100_000_000_00 // minor units a month, of the first account of each organization
)

// site is some organizations on one Redis, and the settings of their processes.
type site struct {
	env       []string
	key       []byte // private, of all clients
	orgs      []*org
	receivers *receivers
	bank      *bank
}

// org is an organization. All that it has is in one slot, so a cluster needs several.
type org struct {
	id, client, perimeter string
	cutoffs               map[string]time.Duration // of its accounts: when their day ends
	accounts              []string
	token                 token
}

// newSite gives each account a sales day that ends soon, so that payouts fall due while
// things go wrong: within the next minute, and then every few minutes.
func newSite(t *testing.T, redisURL string, count int) *site {
	t.Helper()
	s := &site{receivers: newReceivers(t), bank: newBank(t)}
	private, public, err := auth.GenerateClientKey(rand.Reader, "ES256")
	must(t, err)
	s.key = private
	signing, err := auth.GenerateSigningKey(rand.Reader)
	must(t, err)
	s.env = append(s.bank.env(),
		"TOLLGATE_RATE_LIMITS=off", "TOLLGATE_REDIS_URL="+redisURL, "TOLLGATE_ISSUER="+issuer, "TOLLGATE_SIGNING_KEY="+string(signing), "TOLLGATE_SECRET_KEY="+secret(),
		"TOLLGATE_METRICS_ADDR=127.0.0.1:0", "TOLLGATE_DRAIN_DELAY=0s", "TOLLGATE_CHECK_RATE=20",
	)
	var file strings.Builder
	file.WriteString("organizations:\n")
	now := time.Now().UTC()
	for i := range count {
		o := &org{id: newID(tollgate.PrefixOrganization), client: newID(tollgate.PrefixClient), perimeter: newID(tollgate.PrefixPerimeter), cutoffs: map[string]time.Duration{}}
		for n := range 3 {
			at := now.Add(time.Minute + time.Duration(i*3+n*4)*time.Minute)
			account := newID(tollgate.PrefixMerchantAccount)
			o.accounts = append(o.accounts, account)
			o.cutoffs[account] = time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
		}
		s.orgs = append(s.orgs, o)
		file.WriteString(o.provisioning(string(public)))
	}
	name := filepath.Join(t.TempDir(), "site.yaml")
	must(t, os.WriteFile(name, []byte(file.String()), 0o600))
	program.Run(t, s.env, "provision", "-f", name)
	return s
}

func newID(prefix string) string { return tollgate.NewID(prefix, time.Now(), rand.Reader) }

func secret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

// closed is the last sales day of an account that is over.
func (o *org) closed(account string) string {
	return time.Now().UTC().Add(-o.cutoffs[account] - time.Second).Format("2006-01-02")
}

func (o *org) provisioning(clientKey string) string {
	entity, rules, open, grant := newID(tollgate.PrefixLegalEntity), newID(tollgate.PrefixRuleSet), newID(tollgate.PrefixPerimeter), newID(tollgate.PrefixGrant)
	var accounts strings.Builder
	for i, id := range o.accounts {
		perimeter := open
		if i == 0 {
			perimeter = o.perimeter
		}
		at := o.cutoffs[id]
		fmt.Fprintf(&accounts, `
      - id: %s
        legal_entity_id: %s
        name: Account
        currencies: [EUR]
        default_currency: EUR
        cutoff: {cutoff_time: "%02d:%02d", time_zone: UTC, settlement_delay_days: 0, calendar: none, interval: daily}
        perimeter: {id: %s, version: 1}
        rule_set: {id: %s, version: 1}
        capture_window_hours: 24`, id, entity, int(at.Hours()), int(at.Minutes())%60, perimeter, rules)
	}
	return fmt.Sprintf(`  - id: %[1]s
    name: Faults
    home_region: fra
    status: active
    legal_entities: [{id: %[2]s, legal_name: Faults GmbH, country: DE, type: company, status: verified}]
    perimeters:
      - {id: %[3]s, version: 1, constraints: {}}
      - id: %[4]s
        version: 1
        constraints:
          budgets: [{window: month, currency: EUR, amount: "%[5]d.00", per: merchant_account}]
          refunds_restore_budget: true
    rule_sets: [{id: %[6]s, version: 1, rules: ["rule:card_fee@v2"]}]
    merchant_accounts:%[7]s
    clients: [{id: %[8]s, name: shop, status: active, keys: [%[9]s]}]
    grants: [{id: %[10]s, client_id: %[8]s, status: active, scopes: ["%[11]s"]}]
`, o.id, entity, open, o.perimeter, budget/100, rules, accounts.String(), o.client, clientKey, grant, strings.Join(strings.Fields(auth.AllScopes().String()), `", "`))
}

// addr is a port that a process keeps when it is started again.
func addr(t *testing.T) string {
	t.Helper()
	a, err := redistest.FreeAddr()
	must(t, err)
	return a
}
