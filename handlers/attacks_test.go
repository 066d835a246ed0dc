package handlers_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"tollgate/handlers/attack"
)

// attacked is what a change makes of a JWS that is good without it, and the answer.
type attacked struct {
	name   string
	change func(j *attack.JWS)
	answer string // "": refused
}

// target is where a JWS is good for something.
type target struct {
	*world
	fresh   func() attack.JWS
	send    func(text string) reply
	refused string // the one answer to all: status, code and text
	tried   int
}

// said is what of an answer an attacker sees.
func (r reply) said() string {
	return fmt.Sprint(r.StatusCode, " ", r.body["code"], " ", r.body["message"])
}

// try holds attacks to their answers. What is refused writes nothing but its trace.
func (g *target) try(list []attacked) {
	g.t.Helper()
	for _, a := range list {
		j := g.fresh()
		a.change(&j)
		before := dump(g.t, g.redis)
		r := g.send(j.String())
		g.tried++
		want := a.answer
		if want == "" {
			want = g.refused
		}
		if have := r.said(); !strings.HasPrefix(have, want) {
			g.t.Errorf("%s: %s, want %s", a.name, have, want)
		}
		if r.StatusCode < 300 {
			continue
		}
		if changes := before.without().changes(dump(g.t, g.redis).without()); len(changes) > 0 {
			g.t.Errorf("%s: written: %s", a.name, strings.Join(changes, "\n"))
		}
	}
}

// assertions are good for a token.
func (w *world) assertions() *target {
	return &target{
		world: w,
		fresh: func() attack.JWS {
			j, err := attack.Read(w.assertion("kiosk"), w.private["kiosk"])
			j.Claims = must(w.t, j, err).Claims.With("nbf", j.Claims.Raw("iat"))
			return j
		},
		send: func(text string) reply {
			form := tokenForm(text).Encode()
			return w.send(w.request("POST", "/oauth2/token", form, "Authorization", "", "Content-Type", formMedia))
		},
		refused: "401 token_invalid The client could not be authenticated.",
	}
}

// accessTokens are good for a read.
func (w *world) accessTokens() *target {
	token := w.token("twin", "")
	return &target{
		world: w,
		fresh: func() attack.JWS {
			j, err := attack.Read(token, w.signing)
			return must(w.t, j, err)
		},
		send: func(text string) reply {
			return w.call("GET", "/v1/organizations/"+w.vars["org"], "", "Authorization", "Bearer "+text)
		},
		refused: "401 token_invalid The access token is not valid.",
	}
}

// wrongMembers are what can be wrong with any member: each is refused, unless good says
// what is answered.
func wrongMembers(of string, part func(*attack.JWS) *attack.Members, names []string, good map[string]string) (list []attacked) {
	add := func(name, what string, change func(attack.Members) attack.Members) {
		whole := of + " " + name + " " + what
		list = append(list, attacked{whole, func(j *attack.JWS) { p := part(j); *p = change(*p) }, good[name+" "+what]})
	}
	for _, name := range names {
		add(name, "missing", func(m attack.Members) attack.Members { return m.Without(name) })
		add(name, "in capitals", func(m attack.Members) attack.Members {
			return m.Without(name).With(strings.ToUpper(name), m.Raw(name))
		})
		add(name, "twice", func(m attack.Members) attack.Members { return m.Twice(name, m.Raw(name), false) })
		add(name, "twice, once escaped", func(m attack.Members) attack.Members {
			return m.Twice(name, m.Raw(name), true)
		})
		for what, raw := range map[string]string{
			"null": "null", "true": "true", "an object": `{"a":1}`, "an empty text": `""`, "a list of two": `["a","b"]`, "a list of nothing": "[]",
			"another text": `"other"`, "a fraction": "0.5", "below zero": "-1", "beyond any number": "1e400", "huge": `"` + strings.Repeat("x", 7<<10) + `"`,
		} {
			add(name, what, func(m attack.Members) attack.Members { return m.With(name, raw) })
		}
	}
	return list
}

func header(j *attack.JWS) *attack.Members { return &j.Header }

func claims(j *attack.JWS) *attack.Members { return &j.Claims }

// foreignKeys have a JWS bring its key, or change how it is read (RFC 7515 §4.1).
func foreignKeys() (list []attacked) {
	for name, raw := range map[string]string{
		"jwk": tillKey, "jku": `"https://evil.example/jwks.json"`, "x5u": `"https://evil.example/cert.pem"`, "x5c": `["AAAA"]`, "crit": `["exp"]`, "b64": "false", "crit ": `null`,
	} {
		name, _ := strings.CutSuffix(name, " ")
		list = append(list, attacked{name + " in the header", func(j *attack.JWS) { j.Header = j.Header.With(name, raw) }, ""})
	}
	return list
}

// algorithms are other ways of signing, with the name of the right one or their own.
func (w *world) algorithms(publicJWK string) (list []attacked) {
	for _, alg := range []string{"none", "None", "NONE", "nOnE", "", "es256", "ES256 ", "ES256K", "ES384", "ES512", "RS256", "PS256", "EdDSA", "Ed25519", "HS256", "HS512", "dir", "ES256\\u0000"} {
		list = append(list, attacked{"alg " + alg, func(j *attack.JWS) { j.Header = j.Header.With("alg", `"`+alg+`"`) }, ""})
	}
	for name, secret := range map[string]string{"the public key": publicJWK, "nothing": "", "the issuer": issuer} {
		for _, alg := range []string{"HS256", "ES256"} {
			list = append(list, attacked{alg + " with an HMAC by " + name, func(j *attack.JWS) {
				j.Header, j.Sign = j.Header.With("alg", `"`+alg+`"`), attack.HS256([]byte(secret))
			}, ""})
		}
	}
	signature := func(name string, change func(j attack.JWS, good []byte) []byte) {
		list = append(list, attacked{"signature " + name, func(j *attack.JWS) {
			whole := *j
			j.Sign = func(input string) []byte { return change(whole, whole.ES256(input)) }
		}, ""})
	}
	other, err := attack.Key(w.private["usual"])
	check(w.t, err)
	signature("by another key", func(j attack.JWS, _ []byte) []byte { j.Key = other; return j.ES256("x") })
	signature("of something else", func(j attack.JWS, _ []byte) []byte { return j.ES256("a.b") })
	signature("in DER", func(j attack.JWS, good []byte) []byte { return j.DER(string(good)) })
	signature("of zeros", func(attack.JWS, []byte) []byte { return make([]byte, 64) })
	signature("without its last byte", func(_ attack.JWS, good []byte) []byte { return good[:63] })
	signature("with one byte more", func(_ attack.JWS, good []byte) []byte { return append(good, 0) })
	signature("in two halves, exchanged", func(_ attack.JWS, good []byte) []byte { return append(good[32:], good[:32]...) })
	signature("of nothing", func(attack.JWS, []byte) []byte { return nil })
	signature("with one bit turned", func(_ attack.JWS, good []byte) []byte { good[40] ^= 1; return good })
	for _, kid := range []string{`"../../../../dev/null"`, `"' OR 1=1 --"`, `"https://evil.example/key"`, `"` + strings.Repeat("k", 2000) + `"`, `"\u0000"`} {
		list = append(list, attacked{"kid " + kid[:8], func(j *attack.JWS) { j.Header = j.Header.With("kid", kid) }, ""})
	}
	return list
}

// encodings are other texts for the same bytes, and other bytes for the same text.
func encodings() (list []attacked) {
	finish := func(name string, f func(string) string) {
		list = append(list, attacked{name, func(j *attack.JWS) { j.Finish = f }, ""})
	}
	part := func(n int, f func(string) string) func(string) string {
		return func(text string) string {
			parts := strings.Split(text, ".")
			parts[n] = f(parts[n])
			return strings.Join(parts, ".")
		}
	}
	for n, name := range []string{"header", "claims", "signature"} {
		finish("padding behind the "+name, part(n, func(s string) string { return s + "=" }))
		finish("LF in the "+name, part(n, func(s string) string { return s[:4] + "%0A"[2:] + "\n" + s[4:] }))
		finish("space in the "+name, part(n, func(s string) string { return s[:4] + " " + s[4:] }))
		finish("an empty "+name, part(n, func(string) string { return "" }))
		finish("no "+name, func(text string) string {
			return strings.Join(slices.Delete(strings.Split(text, "."), n, n+1), ".")
		})
		finish("half of the "+name, part(n, func(s string) string { return s[:len(s)/2] }))
	}
	// 64 bytes are 86 digits, the last of which has four bits that mean nothing.
	finish("set bits behind the signature", func(text string) string {
		const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		return text[:len(text)-1] + string(digits[strings.IndexByte(digits, text[len(text)-1])|1])
	})
	finish("a fourth part", func(text string) string { return text + ".AAAA" })
	finish("five parts", func(text string) string { return text + ".AAAA.AAAA" })
	finish("the same twice", func(text string) string { return text + "." + text })
	finish("longer than 8 KiB", func(text string) string { return text + strings.Repeat("A", 8<<10) })
	finish("capitals", strings.ToUpper)
	raw := func(name string, change func(header, claims string) (string, string)) {
		list = append(list, attacked{name, func(j *attack.JWS) { j.RawHeader, j.RawClaims = change(j.Header.String(), j.Claims.String()) }, ""})
	}
	for name, f := range map[string]func(string) string{
		"a BOM":         func(s string) string { return "\ufeff" + s },
		"UTF-16":        func(s string) string { return strings.Join(strings.Split(s, ""), "\x00") + "\x00" },
		"trailing data": func(s string) string { return s + "{}" },
		"a list":        func(s string) string { return "[" + s + "]" },
		"a text":        strconv.Quote,
		"null":          func(string) string { return "null" },
		"a comment":     func(s string) string { return s + "//" },
		"bad UTF-8":     func(s string) string { return strings.TrimSuffix(s, "}") + ",\"a\":\"\xff\"}" },
		"half a pair":   func(s string) string { return strings.TrimSuffix(s, "}") + `,"a":"\ud800"}` },
		"deep":          func(s string) string { return strings.TrimSuffix(s, "}") + `,"a":` + strings.Repeat("[", 3000) + "}" },
		"escaped twin":  func(s string) string { return `{"\u0061lg":"none","\u0069ss":"evil",` + strings.TrimPrefix(s, "{") },
	} {
		raw(name+" for a header", func(h, c string) (string, string) { return f(h), c })
		raw(name+" for claims", func(h, c string) (string, string) { return h, f(c) })
	}
	return list
}

// TestAttacksWithAssertions: a good assertion with one thing wrong gets the one answer
// that all get, and writes nothing.
func TestAttacksWithAssertions(t *testing.T) {
	w := newWorld(t)
	g := w.assertions()
	w.token("kiosk", "")
	good := "200"
	g.try([]attacked{{"nothing wrong", func(*attack.JWS) {}, good}})
	g.try(wrongMembers("claim", claims, []string{"iss", "sub", "aud", "exp", "iat", "nbf", "jti"}, map[string]string{
		"iat missing": good, "nbf missing": good, "iat in capitals": good, "nbf in capitals": good,
		"iat a fraction": good, "nbf a fraction": good, "jti another text": good,
	}))
	g.try(wrongMembers("header", header, []string{"alg", "typ", "kid"}, map[string]string{"typ missing": good, "kid missing": good, "typ in capitals": good, "kid in capitals": good}))
	g.try(foreignKeys())
	g.try(w.algorithms(w.configs[""].Clients[2].Keys[0]))
	g.try(encodings())
	now := w.now().Unix()
	for name, c := range map[string]struct{ claim, raw, answer string }{
		"exp at its latest": {"exp", fmt.Sprint(now + 300), good}, "exp a second later": {"exp", fmt.Sprint(now + 301), ""}, "exp a moment later": {"exp", fmt.Sprint(now+300) + ".001", ""},
		"exp now": {"exp", fmt.Sprint(now), ""}, "exp a moment from now": {"exp", fmt.Sprint(now) + ".5", good}, "exp in milliseconds": {"exp", fmt.Sprint(now*1000 + 60000), ""},
		"exp as text": {"exp", fmt.Sprintf(`"%d"`, now+60), ""}, "exp in exponents": {"exp", "1.7e300", ""}, "exp zero": {"exp", "0", ""}, "exp minus zero": {"exp", "-0", ""},
		"iat at its latest": {"iat", fmt.Sprint(now + 10), good}, "iat a second later": {"iat", fmt.Sprint(now + 11), ""}, "iat as text": {"iat", fmt.Sprintf(`"%d"`, now), ""},
		"nbf at its latest": {"nbf", fmt.Sprint(now + 10), good}, "nbf a second later": {"nbf", fmt.Sprint(now + 11), ""}, "iat long ago": {"iat", "1", good},
		"aud the token endpoint": {"aud", `"` + issuer + `/oauth2/token"`, ""}, "aud with a slash": {"aud", `"` + issuer + `/"`, ""}, "aud alone in a list": {"aud", `["` + issuer + `"]`, good},
		"aud with another": {"aud", `["` + issuer + `","https://evil.example"]`, ""}, "aud twice the same": {"aud", `["` + issuer + `","` + issuer + `"]`, ""},
		"jti at its longest": {"jti", `"` + strings.Repeat("j", 128) + `"`, good}, "jti a byte longer": {"jti", `"` + strings.Repeat("j", 129) + `"`, ""}, "jti of letters of two bytes": {"jti", `"` + strings.Repeat("é", 65) + `"`, ""},
		"iss of another client": {"iss", strconv.Quote(w.vars["client_usual"]), ""}, "sub of another client": {"sub", strconv.Quote(w.vars["client_usual"]), ""},
	} {
		g.try([]attacked{{name, func(j *attack.JWS) { j.Claims = j.Claims.With(c.claim, c.raw) }, c.answer}})
	}
	access := w.token("all", "")
	g.try([]attacked{
		{"an access token", func(j *attack.JWS) { j.Finish = func(string) string { return access } }, ""},
		{"kid of another client", func(j *attack.JWS) {
			other, err := attack.Read(w.assertion("usual"), w.private["usual"])
			check(t, err)
			j.Header = j.Header.With("kid", other.Header.Raw("kid"))
		}, ""},
	})
	enough(t, g.tried, 200)
}

// TestAttacksWithTokens is the same of access tokens, which this server has signed. One
// whose grant is not there, or is older than the token, is no attack but tells of lost data:
// see histories_test.go.
func TestAttacksWithTokens(t *testing.T) {
	w := newWorld(t)
	g := w.accessTokens()
	good := "200"
	g.try([]attacked{{"nothing wrong", func(*attack.JWS) {}, good}})
	g.try(wrongMembers("claim", claims, []string{"iss", "sub", "aud", "exp", "iat", "jti", "client_id", "scope", "org", "gv"}, map[string]string{
		"jti another text": good,
	}))
	g.try(wrongMembers("header", header, []string{"alg", "typ", "kid"}, nil))
	g.try(foreignKeys())
	g.try(w.algorithms(string(w.keys.JWKS())))
	g.try(slices.DeleteFunc(encodings(), func(a attacked) bool { return strings.HasPrefix(a.name, "LF") })) // no header can carry it
	now := w.now().Unix()
	for name, c := range map[string]struct{ claim, raw, answer string }{
		"exp now": {"exp", fmt.Sprint(now), "401"}, "exp before": {"exp", fmt.Sprint(now - 1), ""}, "exp a fraction": {"exp", fmt.Sprint(now+60) + ".5", ""}, "exp as text": {"exp", fmt.Sprintf(`"%d"`, now+60), ""},
		"iat at its latest": {"iat", fmt.Sprint(now + 10), good}, "iat a second later": {"iat", fmt.Sprint(now + 11), ""}, "iat zero": {"iat", "0", ""},
		"gv before": {"gv", "0", ""}, "gv beyond": {"gv", "9223372036854775808", ""}, "gv as text": {"gv", `"1"`, ""},
		"aud in a list": {"aud", `["` + issuer + `"]`, ""}, "aud with a slash": {"aud", `"` + issuer + `/"`, ""}, "iss in capitals": {"iss", strconv.Quote(strings.ToUpper(issuer)), ""},
		"another organization": {"org", strconv.Quote(w.vars["other_org"]), ""}, "a grant of another client": {"grant_id", strconv.Quote(w.vars["grant_all"]), ""},
		"a grant that was revoked": {"grant_id", strconv.Quote(w.vars["grant_revoked"]), ""}, "a scope twice": {"scope", `"accounts:read accounts:read"`, ""},
		"an unknown scope": {"scope", `"accounts:read everything"`, ""}, "two spaces": {"scope", `"accounts:read  quotes:read"`, ""}, "scopes in a list": {"scope", `["accounts:read"]`, ""},
		"no right scope": {"scope", `"quotes:read"`, "403 scope_missing"},
	} {
		g.try([]attacked{{name, func(j *attack.JWS) { j.Claims = j.Claims.With(c.claim, c.raw) }, c.answer}})
	}
	assertion := w.assertion("twin")
	g.try([]attacked{
		{"an assertion", func(j *attack.JWS) { j.Finish = func(string) string { return assertion } }, ""},
		{"another client with its sub", func(j *attack.JWS) {
			id := strconv.Quote(w.vars["client_shop"])
			j.Claims = j.Claims.With("sub", id).With("client_id", id)
		}, ""},
		{"signed by a client", func(j *attack.JWS) {
			key, err := attack.Key(w.private["twin"])
			check(t, err)
			j.Key = key
		}, ""},
	})
	enough(t, g.tried, 200)
}

// enough fails a table that lost its rows.
func enough(t *testing.T, tried, least int) {
	t.Helper()
	if tried < least {
		t.Errorf("only %d attacks, and there were %d", tried, least)
	}
}

// TestAttacksAtOnce: of twenty that send one assertion at once, on two instances, one
// gets a token.
func TestAttacksAtOnce(t *testing.T) {
	w := newWorld(t)
	servers := []*world{w, w.twin()}
	for range 5 {
		form := tokenForm(w.assertion("kiosk")).Encode()
		var mu sync.Mutex
		var asking sync.WaitGroup
		statuses := make(map[int]int)
		for i := range 20 {
			req := servers[i%2].request("POST", "/oauth2/token", form, "Authorization", "", "Content-Type", formMedia)
			asking.Go(func() {
				r, err := servers[i%2].try(req)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
					return
				}
				statuses[r.StatusCode]++
			})
		}
		asking.Wait()
		if statuses[http.StatusOK] != 1 || statuses[http.StatusUnauthorized] != 19 {
			t.Errorf("%v", statuses)
		}
	}
}

// TestAttacksOnTheWire: an Authorization header in every spelling that the wire can carry.
func TestAttacksOnTheWire(t *testing.T) {
	w := newWorld(t)
	token := w.token("all", "")
	const invalid, missing, malformed = "401 token_invalid", "401 token_missing", "400 "
	for name, c := range map[string]struct {
		headers []string
		answer  string
	}{
		"as it should be":              {[]string{"Authorization: Bearer " + token}, "200"},
		"a name in small letters":      {[]string{"authorization: Bearer " + token}, "200"},
		"a scheme in small letters":    {[]string{"Authorization: bearer " + token}, "200"},
		"spaces around the value":      {[]string{"Authorization:   Bearer " + token + "  "}, "200"},
		"no space behind the colon":    {[]string{"Authorization:Bearer " + token}, "200"},
		"a tab behind the colon":       {[]string{"Authorization:\tBearer " + token}, "200"},
		"two headers":                  {[]string{"Authorization: Bearer " + token, "Authorization: Bearer " + token}, invalid},
		"two headers, one empty":       {[]string{"Authorization:", "Authorization: Bearer " + token}, invalid},
		"two names":                    {[]string{"Authorization: Bearer " + token, "AUTHORIZATION: Basic YTpi"}, invalid},
		"an empty header":              {[]string{"Authorization:"}, invalid},
		"a folded value":               {[]string{"Authorization: Bearer", " " + token}, "200"}, // RFC 9112 §5.2 lets it be a space
		"a folded name":                {[]string{"Authori", " zation: Bearer " + token}, malformed},
		"a space before the colon":     {[]string{"Authorization : Bearer " + token}, malformed},
		"a NUL in the value":           {[]string{"Authorization: Bearer \x00" + token}, malformed},
		"a NUL behind":                 {[]string{"Authorization: Bearer " + token + "\x00"}, malformed},
		"a bare CR":                    {[]string{"Authorization: Bearer\r" + token}, malformed},
		"a DEL":                        {[]string{"Authorization: Bearer " + token + "\x7f"}, malformed},
		"bytes beyond ASCII":           {[]string{"Authorization: Bearer " + token + "\xff"}, invalid},
		"a no-break space":             {[]string{"Authorization: Bearer\u00a0" + token}, invalid},
		"a tab inside":                 {[]string{"Authorization: Bearer\t" + token}, invalid},
		"two spaces inside":            {[]string{"Authorization: Bearer  " + token}, invalid},
		"words behind":                 {[]string{"Authorization: Bearer " + token + " x"}, invalid},
		"another name":                 {[]string{"X-Authorization: Bearer " + token}, missing},
		"an underscore for the name":   {[]string{"Proxy-Authorization: Bearer " + token}, missing},
		"a cookie":                     {[]string{"Cookie: access_token=" + token}, missing},
		"an empty token":               {[]string{"Authorization: Bearer "}, invalid},
		"a scheme and a comma":         {[]string{"Authorization: Bearer, " + token}, invalid},
		"another scheme, same letters": {[]string{"Authorization: Bearer: " + token}, invalid},
	} {
		before := dump(t, w.redis)
		status, body := w.wire(attack.Request{Method: "GET", Target: "/v1/organizations/" + w.vars["org"], Headers: c.headers}.String())
		_, code, _ := strings.Cut(body, `"code":"`)
		code, _, _ = strings.Cut(code, `"`)
		if have := fmt.Sprint(status, " ", code); !strings.HasPrefix(have, c.answer) {
			t.Errorf("%s: %s, want %s", name, have, c.answer)
		}
		if changes := before.without().changes(dump(t, w.redis).without()); len(changes) > 0 {
			t.Errorf("%s: written: %s", name, strings.Join(changes, "\n"))
		}
	}
	body := "access_token=" + token
	for name, request := range map[string]attack.Request{
		"a token in the address": {Method: "GET", Target: "/v1/organizations/" + w.vars["org"] + "?access_token=" + token},
		"a token in the body":    {Method: "POST", Target: "/v1/quotes", Headers: []string{"Content-Type: " + formMedia}, Body: body}, // RFC 6750 §2.2, which is not for this API
	} {
		if status, answer := w.wire(request.String()); status != 401 || !strings.Contains(answer, "token_missing") {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
}

// wire sends the text of a request on a connection of its own.
func (w *world) wire(text string) (status int, body string) {
	w.t.Helper()
	answers, bodies := w.pipe().exchange(w.t, text)
	if len(answers) != 1 {
		w.t.Fatalf("%d answers to %.200q", len(answers), text)
	}
	return answers[0].StatusCode, bodies[0]
}
