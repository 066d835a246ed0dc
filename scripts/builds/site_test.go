package builds_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/handlers/auth"
	"tollgate/rediskv/testkit"
)

// site is an organization on one Redis, and what its instances are started with.
type site struct {
	t           *testing.T
	redis       string
	env         []string
	traces      []string // where this build sends its traces; those before ignore it
	issuer      string
	key, signer []byte // private JWKs
	public      [2]string
	ids         map[string]string // by prefix; acc2 and so on are more accounts
	refunds     bool              // a second client, "cashier", may refund
}

const siteIssuer = "https://pay.tollgate.test"

func newSite(t *testing.T, redisURL string) *site {
	t.Helper()
	s := &site{t: t, redis: redisURL, issuer: siteIssuer, ids: map[string]string{}, traces: []string{"TOLLGATE_TRACES_URL=" + collector(t), "OTEL_BSP_SCHEDULE_DELAY=100"}}
	for _, prefix := range []string{
		tollgate.PrefixOrganization, tollgate.PrefixLegalEntity, tollgate.PrefixMerchantAccount, tollgate.PrefixPerimeter,
		tollgate.PrefixRuleSet, tollgate.PrefixClient, tollgate.PrefixGrant,
	} {
		s.ids[prefix] = tollgate.NewID(prefix, time.Now(), rand.Reader)
	}
	s.ids["hasty"] = tollgate.NewID(tollgate.PrefixMerchantAccount, time.Now(), rand.Reader)
	s.ids["cashier"] = tollgate.NewID(tollgate.PrefixClient, time.Now(), rand.Reader)
	for i, private := range []*[]byte{&s.key, &s.signer} {
		var public []byte
		var err error
		*private, public, err = auth.GenerateClientKey(rand.Reader, "ES256")
		must(t, err)
		s.public[i] = string(public)
	}
	signing, err := auth.GenerateSigningKey(rand.Reader)
	must(t, err)
	s.env = append([]string{
		"TOLLGATE_REDIS_URL=" + redisURL, "TOLLGATE_ISSUER=" + siteIssuer, "TOLLGATE_SIGNING_KEY=" + string(signing),
		"TOLLGATE_SECRET_KEY=" + secret(), "TOLLGATE_ADDR=127.0.0.1:0", "TOLLGATE_METRICS_ADDR=127.0.0.1:0", "TOLLGATE_DRAIN_DELAY=0s", "TOLLGATE_RATE_LIMITS=off",
	}, s.traces...)
	return s
}

// collector takes all traces and keeps none. A build that traces writes into the event
// log which trace an event belongs to; those that do not have to read on.
func collector(t *testing.T) (url string) {
	var came atomic.Bool
	to := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		came.Store(true)
		_, _ = io.Copy(io.Discard, req.Body)
	}))
	t.Cleanup(func() {
		to.Close()
		if !came.Load() {
			t.Error("this build sends no traces")
		}
	})
	return to.URL
}

func secret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

func (s *site) account() string { return s.ids[tollgate.PrefixMerchantAccount] }

// provision writes the site with a build, and returns what that printed.
func (s *site) provision(b *build) string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "site.yaml")
	must(s.t, os.WriteFile(file, []byte(s.provisioning(b)), 0o600))
	return b.Run(s.t, s.env, "provision", "-f", file)
}

// newScopes are those that some earlier build does not know: it gives no token for a
// grant that has them.
var newScopes = []string{"payments:refund", "audit:read", "access:write"}

// provisioning is the file as an operator of that build has it.
func (s *site) provisioning(b *build) string {
	scopes := slices.DeleteFunc(strings.Fields(auth.AllScopes().String()), func(scope string) bool {
		return slices.Contains(b.lacks, scope) || slices.Contains(newScopes, scope)
	})
	clients := fmt.Sprintf("{id: %s, name: shop, status: active, keys: [%s]}", s.ids[tollgate.PrefixClient], s.public[0])
	grants := fmt.Sprintf(`{id: %s, client_id: %s, status: active, scopes: ["%s"]}`, s.ids[tollgate.PrefixGrant], s.ids[tollgate.PrefixClient], strings.Join(scopes, `", "`))
	if s.refunds {
		clients += fmt.Sprintf(", {id: %s, name: cashier, status: active, keys: [%s]}", s.ids["cashier"], s.public[0])
		grants += fmt.Sprintf(`, {id: %s_2, client_id: %s, status: active, scopes: ["payments:refund", "payments:read", "payments:write"]}`, s.ids[tollgate.PrefixGrant], s.ids["cashier"])
	}
	return fmt.Sprintf(`
organizations:
  - id: %[1]s
    name: Site
    home_region: fra
    status: active
    legal_entities: [{id: %[2]s, legal_name: Site GmbH, country: DE, type: company, status: verified}]
    perimeters:
      - id: %[4]s
        version: 1
        constraints:
          payees_blocked: [deny.test]
          review_above: "500.00"
          budgets: [{window: month, currency: EUR, amount: "1000000.00", per: merchant_account}]
          frequency: [{window: day, count: 100000, per: payee}]
    rule_sets: [{id: %[5]s, version: 1, rules: ["rule:card_fee@v2", "rule:platform_fee@v1"]}]
    rule_signers: [{id: sig_site, name: Pricing, status: active, keys: [%[6]s]}]
    merchant_accounts:
      - id: %[3]s
        legal_entity_id: %[2]s
        name: Europe
        currencies: [EUR]
        default_currency: EUR
        perimeter: {id: %[4]s, version: 1}
        rule_set: {id: %[5]s, version: 1}
      - id: %[7]s
        legal_entity_id: %[2]s
        name: Hasty
        currencies: [EUR]
        default_currency: EUR
        perimeter: {id: %[4]s, version: 1}
        rule_set: {id: %[5]s, version: 1}
        capture_window_hours: 1
    clients: [%[8]s]
    grants: [%[9]s]
`, s.ids[tollgate.PrefixOrganization], s.ids[tollgate.PrefixLegalEntity], s.account(), s.ids[tollgate.PrefixPerimeter], s.ids[tollgate.PrefixRuleSet],
		s.public[1], s.ids["hasty"], clients, grants)
}

// instance is a running build that answers requests.
type instance struct {
	*clitest.Process
	*build
	site   *site
	base   string
	issuer string
	token  string
}

// serve starts `tollgate serve` of a build.
func (s *site) serve(b *build) *instance {
	s.t.Helper()
	p := b.Start(s.t, s.env, "serve")
	return &instance{Process: p, build: b, site: s, base: "http://" + p.Ready(), issuer: s.issuer}
}

// work starts `tollgate work` of a build.
func (s *site) work(b *build) *process {
	s.t.Helper()
	return b.Start(s.t, s.env, "work")
}

// sandbox starts `tollgate dev` of a build on the site's Redis: the API and the
// worker with a clock that moves, and with deliveries to this machine.
func (s *site) sandbox(b *build, env ...string) *instance {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "dev.env")
	p := b.Start(s.t, append(env, s.traces...), "dev", "--redis", s.redis, "--addr", "127.0.0.1:0", "--write-env", file)
	in := &instance{Process: p, build: b, site: s}
	address := regexp.MustCompile(`(?m)TOLLGATE_URL=["']?([^"'\s]+)`)
	testkit.Eventually(s.t, p.Name+" is ready", func() bool {
		text, _ := os.ReadFile(file)
		if found := address.FindSubmatch(text); found != nil {
			in.base = string(found[1])
		}
		select {
		case <-p.Done:
			s.t.Fatalf("%s has ended", p.Name)
		default:
		}
		return in.base != ""
	})
	in.issuer = in.base
	return in
}

// authenticate gets a token for the shop.
func (in *instance) authenticate() *instance {
	in.site.t.Helper()
	a := in.ask(in.site.ids[tollgate.PrefixClient])
	if in.token = a.at("access_token"); in.token == "" {
		in.site.t.Fatalf("%s gives no token: %s", in.build.Name, a.Text)
	}
	return in
}

// cashier is the same instance for the client that may refund.
func (in *instance) cashier() *instance {
	as := *in
	if as.token = in.ask(in.site.ids["cashier"]).at("access_token"); as.token == "" {
		in.site.t.Fatalf("%s gives no token to the cashier", in.build.Name)
	}
	return &as
}

// ask sends a client's signed assertion to the token endpoint.
func (in *instance) ask(client string) answer {
	in.site.t.Helper()
	a, err := clitest.AskToken(in.site.t.Context(), in.base, in.issuer, client, in.site.key)
	must(in.site.t, err)
	return answer{a}
}

// answer is one of the interface, read.
type answer struct{ clitest.Answer }

// send makes a request. It is safe for concurrent use.
func (in *instance) send(method, path, key, body string) (answer, error) {
	a, err := clitest.Send(in.site.t.Context(), in.token, method, in.base+path, body, "Idempotency-Key", key)
	return answer{a}, err
}

// do is send where only success will do.
func (in *instance) do(t *testing.T, method, path, key, body string) answer {
	t.Helper()
	a, err := in.send(method, path, key, body)
	must(t, err)
	if a.StatusCode/100 != 2 {
		t.Fatalf("%s: %s %s %s: %d %s", in.build.Name, method, path, body, a.StatusCode, a.Text)
	}
	return a
}

func (in *instance) get(t *testing.T, path string) answer {
	t.Helper()
	return in.do(t, "GET", path, "", "")
}

func (in *instance) post(t *testing.T, path, body string) answer {
	t.Helper()
	return in.do(t, "POST", path, rand.Text(), body)
}

// pay makes a payment of the site's account.
func (in *instance) pay(t *testing.T, amount, more string) answer {
	t.Helper()
	return in.post(t, "/v1/payments", fmt.Sprintf(`{"amount":%q,"currency":"EUR","payee":"shop.example","merchant_account_id":%q%s}`, amount, in.site.account(), more))
}

// at is a member of the answer as text; a path has dots and numbers.
func (a answer) at(path string) string {
	var v any
	if json.Unmarshal([]byte(a.Text), &v) != nil {
		return ""
	}
	for name := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[name]
		case []any:
			var i int
			if _, err := fmt.Sscan(name, &i); err != nil || i >= len(x) {
				return ""
			}
			v = x[i]
		default:
			return ""
		}
	}
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	default:
		return fmt.Sprint(x)
	}
}

// all reads a listing to its end, each page at the next of the instances, and
// returns the ids of its objects.
func all(t *testing.T, path string, instances ...*instance) (ids []string) {
	t.Helper()
	cursor := ""
	for i := 0; ; i++ {
		a := instances[i%len(instances)].get(t, path+cursor)
		var page struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
			HasMore    bool    `json:"has_more"`
			NextCursor *string `json:"next_cursor"`
		}
		must(t, json.Unmarshal([]byte(a.Text), &page))
		for _, row := range page.Data {
			ids = append(ids, row.ID)
		}
		if !page.HasMore {
			return ids
		}
		if i == 1000 {
			t.Fatalf("%s has no end", path)
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}

// since is what this build's answers have and earlier builds' have not; the group stands
// behind it in both.
var since = regexp.MustCompile(`"amount_refund(?:ed|able)":"[^"]*",|"history_id":(?:null|"his_[^"]*"),("dataset":)|,"erased_at":null`)

// sealed is a cursor, which is sealed anew each time.
var sealed = regexp.MustCompile(`"next_cursor":"[^"]*"`)

// comparable is an answer without what only one of the builds says, and without
// cursors and its own address.
func (a answer) comparable() string {
	text := sealed.ReplaceAllString(since.ReplaceAllString(a.Text, "$1"), `"next_cursor":…`)
	return strings.ReplaceAll(text, "http://"+a.Request.URL.Host, "")
}

// same holds two instances to one answer, byte for byte.
func same(t *testing.T, path string, a, b *instance) {
	t.Helper()
	x, err := a.send("GET", path, "", "")
	must(t, err)
	y, err := b.send("GET", path, "", "")
	must(t, err)
	if x.StatusCode != y.StatusCode || x.comparable() != y.comparable() || x.StatusCode != http.StatusOK {
		t.Errorf("%s: %s answers %d\n%s\n%s answers %d\n%s", path, a.build.Name, x.StatusCode, x.Text, b.build.Name, y.StatusCode, y.Text)
	}
}
