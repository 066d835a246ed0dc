package handlers_test

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers"
	"tollgate/handlers/auth"
)

// suite asks every route as everybody: one world with one valid request for each row of
// the route table, and whoever may send it.
type suite struct {
	*world
	operations []*operation // one a route
	granted    map[string]string
}

// newSuite is a world with more clients of the first organization. Each has a grant for
// everything, but for elsewhere, whose grant is for accounts that no request is about.
func newSuite(t *testing.T, clients ...string) *suite {
	t.Helper()
	s := &suite{world: newWorld(t), granted: make(map[string]string)}
	seen := make(map[string]bool)
	for _, o := range s.world.operations() {
		if route := routeOf(t, o.method, o.path); !seen[route] {
			seen[route] = true
			if o.id == "publishRule" { // one that is not there yet
				text, err := json.Marshal(s.newPublication("rule:suite_fee@v1", "1.5", "team"))
				o.form = string(must(t, text, err))
			}
			s.operations = append(s.operations, o)
		}
	}
	for _, name := range clients {
		s.addClient(name)
	}
	s.apply("")
	return s
}

// addClient adds a client with one grant to the configuration, which is to be applied.
func (s *suite) addClient(name string) {
	s.t.Helper()
	private, public, err := auth.GenerateClientKey(rand.Reader, "ES256")
	s.private[name] = must(s.t, private, err)
	g := tollgate.Grant{ID: s.newID(tollgate.PrefixGrant, "grant_"+name), Status: "active", Scopes: strings.Fields(auth.AllScopes().String())}
	if name == "elsewhere" {
		g.MerchantAccountIDs = []string{s.vars["suppliers"]}
	}
	g.ClientID = s.newID(tollgate.PrefixClient, "client_"+name)
	c := s.configs[""]
	c.Clients = append(c.Clients, tollgate.Client{ID: g.ClientID, Name: name, Status: "active", Keys: []string{string(public)}, GrantIDs: []string{g.ID}})
	c.Grants = append(c.Grants, g)
}

// bearer is the Authorization of a client of the suite; scope "" is everything.
func (s *suite) bearer(client, scope string) []string {
	s.t.Helper()
	if s.granted[client+" "+scope] == "" {
		form := tokenForm(s.assertion(client))
		if scope != "" {
			form.Set("scope", scope)
		}
		r := s.want(s.send(s.request("POST", "/oauth2/token", form.Encode(), "Authorization", "", "Content-Type", formMedia)), 200, "")
		s.granted[client+" "+scope] = s.get(r, "access_token")
	}
	return []string{"Bearer " + s.granted[client+" "+scope]}
}

const formMedia = "application/x-www-form-urlencoded"

// ask sends an operation's request under the Authorization headers of somebody.
func (s *suite) ask(o *operation, key string, authorization ...string) reply {
	s.t.Helper()
	headers := []string{"Idempotency-Key", key}
	if o.key == "" {
		headers = nil
	}
	if o.media != "" {
		headers = append(headers, "Content-Type", o.media)
	}
	for _, value := range authorization {
		headers = append(headers, "Authorization", value)
	}
	if len(authorization) == 0 {
		headers = append(headers, "Authorization", "")
	}
	return s.call(o.method, o.path, o.text(nil), headers...)
}

// identity is somebody who asks, and what becomes of it.
type identity struct {
	name string
	// authorization are the headers of a request to a route.
	authorization func(o *operation, r handlers.Route) []string
	answer        string // "401 token_missing"; "": what the route's row says of it
	counted       bool   // as a stranger's; else it is in the audit record
}

// always is the Authorization of an identity that sends the same everywhere.
func always(values ...string) func(*operation, handlers.Route) []string {
	return func(*operation, handlers.Route) []string { return values }
}

// slowly is always for wrong signatures: an address may send twenty a second.
func (s *suite) slowly(value string) func(*operation, handlers.Route) []string {
	return func(*operation, handlers.Route) []string {
		s.clock.Advance(time.Second / 20)
		return []string{value}
	}
}

// spellings are an Authorization that no token can be read from: %s is a good one.
var spellings = map[string][]string{
	"another scheme": {"Basic %s"}, "no scheme": {"%s"}, "a scheme alone": {"Bearer"}, "two spaces": {"Bearer  %s"},
	"a tab": {"Bearer\t%s"}, "a comma": {"Bearer %s,"}, "two tokens": {"Bearer %s %[1]s"}, "two in one": {"Bearer %s, Bearer %[1]s"},
	"two headers": {"Bearer %s", "Bearer %[1]s"}, "quoted": {`Bearer "%s"`}, "a parameter": {"Bearer token=%s"}, "half of it": {"Bearer %.20s"},
}

// strangers are those of whom nothing is known.
func (s *suite) strangers() (list []identity) {
	good := s.bearer("keeper", "")[0][len("Bearer "):]
	list = append(list, identity{"nobody", always(), "401 token_missing", true})
	for _, name := range slices.Sorted(maps.Keys(spellings)) {
		var values []string
		for _, form := range spellings[name] {
			values = append(values, fmt.Sprintf(form, good))
		}
		list = append(list, identity{"malformed, " + name, always(values...), "401 token_invalid", true})
	}
	parts := strings.Split(good, ".")
	other, err := auth.GenerateSigningKey(rand.Reader)
	keys, err := auth.ParseSigningKeys(must(s.t, other, err))
	mint := func(keys *auth.Keys, at time.Time) string {
		text, err := (&auth.Issuer{Keys: keys, Name: issuer}).Mint(at, auth.Token{
			ID: s.newID("tok_", "forged"), ClientID: s.vars["client_keeper"], Organization: s.vars["org"],
			GrantID: s.vars["grant_keeper"], GrantVersion: 1, Scopes: auth.AllScopes(),
		})
		return "Bearer " + must(s.t, text, err)
	}
	forged := strings.Split(mint(must(s.t, keys, err), s.now())[len("Bearer "):], ".")
	return append(list,
		identity{"forged signature", s.slowly("Bearer " + parts[0] + "." + parts[1] + "." + forged[2]), "401 token_invalid", true},
		identity{"signed by a key of its own", s.slowly(mint(keys, s.now())), "401 token_invalid", true},
		identity{"expired token", always(mint(s.keys, s.now().Add(-time.Hour))), "401 token_expired", true},
	)
}

// members are those whose token is good: what they may see decides.
func (s *suite) members() []identity {
	s.t.Helper()
	bound := s.newProver().token
	return []identity{
		{"another scope", func(_ *operation, r handlers.Route) []string {
			without := slices.DeleteFunc(auth.AllScopes(), func(scope auth.Scope) bool { return scope == r.Scope })
			return s.bearer("keeper", without.String())
		}, "403 scope_missing", false},
		{"another organization", always("Bearer " + s.world.token("other_all", "")), "", false},
		{"another merchant account", always(s.bearer("elsewhere", "")...), "", false},
		{"a bound token without its proof", always("DPoP " + bound), "401 token_invalid", true},
		{"a bound token as a bearer token", always("Bearer " + bound), "401 token_invalid", true},
	}
}

// ended are those whose access has ended since they got their token; the changes of
// configuration that end it have been made.
func (s *suite) ended() (list []identity) {
	for _, name := range enders {
		list = append(list, identity{name, always(s.bearer(name, "")...), "401 token_invalid", false})
	}
	return list
}

// enders are the clients that lose their access, by how they lose it.
var enders = []string{"revoked token", "revoked grant", "changed grant", "disabled client", "removed key"}

// end makes the changes that the names of enders say, the token first: a change of the
// configuration ends tokens of its own.
func (s *suite) end() {
	s.t.Helper()
	c := s.configs[""]
	grant := func(name string) *tollgate.Grant {
		return &c.Grants[slices.IndexFunc(c.Grants, func(g tollgate.Grant) bool { return g.ID == s.vars["grant_"+name] })]
	}
	client := func(name string) *tollgate.Client {
		return &c.Clients[slices.IndexFunc(c.Clients, func(c tollgate.Client) bool { return c.ID == s.vars["client_"+name] })]
	}
	form := tokenForm(s.assertion("revoked token"))
	form.Set("token", s.bearer("revoked token", "")[0][len("Bearer "):])
	s.want(s.send(s.request("POST", "/oauth2/revoke", form.Encode(), "Authorization", "", "Content-Type", formMedia)), 200, "")
	grant("revoked grant").Status, grant("revoked grant").RevokedAt = "revoked", tollgate.At(s.now())
	grant("changed grant").Scopes = grant("changed grant").Scopes[1:]
	client("disabled client").Status = "disabled"
	_, public, err := auth.GenerateClientKey(rand.Reader, "ES256")
	client("removed key").Keys = []string{string(must(s.t, public, err))}
	s.apply("")
	s.store.Refresh(s.vars["org"])
}

// everywhere asks every route as somebody and holds the answers to the tables. One
// digest of Redis stands before all of it and one behind: what an answer wrote is named
// by its key, and each trace by its request.
func (s *suite) everywhere(who identity) {
	s.t.Helper()
	for _, o := range s.operations {
		who.authorization(o, s.route(o)) // which may get a token first
	}
	before, counts := dump(s.t, s.redis), 0
	asked := make(map[string]handlers.Route) // by request id, what is to be in the audit record
	for _, o := range s.operations {
		route := s.route(o)
		want := who.answer
		if want == "" || route.Scope == "" {
			want = s.expected(who, route)
		}
		if want == "" || strings.HasPrefix(want, "2") && o.method != http.MethodGet {
			continue // its own test has what it may do
		}
		r := s.ask(o, "suite-denied", who.authorization(o, route)...)
		s.answered(who, route, r, want)
		switch {
		case r.StatusCode < 400, r.StatusCode >= 500:
		case who.counted || route.Scope == "":
			counts++
		default:
			asked[r.Header.Get("Request-Id")] = route
		}
	}
	after := dump(s.t, s.redis)
	if changes := before.without().changes(after.without()); len(changes) > 0 {
		s.t.Errorf("%s: written: %s", who.name, strings.Join(changes, "\n"))
	}
	s.traced(who, added(before.stream(":audit"), after.stream(":audit")), asked)
	if n := after.refusals("") - before.refusals(""); n != counts {
		s.t.Errorf("%s: %d refusals are counted, want %d", who.name, n, counts)
	}
}

// traced holds the new entries of the audit record to the requests that were refused:
// one for each (interface §5).
func (s *suite) traced(who identity, entries []string, asked map[string]handlers.Route) {
	s.t.Helper()
	found := make(map[string]int)
	for _, text := range entries {
		var e struct {
			Outcome string `json:"outcome"`
			Request struct {
				ID    string `json:"id"`
				Route string `json:"route"`
			} `json:"request"`
		}
		check(s.t, json.Unmarshal([]byte(text), &e))
		route, refused := asked[e.Request.ID]
		switch {
		case !refused && e.Outcome == "succeeded": // a read that is recorded
		case e.Outcome == "succeeded" || e.Request.Route != route.Path:
			s.t.Errorf("%s: %s %s has the entry %s", who.name, route.Method, route.Path, text)
		default:
			found[e.Request.ID]++
		}
	}
	for id, route := range asked {
		if found[id] != 1 {
			s.t.Errorf("%s: %s %s has %d entries in the audit record", who.name, route.Method, route.Path, found[id])
		}
	}
}

// answered holds one answer to its status, code and challenge.
func (s *suite) answered(who identity, route handlers.Route, r reply, want string) {
	s.t.Helper()
	name := who.name + ": " + route.Method + " " + route.Path
	code, _ := r.body["code"].(string)
	if have := strings.TrimSpace(fmt.Sprint(r.StatusCode, " ", code)); have != want {
		s.t.Errorf("%s: %s, want %s\n%.300s", name, have, want, r.text)
	}
	challenge := ""
	switch code {
	case "token_missing":
		challenge = `Bearer realm="tollgate"`
	case "token_invalid":
		challenge = `Bearer realm="tollgate", error="invalid_token", error_description="The access token is not valid"`
		if strings.HasPrefix(r.Request.Header.Get("Authorization"), "DPoP ") {
			challenge = badProof + `, error_description="The DPoP proof is not valid", algs="` + strings.Join(auth.Algorithms(), " ") + `"`
		}
	case "token_expired":
		challenge = `Bearer realm="tollgate", error="invalid_token", error_description="The access token has expired"`
	case "scope_missing":
		if who.answer == "" { // it is no scope of the route
			break
		}
		challenge = fmt.Sprintf(`Bearer realm="tollgate", error="insufficient_scope", scope="%s"`, route.Scope)
	}
	if have := r.Header.Get("WWW-Authenticate"); have != challenge {
		s.t.Errorf("%s: WWW-Authenticate %q, want %q", name, have, challenge)
	}
	if r.StatusCode < 300 && route.Scope != "" && who.answer == "" {
		s.showsNothing(who, name, r)
	}
}

// showsNothing fails if an answer names an object that is not its reader's.
func (s *suite) showsNothing(who identity, name string, r reply) {
	s.t.Helper()
	hidden := []string{s.vars["eur"], s.vars["wide"]}
	if r.Request.URL.Path == "/v1/audit" { // it names what its reader asked for
		return
	}
	if who.name == "another organization" {
		hidden = append(hidden, s.vars["org"], s.vars["client_shop"], s.vars["grant_all"], s.vars["limited"])
	}
	for _, id := range hidden {
		if strings.Contains(r.text, id+`"`) {
			s.t.Errorf("%s: it names %s: %.500s", name, id, r.text)
		}
	}
}

func (s *suite) route(o *operation) handlers.Route {
	s.t.Helper()
	name := routeOf(s.t, o.method, o.path)
	routes := s.server.Routes()
	return routes[slices.IndexFunc(routes, func(r handlers.Route) bool { return r.Method+" "+r.Path == name })]
}

// TestEveryRouteForEveryIdentity: whoever asks without a right gets the answer that the
// tables say, writes nothing and leaves one trace. The same requests by whoever has
// exactly the route's scope succeed, so it was the identity that was refused.
func TestEveryRouteForEveryIdentity(t *testing.T) {
	s := newSuite(t, append([]string{"keeper", "elsewhere", "second"}, enders...)...)
	s.everyRouteHasARow()
	for _, name := range enders {
		s.bearer(name, "")
	}
	for _, who := range slices.Concat(s.strangers(), s.members()) {
		s.everywhere(who)
	}
	s.end()
	for _, who := range s.ended() {
		s.everywhere(who)
	}
	s.organizationEnds("suspended")
	s.organizationEnds("closed")
	s.signingKeyEnds()
	s.rightOnesSucceed()
}

// organizationEnds has the organization end, asks as one of its clients, and opens it
// again: tokens from before stay ended.
func (s *suite) organizationEnds(status string) {
	s.t.Helper()
	before := s.bearer("keeper", "")
	s.configs[""].Organization.Status = status
	s.apply("")
	s.store.Refresh(s.vars["org"])
	s.everywhere(identity{"organization " + status, always(before...), "401 token_invalid", false})
	s.configs[""].Organization.Status = tollgate.StatusActive
	s.apply("")
	s.store.Refresh(s.vars["org"])
	clear(s.granted)
	clear(s.tokens)
}

// signingKeyEnds has the key revoked that has signed a token. The token was known to be
// genuine before.
func (s *suite) signingKeyEnds() {
	s.t.Helper()
	before := s.bearer("keeper", "")
	for _, o := range s.operations {
		if o.id == "readOrganization" {
			s.want(s.ask(o, "", before...), 200, "")
		}
	}
	next, err := auth.GenerateSigningKey(rand.Reader)
	keys, err := auth.ParseSigningKeys(must(s.t, next, err))
	s.keys.Replace(must(s.t, keys, err))
	clear(s.granted)
	clear(s.tokens)
	s.everywhere(identity{"revoked signing key", s.slowly(before[0]), "401 token_invalid", true})
}

// rightOnesSucceed sends every request under the route's scope alone, and those that
// take a key once more under the key of another client.
func (s *suite) rightOnesSucceed() {
	s.t.Helper()
	for _, o := range s.operations {
		route := s.route(o)
		if o.id == "moveClock" {
			continue // last: it ends tokens
		}
		var authorization []string
		switch {
		case o.id == "readGrant": // a client may read its own
			authorization = []string{"Bearer " + s.world.token("all", string(route.Scope))}
		case route.Scope != "":
			authorization = s.bearer("keeper", string(route.Scope))
		}
		if r := s.ask(o, "suite", authorization...); r.StatusCode >= 300 && o.id != "readReadiness" { // nobody loads its rules
			s.t.Errorf("%s %s: %d %s", route.Method, route.Path, r.StatusCode, r.text)
		}
		if o.key == "" {
			continue
		}
		who := identity{name: "a key of another client", authorization: always(s.bearer("second", "")...), answer: "422 idempotency_key_reused"}
		before := dump(s.t, s.redis)
		r := s.ask(o, "suite", who.authorization(o, route)...)
		s.answered(who, route, r, who.answer)
		after := dump(s.t, s.redis)
		if changes := before.without().changes(after.without()); len(changes) > 0 {
			s.t.Errorf("%s: %s %s: written: %s", who.name, route.Method, route.Path, strings.Join(changes, "\n"))
		}
		s.traced(who, added(before.stream(":audit"), after.stream(":audit")), map[string]handlers.Route{r.Header.Get("Request-Id"): route})
	}
	for _, o := range s.operations {
		if o.id == "moveClock" {
			s.want(s.ask(o, "", s.bearer("keeper", string(s.route(o).Scope))...), 200, "")
		}
	}
}
