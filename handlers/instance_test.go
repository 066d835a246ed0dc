package handlers_test

import (
	"bytes"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers"
	"tollgate/handlers/auth"
	"tollgate/handlers/rate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
	"tollgate/rediskv/testkit"
	"tollgate/wasm"
)

const issuer = "https://api.tollgate.test"

// instance is a running server with one provisioned organization and a token
// for everything.
type instance struct {
	*httptest.Server
	t        *testing.T
	handler  *handlers.Server
	store    *store.Store
	config   tollgate.Config
	client   []byte // private JWK
	token    string
	log      *bytes.Buffer
	observed *observed
	tick     atomic.Pointer[func()] // runs whenever the handlers look at the clock
}

func start(t *testing.T) *instance { return startOn(t, redistest.URL(t)) }

func startOn(t *testing.T, redisURL string) *instance {
	t.Helper()
	// Tokens and cursors are checked against the same clock, so it can be the
	// real one.
	return startWith(t, rediskv.Options{URL: redisURL, Clock: time.Now})
}

// openWith opens a store that leaves a stalled machine time, unless options say
// otherwise.
func openWith(t testing.TB, o rediskv.Options) *store.Store {
	t.Helper()
	o.Rules = builtinRefs()
	return testkit.Open(t, o)
}

func startWith(t *testing.T, o rediskv.Options) *instance {
	t.Helper()
	store := openWith(t, o)
	rules, err := wasm.NewEngine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := rules.LoadBuiltin(t.Context()); err != nil {
		t.Fatal(err)
	}
	key, err := auth.GenerateSigningKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := auth.ParseSigningKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	private, public, err := auth.GenerateClientKey(rand.Reader, "ES256")
	if err != nil {
		t.Fatal(err)
	}
	i := &instance{t: t, store: store, client: private, log: new(bytes.Buffer), observed: observe(), config: organization(store, public)}
	if _, err := redistest.Provision(t.Context(), store, i.config, false); err != nil {
		t.Fatal(err)
	}
	i.handler, err = handlers.New(handlers.Config{
		Store: store, Rules: rules, Keys: keys, IssuerURL: issuer, Clock: func() time.Time {
			if tick := i.tick.Load(); tick != nil {
				(*tick)()
			}
			return time.Now()
		},
		Vault: newVault(t), Entropy: rand.Reader, Examine: wasm.Examine, Log: slog.New(slog.NewJSONHandler(i.log, nil)), Observer: i.observed,
		RateLimits: rate.Unlimited,
	})
	if err != nil {
		t.Fatal(err)
	}
	i.Server = httptest.NewServer(i.handler.Handler())
	t.Cleanup(i.Server.Close)
	return i
}

func organization(s *store.Store, clientKey []byte) tollgate.Config {
	le, cli, grt := s.NewID(tollgate.PrefixLegalEntity), s.NewID(tollgate.PrefixClient), s.NewID(tollgate.PrefixGrant)
	per, rs := s.NewID(tollgate.PrefixPerimeter), s.NewID(tollgate.PrefixRuleSet)
	return tollgate.Config{
		Organization:  tollgate.Organization{ID: s.NewID(tollgate.PrefixOrganization), Name: "Test", Status: "active", HomeRegion: "fra"},
		LegalEntities: []tollgate.LegalEntity{{ID: le, LegalName: "Test GmbH", Country: "DE", Type: "company", Status: "verified"}},
		MerchantAccounts: []tollgate.MerchantAccount{{
			ID: s.NewID(tollgate.PrefixMerchantAccount), LegalEntityID: le, Name: "Europe", Status: "active",
			Currencies: []tollgate.Currency{"EUR", "JPY"}, DefaultCurrency: "EUR",
			Cutoff:    tollgate.Cutoff{CutoffTime: "17:00", TimeZone: "Europe/Berlin", SettlementDelayDays: 2, Calendar: "target", Interval: "daily"},
			Perimeter: tollgate.PerimeterRef{ID: per, Version: 1}, RuleSet: tollgate.RuleSet{ID: rs, Version: 1}, CaptureWindowHours: 168,
		}},
		Clients:    []tollgate.Client{{ID: cli, Name: "shop", Status: "active", Keys: []string{string(clientKey)}, GrantIDs: []string{grt}}},
		Grants:     []tollgate.Grant{{ID: grt, ClientID: cli, Scopes: strings.Fields(auth.AllScopes().String()), Status: "active"}},
		Perimeters: []tollgate.PerimeterDocument{{ID: per, Version: 1, Constraints: jsontext.Value(`{"payees_blocked":["deny.test"],"review_above":"1000"}`)}},
		RuleSets: []tollgate.RuleSet{{ID: rs, Version: 1, Rules: []tollgate.Citation{
			{Name: "card_fee", Version: 2}, {Name: "platform_fee", Version: 1}, {Name: "sandbox", Version: 1},
		}}},
	}
}

// reply is an answer, read.
type reply struct {
	*http.Response
	text string
	body map[string]any
}

func (i *instance) do(req *http.Request) (reply, error) {
	resp, err := i.Server.Client().Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	r := reply{Response: resp, text: string(text)}
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &r.body)
	}
	return r, err
}

func (i *instance) send(req *http.Request) reply {
	i.t.Helper()
	r, err := i.do(req)
	if err != nil {
		i.t.Fatal(err)
	}
	return r
}

// call makes a request; headers are pairs of name and value.
func (i *instance) call(method, path, body string, headers ...string) reply {
	i.t.Helper()
	return i.send(i.request(method, path, body, headers...))
}

func (i *instance) request(method, path, body string, headers ...string) *http.Request {
	i.t.Helper()
	req, err := http.NewRequestWithContext(i.t.Context(), method, i.URL+path, strings.NewReader(body))
	if err != nil {
		i.t.Fatal(err)
	}
	if i.token != "" {
		req.Header.Set("Authorization", "Bearer "+i.token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for n := 0; n < len(headers); n += 2 {
		req.Header.Add(headers[n], headers[n+1])
	}
	return req
}

func (i *instance) assertion() string {
	i.t.Helper()
	text, err := auth.SignAssertion(i.client, i.config.Clients[0].ID, issuer, rand.Text(), time.Now())
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}

func (i *instance) askToken(form url.Values) reply {
	i.t.Helper()
	return i.askAt("/oauth2/token", form)
}

func (i *instance) askAt(path string, form url.Values) reply {
	i.t.Helper()
	req, err := http.NewRequestWithContext(i.t.Context(), "POST", i.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		i.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return i.send(req)
}

func tokenForm(assertion string) url.Values {
	return url.Values{
		"grant_type": {"client_credentials"}, "client_assertion": {assertion},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
	}
}

// ownTokenForm revokes or introspects a token.
func ownTokenForm(assertion, token string) url.Values {
	form := tokenForm(assertion)
	form.Del("grant_type")
	form.Set("token", token)
	return form
}

func (i *instance) authenticate() {
	i.t.Helper()
	r := i.askToken(tokenForm(i.assertion()))
	i.want(r, 200, "")
	i.token = r.body["access_token"].(string)
}

// want checks status, code and the headers that every answer has.
func (i *instance) want(r reply, status int, code string) {
	i.t.Helper()
	got, _ := r.body["code"].(string)
	if r.StatusCode != status || got != code {
		i.t.Fatalf("%s %s: %d %s\nwant %d %s", r.Request.Method, r.Request.URL.Path, r.StatusCode, r.text, status, code)
	}
	for name, value := range map[string]string{"X-Content-Type-Options": "nosniff", "Request-Id": "req_"} {
		if !strings.HasPrefix(r.Header.Get(name), value) {
			i.t.Fatalf("%s is %q", name, r.Header.Get(name))
		}
	}
	media := "application/json"
	if status >= 400 && !strings.HasPrefix(r.Request.URL.Path, "/oauth2/") {
		media = "application/problem+json"
	}
	if status != 304 && r.Header.Get("Content-Type") != media {
		i.t.Fatalf("Content-Type is %q, want %q", r.Header.Get("Content-Type"), media)
	}
}
