package handlers_test

import "strings"

const (
	publicKey  kindOf = "a public key"
	publicKeys kindOf = "a list of public keys"
	scopeList  kindOf = "a list of scopes"
)

const tillKey = `{"kty":"EC","crv":"P-256","kid":"till","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}`

// accessOperations are those of clients and grants, on a client with a key and a grant.
func (w *world) accessOperations(page []queryParameter) []*operation {
	w.t.Helper()
	client := w.get(w.want(w.call("POST", "/v1/clients", `{"name":"Till","keys":[`+tillKey+`]}`), 201, ""), "id")
	grant := w.get(w.want(w.call("POST", "/v1/grants", `{"client_id":"`+client+`","scopes":["quotes:read"]}`), 201, ""), "id")
	at := "/v1/clients/" + client
	status := queryParameter{"status", "active", []string{"nonsense", "active,disabled", "Active"}}
	const jsonMedia = "application/json"
	return []*operation{
		{id: "createClient", method: "POST", path: "/v1/clients", media: jsonMedia, body: []member{
			{"name", `"Till 2"`, text255, true},
			{"keys", "[" + tillKey + "]", publicKeys, false},
			{"dpop_bound_access_tokens", "false", flag, false},
		}, key: "accepted"},
		{id: "listClients", method: "GET", path: "/v1/clients", query: append([]queryParameter{status}, page...)},
		{id: "readClient", method: "GET", path: at, pathID: client},
		{id: "updateClient", method: "PATCH", path: at, pathID: client, media: jsonMedia, body: []member{
			{"name", `"Till 3"`, text255, false},
			{"status", `"active"`, choice, false},
			{"dpop_bound_access_tokens", "false", flag, false},
		}},
		{id: "addClientKey", method: "POST", path: at + "/keys", pathID: client, media: jsonMedia, body: []member{
			{"jwk", strings.Replace(tillKey, "till", "till-2", 1), publicKey, true},
		}, key: "accepted"},
		{id: "removeClientKey", method: "DELETE", path: at + "/keys/till", pathID: client},
		{id: "createGrant", method: "POST", path: "/v1/grants", media: jsonMedia, body: []member{
			{"client_id", quotedJSON(client), identifier, true},
			{"scopes", `["quotes:read"]`, scopeList, true},
			{"merchant_account_ids", `["` + w.vars["eur"] + `"]`, accountList, false},
			{"default_merchant_account_id", quotedJSON(w.vars["eur"]), identifier, false},
			{"not_before", `"2026-03-02T08:00:00Z"`, anyTime, false},
			{"expires_at", `"2027-03-02T08:00:00Z"`, anyTime, false},
		}, key: "accepted"},
		{id: "listGrants", method: "GET", path: "/v1/grants", query: append([]queryParameter{
			{"client_id", w.vars["client_shop"], []string{"a-b", "%22"}},
			{"status", "active", []string{"nonsense", "active,revoked", "Active"}},
		}, page...)},
		{id: "revokeGrant", method: "POST", path: "/v1/grants/" + grant + "/revoke", pathID: grant, key: "accepted"},
	}
}

// wrongForAccess are wrong values of these kinds.
func wrongForAccess(kind kindOf) (list []wrongValue) {
	add := func(raws ...string) {
		for _, raw := range raws {
			list = append(list, wrongValue{raw, 400, "parameter_invalid", ""})
		}
	}
	keys := []string{
		`{}`, `{"kty":"EC"}`, `{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ"}`, strings.Replace(tillKey, "P-256", "P-384", 1),
		strings.Replace(tillKey, `"x"`, `"d":"jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI","x"`, 1), strings.Replace(tillKey, "f83O", "f83P", 1),
		strings.Replace(tillKey, `"till"`, `"a b"`, 1), strings.Replace(tillKey, `"till"`, `"a/b"`, 1), strings.Replace(tillKey, `"till"`, `"`+strings.Repeat("k", 129)+`"`, 1),
		strings.Replace(tillKey, `"kid"`, `"use":"enc","kid"`, 1), strings.Replace(tillKey, `"kid"`, `"alg":"HS256","kid"`, 1),
	}
	switch kind {
	case publicKey:
		add(keys...)
	case publicKeys:
		add("["+tillKey+","+tillKey+"]", "[1]", "[null]", "["+strings.Repeat("1,", 10)+"1]")
		for _, key := range keys {
			add("[" + key + "]")
		}
	case scopeList:
		add("[]", `[""]`, `["*"]`, `["payments:*"]`, `["quotes:read","QUOTES:READ"]`, `["quotes:read payments:write"]`, "[1]", "[null]", `["`+strings.Repeat("x", 60000)+`"]`)
	}
	return list
}
