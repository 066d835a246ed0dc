package handlers_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers"
	"tollgate/handlers/auth"
	"tollgate/handlers/conform"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/wasm"
)

// morning is when every world begins: a Monday, 09:00 UTC.
var morning = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// world is a server with two organizations, a clock that only the test moves,
// and every exchange held to the OpenAPI document.
type world struct {
	t       *testing.T
	url     string
	redis   string
	client  *http.Client
	server  *handlers.Server
	store   *rediskv.Store
	rules   *wasm.Engine
	clock   *atomic.Int64 // Unix nanoseconds
	configs map[string]*rediskv.Config
	private map[string][]byte // private JWKs by client
	vars    map[string]string // ids by name, such as "eur" or "all"
	tokens  map[string]string
}

// Made once: the document takes a while to compile, and so do the rules.
var (
	document = sync.OnceValues(func() (*conform.Document, error) {
		text, err := os.ReadFile("openapi.json")
		if err != nil {
			return nil, err
		}
		return conform.Load(text)
	})
	shipped = sync.OnceValues(func() (*wasm.Engine, error) {
		ctx := context.Background()
		engine, err := wasm.NewEngine(ctx)
		if err != nil {
			return nil, err
		}
		return engine, engine.LoadShipped(ctx)
	})
)

// must returns v or ends the test.
func must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func newRecorder(t *testing.T) *conform.Recorder {
	t.Helper()
	doc, err := document()
	return conform.NewRecorder(must(t, doc, err))
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, redistest.URL(t), newRecorder(t))
}

func newWorldOn(t *testing.T, redis string, recorder *conform.Recorder) *world {
	t.Helper()
	w := &world{
		t: t, redis: redis, clock: new(atomic.Int64), configs: make(map[string]*rediskv.Config),
		private: make(map[string][]byte), vars: make(map[string]string), tokens: make(map[string]string),
	}
	w.clock.Store(morning.UnixNano())
	store, err := rediskv.Open(t.Context(), rediskv.Options{URL: redis, Clock: w.now, Entropy: rand.Reader})
	w.store = must(t, store, err)
	t.Cleanup(func() { store.Close() })
	engine, err := shipped()
	w.rules = must(t, engine, err)
	signing, err := auth.GenerateSigningKey(rand.Reader)
	keys, err := auth.ParseSigningKeys(must(t, signing, err))
	w.server, err = handlers.New(handlers.Config{
		Store: store, Rules: w.rules, Keys: must(t, keys, err), IssuerURL: issuer, CursorKey: [32]byte{7}, Clock: w.now,
	})
	must(t, w.server, err)
	for _, name := range []string{"", "other_"} {
		w.configs[name] = w.organization(name)
		w.apply(name)
	}
	served := httptest.NewUnstartedServer(w.server.Handler())
	served.Config.DisableGeneralOptionsHandler = true
	served.Start()
	t.Cleanup(served.Close)
	w.url, w.client = served.URL, served.Client()
	w.client.Transport = recorder.Transport(t, w.client.Transport)
	return w
}

func (w *world) now() time.Time { return time.Unix(0, w.clock.Load()).UTC() }

func (w *world) advance(d time.Duration) {
	w.clock.Add(int64(d))
	clear(w.tokens)
}

// apply provisions an organization as it stands in configs, as an operator
// does: the server is not told.
func (w *world) apply(name string) {
	w.t.Helper()
	changes, err := w.store.ApplyConfig(w.t.Context(), *w.configs[name], false)
	must(w.t, changes, err)
}

// mint makes an id and remembers it by name.
func (w *world) mint(prefix, name string) string {
	id := w.store.Mint(prefix)
	w.vars[name] = id
	return id
}

// accountForms are the merchant accounts of an organization. Perimeters and
// rule sets are their own; a limit that is not listed is none.
var accountForms = []struct {
	name, status, limits string
	currencies           []tollgate.Currency
	rules                []tollgate.Citation
}{
	{
		"eur", "active", `{"payees_blocked":["deny.test","*.blocked.test"],"review_above":"1000"}`,
		[]tollgate.Currency{"EUR", "USD", "JPY", "BHD", "CLF"},
		rules("card_fee@v2", "platform_fee@v1", "sandbox@v1"),
	},
	{"wide", "active", `{}`, allCurrencies(), rules("card_fee@v1", "cross_border@v2", "platform_fee@v1")},
	{"paused", "paused", `{}`, []tollgate.Currency{"EUR"}, rules("card_fee@v2")},
	{"closed", "closed", `{}`, []tollgate.Currency{"EUR"}, rules("card_fee@v2")},
	{
		"limited", "active", `{"currencies":["EUR"],"payees_allowed":["*.example"],"minimum_amount":"5","maximum_amount":"50.00"}`,
		[]tollgate.Currency{"EUR", "USD"},
		rules("platform_fee@v1"),
	},
	{"hours", "active", `{"schedule":{"time_zone":"Europe/Berlin","days":["mon","tue"],"from":"09:00","to":"17:00"}}`, []tollgate.Currency{"EUR"}, nil},
	{"future", "active", `{"budgets":[{"window":"day","amount":"1"}]}`, []tollgate.Currency{"EUR"}, rules("card_fee@v2")},
	{"gated", "active", `{"payees_blocked":["deny.test"]}`, []tollgate.Currency{"EUR", "KPW"}, rules("currency_gate@v1", "card_fee@v2")},
}

// rules reads citations without their first word, such as "card_fee@v2".
func rules(list ...string) (citations []tollgate.Citation) {
	for _, text := range list {
		c, err := tollgate.ParseCitation("rule:" + text)
		if err != nil {
			panic(err)
		}
		citations = append(citations, c)
	}
	return citations
}

func allCurrencies() []tollgate.Currency {
	list := tollgate.Currencies()
	slices.Sort(list)
	return list
}

type grantForm struct {
	name, client, status string
	accounts             []string
	scopes               string // empty: all
	from, to             time.Duration
}

// grantForms are the grants; each is the only one of a client of its name,
// except that the client shop has all and eur_only.
var grantForms = []grantForm{
	{name: "all", client: "shop"},
	{name: "eur_only", client: "shop", accounts: []string{"eur"}},
	{name: "kiosk", client: "kiosk", accounts: []string{"limited"}},
	{name: "reader", client: "reader", scopes: "payments:read tickets:read"},
	{name: "brief", client: "brief", to: 5 * time.Minute},
	{name: "early", client: "early", from: time.Hour},
	{name: "revoked", client: "revoked", status: "revoked"},
}

// organization makes a configuration; its names begin with prefix.
func (w *world) organization(prefix string) *rediskv.Config {
	c := &rediskv.Config{Organization: tollgate.Organization{
		ID: w.mint(tollgate.PrefixOrganization, prefix+"org"), Name: "Example Trading", Status: "active", HomeRegion: "fra",
	}}
	le := w.mint(tollgate.PrefixLegalEntity, prefix+"entity")
	c.LegalEntities = []tollgate.LegalEntity{{ID: le, LegalName: "Example Trading GmbH", Country: "DE", Type: "company", Status: "verified"}}
	for _, f := range accountForms {
		per, rs := w.mint(tollgate.PrefixPerimeter, prefix+f.name+"_perimeter"), w.mint(tollgate.PrefixRuleSet, prefix+f.name+"_rules")
		c.Perimeters = append(c.Perimeters, tollgate.PerimeterDocument{ID: per, Version: 1, Constraints: jsontext.Value(f.limits)})
		c.RuleSets = append(c.RuleSets, tollgate.RuleSet{ID: rs, Version: 1, Rules: f.rules})
		c.MerchantAccounts = append(c.MerchantAccounts, tollgate.MerchantAccount{
			ID: w.mint(tollgate.PrefixMerchantAccount, prefix+f.name), LegalEntityID: le, Name: f.name, Status: f.status,
			Currencies: f.currencies, DefaultCurrency: f.currencies[0],
			Cutoff:    tollgate.Cutoff{CutoffTime: "17:00", TimeZone: "Europe/Berlin", SettlementDelayDays: 2, Calendar: "target", Interval: "daily"},
			Perimeter: tollgate.PerimeterRef{ID: per, Version: 1}, RuleSet: tollgate.RuleSet{ID: rs, Version: 1}, CaptureWindowHours: 168,
		})
	}
	clients := make(map[string]*tollgate.Client)
	for _, f := range grantForms {
		grant := tollgate.Grant{ID: w.mint(tollgate.PrefixGrant, prefix+"grant_"+f.name), Status: "active", Scopes: strings.Fields(f.scopes)}
		if f.status != "" {
			grant.Status = f.status
			grant.RevokedAt = tollgate.At(morning)
		}
		if f.scopes == "" {
			grant.Scopes = strings.Fields(auth.AllScopes().String())
		}
		for _, a := range f.accounts {
			grant.MerchantAccountIDs = append(grant.MerchantAccountIDs, w.vars[prefix+a])
		}
		if f.from != 0 {
			grant.NotBefore = tollgate.At(morning.Add(f.from))
		}
		if f.to != 0 {
			grant.ExpiresAt = tollgate.At(morning.Add(f.to))
		}
		client, ok := clients[f.client]
		if !ok {
			name := prefix + f.client
			private, public, err := auth.GenerateClientKey(rand.Reader, "ES256")
			w.private[name] = must(w.t, private, err)
			client = &tollgate.Client{ID: w.mint(tollgate.PrefixClient, prefix+"client_"+f.client), Name: f.client, Status: "active", Keys: []string{string(public)}}
			clients[f.client] = client
		}
		grant.ClientID = client.ID
		client.GrantIDs = append(client.GrantIDs, grant.ID)
		c.Grants = append(c.Grants, grant)
	}
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		c.Clients = append(c.Clients, *clients[name])
	}
	return c
}

// account is an account in the configuration, to be changed and applied.
func (w *world) account(name string) *tollgate.MerchantAccount {
	c := w.configs[""]
	i := slices.IndexFunc(c.MerchantAccounts, func(a tollgate.MerchantAccount) bool { return a.ID == w.vars[name] })
	return &c.MerchantAccounts[i]
}

// grant is a grant in the configuration, to be changed and applied.
func (w *world) grant(name string) *tollgate.Grant {
	c := w.configs[""]
	i := slices.IndexFunc(c.Grants, func(g tollgate.Grant) bool { return g.ID == w.vars["grant_"+name] })
	return &c.Grants[i]
}

func (w *world) assertion(client string) string {
	prefix := ""
	bare := client
	if rest, ok := strings.CutPrefix(client, "other_"); ok {
		prefix, bare = "other_", rest
	}
	text, err := auth.SignAssertion(w.private[client], w.vars[prefix+"client_"+bare], issuer, rand.Text(), w.now())
	return must(w.t, text, err)
}

// token is an access token of a grant, got from the server as any client does;
// scope "" is all that the grant has.
func (w *world) token(grant, scope string) string {
	w.t.Helper()
	if known, ok := w.tokens[grant+" "+scope]; ok {
		return known
	}
	prefix := ""
	bare := grant
	if rest, ok := strings.CutPrefix(grant, "other_"); ok {
		prefix, bare = "other_", rest
	}
	i := slices.IndexFunc(grantForms, func(f grantForm) bool { return f.name == bare })
	if i < 0 {
		w.t.Fatalf("there is no grant %q", grant)
	}
	form := tokenForm(w.assertion(prefix + grantForms[i].client))
	form.Set("grant_id", w.vars[prefix+"grant_"+bare])
	if scope != "" {
		form.Set("scope", scope)
	}
	r := w.send(w.request("POST", "/oauth2/token", form.Encode(), "Authorization", "", "Content-Type", "application/x-www-form-urlencoded"))
	text, _ := r.body["access_token"].(string)
	if r.StatusCode != 200 || text == "" {
		w.t.Fatalf("token of %s: %d %s", grant, r.StatusCode, r.text)
	}
	w.tokens[grant+" "+scope] = text
	return text
}

// request makes a request with the token of the grant all; headers are pairs
// of name and value, which replace those that are there by default. An empty
// value is no header.
func (w *world) request(method, path, body string, headers ...string) *http.Request {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, nil)
	must(w.t, req, err)
	if body != "" {
		req.Body = io.NopCloser(strings.NewReader(body))
		req.ContentLength = int64(len(body))
		req.Header.Set("Content-Type", "application/json")
	}
	given := make(map[string]bool)
	for i := 0; i < len(headers); i += 2 {
		name := http.CanonicalHeaderKey(headers[i])
		if !given[name] {
			req.Header.Del(name)
		}
		given[name] = true
		if headers[i+1] != "" {
			req.Header[name] = append(req.Header[name], headers[i+1])
		}
	}
	if !given["Authorization"] {
		req.Header.Set("Authorization", "Bearer "+w.token("all", ""))
	}
	return req
}

func (w *world) send(req *http.Request) reply {
	w.t.Helper()
	r, err := w.try(req)
	return must(w.t, r, err)
}

// try is send for other goroutines than the test's.
func (w *world) try(req *http.Request) (reply, error) {
	ctx, cancel := context.WithTimeout(req.Context(), 40*time.Second)
	defer cancel()
	resp, err := w.client.Do(req.WithContext(ctx))
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

// call makes a request, sends it and reads the answer.
func (w *world) call(method, path, body string, headers ...string) reply {
	w.t.Helper()
	return w.send(w.request(method, path, body, headers...))
}

// pay creates a payment; body is what comes before and after nothing else.
func (w *world) pay(key, body string) reply {
	w.t.Helper()
	return w.call("POST", "/v1/payments", body, "Idempotency-Key", key)
}

// want checks a reply's status and code.
func (w *world) want(r reply, status int, code string) reply {
	w.t.Helper()
	if have, _ := r.body["code"].(string); r.StatusCode != status || have != code {
		w.t.Fatalf("%s %s: %d %s\nwant %d %s", r.Request.Method, r.Request.URL, r.StatusCode, r.text, status, code)
	}
	return r
}

// get is a member of an answer by its dotted path; the test ends if it is not
// there.
func (w *world) get(r reply, path string) string {
	w.t.Helper()
	var v any = r.body
	for name := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	if v == nil {
		w.t.Fatalf("%s is not there: %s", path, r.text)
	}
	return fmt.Sprint(v)
}
