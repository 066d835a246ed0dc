package handlers_test

import (
	"crypto/rand"
	"strings"
	"sync"
	"testing"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/rediskv/redistest"
)

// holder is a client that was made over the API, with its keys by their kid.
type holder struct {
	*world
	id   string
	keys map[string][]byte
}

func (w *world) newHolder(name string) *holder {
	w.t.Helper()
	return &holder{w, w.get(w.want(w.call("POST", "/v1/clients", `{"name":"`+name+`"}`), 201, ""), "id"), map[string][]byte{}}
}

// addKey makes a key and registers it.
func (h *holder) addKey(alg string) (kid string) {
	h.t.Helper()
	private, public, err := auth.GenerateClientKey(rand.Reader, alg)
	check(h.t, err)
	key, err := auth.RegisterKey(public)
	check(h.t, err)
	h.want(h.call("POST", "/v1/clients/"+h.id+"/keys", `{"jwk":`+string(public)+`}`), 201, "")
	h.keys[key.ID] = private
	return key.ID
}

// ask asks for a token with a key, for a grant.
func (h *holder) ask(kid, grant string) reply {
	h.t.Helper()
	text, err := auth.SignAssertion(h.keys[kid], h.id, issuer, rand.Text(), h.now())
	check(h.t, err)
	form := tokenForm(text)
	form.Set("grant_id", grant)
	return h.send(h.request("POST", "/oauth2/token", form.Encode(), "Authorization", "", "Content-Type", "application/x-www-form-urlencoded"))
}

func (h *holder) give(scopes string) (grant string) {
	h.t.Helper()
	return h.get(h.want(h.call("POST", "/v1/grants", `{"client_id":"`+h.id+`","scopes":["`+strings.Join(strings.Fields(scopes), `","`)+`"]}`), 201, ""), "id")
}

// A client that was made over the API works at once, with every kind of key, and what
// is taken from it ends at once: its tokens, too, also for what asks Redis nothing.
func TestClientsOverTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.newHolder("Till")
	grant := h.give("quotes:read events:read")
	h.keys["none"], _, _ = auth.GenerateClientKey(rand.Reader, "ES256")
	w.want(h.ask("none", grant), 401, "token_invalid") // it has no key yet
	kids := []string{h.addKey("ES256"), h.addKey("Ed25519"), h.addKey("PS256")}
	tokens := map[string]string{}
	with := func(kid string) []string { return []string{"Authorization", "Bearer " + tokens[kid]} }
	renew := func(kids ...string) {
		t.Helper()
		for _, kid := range kids {
			tokens[kid] = w.get(w.want(h.ask(kid, grant), 200, ""), "access_token")
		}
	}
	const quote = `{` + good + `}`
	alive := func(code string, kids ...string) {
		t.Helper()
		for _, kid := range kids {
			status := 200
			if code != "" {
				status = 401
			}
			w.want(w.call("GET", "/v1/events", "", with(kid)...), status, code)
			w.want(w.call("POST", "/v1/quotes", strings.Replace(quote, "{", `{"merchant_account_id":"`+w.vars["eur"]+`",`, 1), with(kid)...), status, code)
		}
	}
	renew(kids...)
	alive("", kids...)
	w.want(w.call("PATCH", "/v1/clients/"+h.id, `{"name":"Till 2"}`), 200, "")
	fourth := h.addKey("ES256")
	alive("", kids...) // neither ends a token
	w.want(w.call("DELETE", "/v1/clients/"+h.id+"/keys/"+kids[0], ""), 200, "")
	alive("token_invalid", kids...)
	w.want(h.ask(kids[0], grant), 401, "token_invalid")
	renew(kids[1], fourth)
	w.want(w.call("PATCH", "/v1/clients/"+h.id, `{"status":"disabled"}`), 200, "")
	alive("token_invalid", kids[1], fourth)
	w.want(h.ask(fourth, grant), 401, "token_invalid")
	w.want(w.call("PATCH", "/v1/clients/"+h.id, `{"status":"active"}`), 200, "")
	renew(fourth)
	w.want(w.call("POST", "/v1/grants/"+grant+"/revoke", ""), 200, "")
	alive("token_invalid", fourth)
	w.want(h.ask(fourth, grant), 400, "parameter_invalid")
}

// Two administrators who go at the same time: one of them stays.
func TestTwoAdministratorsLeaveOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"eur_only", "elsewhere", "kiosk", "usual", "brief", "early"} {
		w.want(w.call("POST", "/v1/grants/"+w.vars["grant_"+name]+"/revoke", ""), 200, "")
	}
	names := []string{"all", "twin"}
	clients := []string{w.vars["client_shop"], w.vars["client_twin"]}
	for round := range 25 {
		var both sync.WaitGroup
		replies := make([]reply, 2)
		for i, client := range clients {
			request := w.request("PATCH", "/v1/clients/"+client, `{"status":"disabled"}`, "Authorization", "Bearer "+w.token(names[i], ""))
			both.Go(func() { replies[i], _ = w.try(request) })
		}
		both.Wait()
		gone := -1
		for i, r := range replies {
			if r.StatusCode == 200 {
				gone = i
			} else if r.StatusCode != 409 {
				t.Errorf("%d %s", r.StatusCode, r.text)
			}
		}
		if replies[0].StatusCode+replies[1].StatusCode != 200+409 {
			t.Fatalf("round %d: %d and %d", round, replies[0].StatusCode, replies[1].StatusCode)
		}
		w.want(w.call("PATCH", "/v1/clients/"+clients[gone], `{"status":"active"}`, "Authorization", "Bearer "+w.token(names[1-gone], "")), 200, "")
		delete(w.tokens, names[gone]+" ")
	}
}

// A key and a wider grant at the same time: whoever may not have both gets one of them.
func TestKeyBesideAWiderGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	narrow, wide := w.token("kiosk", ""), w.token("all", "")
	for round := range 25 {
		client := w.newHolder("Till").id
		var both sync.WaitGroup
		var key, grant reply
		add := w.request("POST", "/v1/clients/"+client+"/keys", `{"jwk":`+tillKey+`}`, "Authorization", "Bearer "+narrow)
		give := w.request("POST", "/v1/grants", `{"client_id":"`+client+`","scopes":["payments:write"]}`, "Authorization", "Bearer "+wide)
		both.Go(func() { key, _ = w.try(add) })
		both.Go(func() { grant, _ = w.try(give) })
		both.Wait()
		w.want(grant, 201, "")
		// A key that is added first is one of a client without the grant; else it is refused.
		if key.StatusCode != 201 && key.StatusCode != 403 {
			t.Fatalf("round %d: %d %s", round, key.StatusCode, key.text)
		}
		if key.StatusCode == 201 && w.seqOf("key.rotated", client) > w.seqOf("grant.created", client) {
			t.Fatalf("round %d: the key came after the grant", round)
		}
	}
}

// seqOf is the sequence of the newest event of a type that names a client.
func (w *world) seqOf(kind, client string) float64 {
	w.t.Helper()
	data, _ := w.want(w.call("GET", "/v1/events?order=desc&limit=1&types="+kind+"&object_id="+client, ""), 200, "").body["data"].([]any)
	event, _ := data[0].(map[string]any)
	n, _ := event["sequence"].(float64)
	return n
}

// Organizations of earlier releases have no lists of clients and grants, and nothing is
// missing all the same; a client without a grant is found by its key.
func TestAccessOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bare := w.newHolder("bare").id
	count := func(path string) (n int) {
		t.Helper()
		data, _ := w.want(w.call("GET", path+"?limit=100", ""), 200, "").body["data"].([]any)
		return len(data)
	}
	clients, grants := count("/v1/clients"), count("/v1/grants")
	space := w.store.Space(w.vars["org"])
	forget := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			check(t, command(t, w.redis, "DEL", key))
		}
	}
	for _, left := range [][]string{{space.Grants(), space.Clients()}, {space.Clients()}, {space.Grants()}} {
		forget(left...)
		if c, g := count("/v1/clients"), count("/v1/grants"); c != clients || g != grants {
			t.Errorf("without %v there are %d clients and %d grants, not %d and %d", left, c, g, clients, grants)
		}
		if kept := dump(t, w.redis); kept[space.Grants()] == "" || kept[space.Clients()] == "" {
			t.Errorf("without %v the lists are not kept", left)
		}
	}
	// A change comes first: the list is made with it, whole.
	forget(space.Grants(), space.Clients())
	w.newHolder("another")
	if c, g := count("/v1/clients"), count("/v1/grants"); c != clients+1 || g != grants {
		t.Errorf("there are %d clients and %d grants", c, g)
	}
	w.want(w.call("GET", "/v1/clients/"+bare, ""), 200, "")
}

// A file comes after the API: what it does not name stays, what it names becomes as it
// says, and what was revoked stays so.
func TestAFileAfterTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.newHolder("Till")
	grant := h.give("quotes:read")
	kid := h.addKey("ES256")
	shop := "/v1/clients/" + w.vars["client_shop"]
	w.want(w.call("POST", shop+"/keys", `{"jwk":`+tillKey+`}`), 201, "")
	w.want(w.call("PATCH", "/v1/clients/"+w.vars["client_twin"], `{"status":"disabled"}`), 200, "")
	w.apply("")
	w.store.Refresh(w.vars["org"])
	w.want(h.ask(kid, grant), 200, "")
	clear(w.tokens)
	if got := w.get(w.want(w.call("GET", "/v1/clients/"+w.vars["client_twin"], ""), 200, ""), "status"); got != "active" {
		t.Errorf("a client that a file names is %s", got)
	}
	if text := w.call("GET", shop, "").text; strings.Contains(text, `"till"`) {
		t.Errorf("a key that a file does not name is there: %s", text)
	}
	w.want(w.call("POST", "/v1/grants/"+w.vars["grant_reader"]+"/revoke", ""), 200, "")
	_, err := redistest.Provision(t.Context(), w.operator, *w.configs[""], false)
	if err == nil || !strings.Contains(err.Error(), "is revoked and stays so") {
		t.Errorf("a revoked grant that a file names: %v", err)
	}
	w.want(w.call("GET", "/v1/grants/"+w.vars["grant_reader"], ""), 200, "")
	// What a file only refers to stays as it is.
	_, err = redistest.Provision(t.Context(), w.operator, tollgate.Config{
		Organization: tollgate.Organization{ID: w.vars["org"]}, Clients: []tollgate.Client{{ID: h.id, Status: "disabled"}},
	}, false)
	check(t, err)
	w.store.Refresh(w.vars["org"])
	w.want(h.ask(kid, grant), 401, "token_invalid")
}
