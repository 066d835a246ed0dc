package auth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"

	"tollgate/handlers/auth"
)

// Every row is a correct assertion with one thing changed.
func TestAssertionRefused(t *testing.T) {
	es, other := newClient(t, "es256", "ES256"), newClient(t, "other", "ES256")
	ec := es.key.(*ecdsa.PrivateKey)
	claim := func(name string, value any) func(*draft) { return func(d *draft) { d.claims[name] = value } }
	header := func(name string, value any) func(*draft) { return func(d *draft) { d.header[name] = value } }
	finish := func(f func(string) string) func(*draft) { return func(d *draft) { d.finish = f } }
	sign := func(f func(string) []byte) func(*draft) { return func(d *draft) { d.sign = f } }
	padded := func(part int) func(*draft) {
		return finish(func(s string) string {
			parts := strings.Split(s, ".")
			parts[part] += "="
			return strings.Join(parts, ".")
		})
	}
	rows := []struct {
		name   string
		reason auth.Reason
		change func(*draft)
	}{
		{"empty", auth.ReasonSize, finish(func(string) string { return "" })},
		{"too long", auth.ReasonSize, claim("pad", strings.Repeat("x", 8<<10))},
		{"two segments", auth.ReasonMalformed, finish(func(s string) string { return s[:strings.LastIndex(s, ".")] })},
		{"four segments", auth.ReasonMalformed, finish(func(s string) string { return s + "." + "AAAA" })},
		{"five segments (JWE)", auth.ReasonMalformed, finish(func(s string) string { return s + ".AAAA.AAAA" })},
		{"no signature", auth.ReasonMalformed, sign(func(string) []byte { return nil })},
		{"empty payload", auth.ReasonMalformed, finish(func(s string) string { p := strings.Split(s, "."); return p[0] + ".." + p[2] })},
		{"LF inside", auth.ReasonMalformed, finish(func(s string) string { return s[:10] + "\n" + s[10:] })},
		{"CR inside the signature", auth.ReasonMalformed, finish(func(s string) string { return s[:len(s)-3] + "\r" + s[len(s)-3:] })},
		{"space in front", auth.ReasonMalformed, finish(func(s string) string { return " " + s })},
		{"newline behind", auth.ReasonMalformed, finish(func(s string) string { return s + "\n" })},
		{"NUL behind", auth.ReasonMalformed, finish(func(s string) string { return s + "\x00" })},
		{"padding in the header", auth.ReasonMalformed, padded(0)},
		{"padding in the payload", auth.ReasonMalformed, padded(1)},
		{"padding in the signature", auth.ReasonMalformed, padded(2)},
		{"standard base64 alphabet", auth.ReasonMalformed, finish(func(s string) string { return s[:len(s)-4] + "+/+/" })},
		// 64 bytes are 86 characters; the last carries 4 bits that mean nothing.
		{"bits beyond the last byte", auth.ReasonMalformed, finish(func(s string) string {
			const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
			last := strings.IndexByte(digits, s[len(s)-1])
			return s[:len(s)-1] + string(digits[last|1])
		})},
		{"JSON serialization", auth.ReasonMalformed, finish(func(s string) string {
			p := strings.Split(s, ".")
			return `{"protected":"` + p[0] + `","payload":"` + p[1] + `","signature":"` + p[2] + `"}`
		})},
		{"JSON serialization, two signatures", auth.ReasonMalformed, finish(func(s string) string {
			p := strings.Split(s, ".")
			one := `{"protected":"` + p[0] + `","signature":"` + p[2] + `"}`
			return `{"payload":"` + p[1] + `","signatures":[` + one + "," + one + `]}`
		})},

		{"header is an array", auth.ReasonMalformed, func(d *draft) { d.rawHeader = `[{"alg":"ES256"}]` }},
		{"header is null", auth.ReasonMalformed, func(d *draft) { d.rawHeader = `null` }},
		{"header with trailing data", auth.ReasonMalformed, func(d *draft) { d.rawHeader = string(marshal(t, d.header)) + "{}" }},
		{"header with invalid UTF-8", auth.ReasonMalformed, func(d *draft) { d.insertHeader("\"a\":\"\xff\"") }},
		{"alg twice", auth.ReasonMalformed, func(d *draft) { d.insertHeader(`"alg":"ES256"`) }},
		{"alg twice, once escaped", auth.ReasonMalformed, func(d *draft) { d.insertHeader(`"\u0061lg":"none"`) }},
		{"name twice deep inside", auth.ReasonMalformed, func(d *draft) { d.insertHeader(`"x":{"a":1,"a":2}`) }},
		{"crit", auth.ReasonHeader, header("crit", []string{"exp"})},
		{"crit b64", auth.ReasonHeader, func(d *draft) { d.header["crit"], d.header["b64"] = []string{"b64"}, true }},
		{"crit empty", auth.ReasonHeader, header("crit", []string{})},
		{"crit null", auth.ReasonHeader, header("crit", nil)},
		{"b64 false", auth.ReasonHeader, header("b64", false)},
		{"b64 true", auth.ReasonHeader, header("b64", true)},
		{"jwk", auth.ReasonHeader, header("jwk", json.RawMessage(es.public))},
		{"jku", auth.ReasonHeader, header("jku", "https://evil.example/jwks.json")},
		{"x5u", auth.ReasonHeader, header("x5u", "https://evil.example/cert.pem")},
		{"x5c", auth.ReasonHeader, header("x5c", []string{"AAAA"})},
		{"typ at+jwt", auth.ReasonType, header("typ", "at+jwt")},
		{"typ empty", auth.ReasonType, header("typ", "")},
		{"typ null", auth.ReasonType, header("typ", nil)},
		{"typ a number", auth.ReasonType, header("typ", 1)},
		{"kid unknown", auth.ReasonKey, header("kid", "unknown")},
		{"kid empty", auth.ReasonKey, header("kid", "")},
		{"kid null", auth.ReasonKey, header("kid", nil)},
		{"kid a number", auth.ReasonKey, header("kid", 7)},
		{"kid an array", auth.ReasonKey, header("kid", []string{member(t, es.public, "kid")})},

		{"alg missing", auth.ReasonAlgorithm, func(d *draft) { delete(d.header, "alg") }},
		{"alg none", auth.ReasonAlgorithm, header("alg", "none")},
		{"alg nOnE", auth.ReasonAlgorithm, header("alg", "nOnE")},
		{"alg es256", auth.ReasonAlgorithm, header("alg", "es256")},
		{"alg null", auth.ReasonAlgorithm, header("alg", nil)},
		{"alg ES384", auth.ReasonAlgorithm, func(d *draft) {
			d.header["alg"] = "ES384"
			d.sign = func(input string) []byte {
				key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
				if err != nil {
					t.Fatal(err)
				}
				sum := sha512.Sum384([]byte(input))
				r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
				if err != nil {
					t.Fatal(err)
				}
				return append(r.FillBytes(make([]byte, 48)), s.FillBytes(make([]byte, 48))...)
			}
		}},
		{"alg HS256 with the public key as the secret", auth.ReasonAlgorithm, func(d *draft) {
			d.header["alg"] = "HS256"
			d.sign = func(input string) []byte {
				mac := hmac.New(sha256.New, es.public)
				mac.Write([]byte(input))
				return mac.Sum(nil)
			}
		}},
		{"alg PS256 on an EC key", auth.ReasonAlgorithm, header("alg", "PS256")},
		{"alg EdDSA on an EC key", auth.ReasonAlgorithm, header("alg", "EdDSA")},

		{"signed by another key", auth.ReasonSignature, func(d *draft) { d.key = other.key }},
		{"payload changed", auth.ReasonSignature, finish(func(s string) string {
			p := strings.Split(s, ".")
			return p[0] + "." + b64([]byte(strings.Replace(string(unb64(t, p[1])), "one", "two", 1))) + "." + p[2]
		})},
		{"header changed", auth.ReasonSignature, finish(func(s string) string {
			p := strings.Split(s, ".")
			return b64(append(unb64(t, p[0]), ' ')) + "." + p[1] + "." + p[2]
		})},
		{"signature in DER", auth.ReasonSignature, sign(func(in string) []byte { return es256DER(t, ec, in) })},
		{"signature a byte short", auth.ReasonSignature, sign(func(in string) []byte { return es256(t, ec, in)[:63] })},
		{"signature a byte long", auth.ReasonSignature, sign(func(in string) []byte { return append(es256(t, ec, in), 0) })},
		{"signature with a zero in front of each half", auth.ReasonSignature, sign(func(in string) []byte {
			r, s := es256Numbers(t, ec, in)
			return append(r.FillBytes(make([]byte, 33)), s.FillBytes(make([]byte, 33))...)
		})},
		{"signature of zeros", auth.ReasonSignature, sign(func(string) []byte { return make([]byte, 64) })},
		{"signature of ones", auth.ReasonSignature, sign(func(string) []byte { return slices.Repeat([]byte{0xff}, 64) })},
		{"r = s = n", auth.ReasonSignature, sign(func(string) []byte {
			n := elliptic.P256().Params().N.FillBytes(make([]byte, 32))
			return append(n, n...)
		})},
		{"r = 1, s = 1", auth.ReasonSignature, sign(func(string) []byte {
			one := big.NewInt(1).FillBytes(make([]byte, 32))
			return append(one, one...)
		})},
		{"halves exchanged", auth.ReasonSignature, sign(func(in string) []byte {
			sig := es256(t, ec, in)
			return append(sig[32:], sig[:32]...)
		})},

		{"payload is an array", auth.ReasonMalformed, func(d *draft) { d.rawClaims = `[]` }},
		{"payload is null", auth.ReasonMalformed, func(d *draft) { d.rawClaims = `null` }},
		{"payload is not JSON", auth.ReasonMalformed, func(d *draft) { d.rawClaims = `hello` }},
		{"payload with trailing data", auth.ReasonMalformed, func(d *draft) { d.rawClaims = string(marshal(t, d.claims)) + "1" }},
		{"aud twice", auth.ReasonMalformed, func(d *draft) { d.insertClaim(`"aud":"https://evil.example"`) }},
		{"iss twice", auth.ReasonMalformed, func(d *draft) { d.insertClaim(`"iss":"cli_02"`) }},
		{"claim with invalid UTF-8", auth.ReasonMalformed, func(d *draft) { d.insertClaim("\"a\":\"\xc3\x28\"") }},
		{"claim with half a surrogate pair", auth.ReasonMalformed, func(d *draft) { d.insertClaim(`"a":"\ud800"`) }},
		{"iss missing", auth.ReasonIssuer, func(d *draft) { delete(d.claims, "iss") }},
		{"iss of another client", auth.ReasonIssuer, claim("iss", "cli_02")},
		{"iss null", auth.ReasonIssuer, claim("iss", nil)},
		{"iss a number", auth.ReasonIssuer, claim("iss", 1)},
		{"Iss", auth.ReasonIssuer, func(d *draft) { delete(d.claims, "iss"); d.claims["Iss"] = clientID }},
		{"sub missing", auth.ReasonSubject, func(d *draft) { delete(d.claims, "sub") }},
		{"sub of another client", auth.ReasonSubject, claim("sub", "cli_02")},
		{"sub null", auth.ReasonSubject, claim("sub", nil)},
		{"aud missing", auth.ReasonAudience, func(d *draft) { delete(d.claims, "aud") }},
		{"aud null", auth.ReasonAudience, claim("aud", nil)},
		{"aud empty", auth.ReasonAudience, claim("aud", "")},
		{"aud of another server", auth.ReasonAudience, claim("aud", "https://evil.example")},
		{"aud the token URL", auth.ReasonAudience, claim("aud", issuer+"/oauth2/token")},
		{"aud with a slash behind", auth.ReasonAudience, claim("aud", issuer+"/")},
		{"aud in upper case", auth.ReasonAudience, claim("aud", strings.ToUpper(issuer))},
		{"aud two, ours last", auth.ReasonAudience, claim("aud", []string{"https://evil.example", issuer})},
		{"aud ours twice", auth.ReasonAudience, claim("aud", []string{issuer, issuer})},
		{"aud issuer and token URL", auth.ReasonAudience, claim("aud", []string{issuer, issuer + "/oauth2/token"})},
		{"aud an empty array", auth.ReasonAudience, claim("aud", []string{})},
		{"aud an array in an array", auth.ReasonAudience, claim("aud", [][]string{{issuer}})},
		{"aud an object", auth.ReasonAudience, claim("aud", map[string]string{"0": issuer})},

		{"exp missing", auth.ReasonExpiry, func(d *draft) { delete(d.claims, "exp") }},
		{"exp null", auth.ReasonExpiry, claim("exp", nil)},
		{"exp a string", auth.ReasonExpiry, claim("exp", "1795285048")},
		{"exp true", auth.ReasonExpiry, claim("exp", true)},
		{"exp negative", auth.ReasonExpiry, claim("exp", -1)},
		{"exp infinite", auth.ReasonExpiry, claim("exp", json.Number("1e999"))},
		{"exp 1e300", auth.ReasonExpiry, claim("exp", json.Number("1e300"))},
		{"exp beyond int64", auth.ReasonExpiry, claim("exp", json.Number("9223372036854775808"))},
		{"exp in milliseconds", auth.ReasonExpiry, claim("exp", now.UnixMilli()+60_000)},
		{"exp 5 min and 1 s ahead", auth.ReasonExpiry, claim("exp", now.Unix()+301)},
		{"exp past", auth.ReasonExpired, claim("exp", now.Unix()-1)},
		{"exp the second that has begun", auth.ReasonExpired, claim("exp", now.Unix())},
		{"exp zero", auth.ReasonExpired, claim("exp", 0)},
		{"iat 11 s ahead", auth.ReasonNotYetValid, claim("iat", now.Unix()+11)},
		{"iat null", auth.ReasonNotYetValid, claim("iat", nil)},
		{"iat a string", auth.ReasonNotYetValid, claim("iat", "0")},
		{"nbf 11 s ahead", auth.ReasonNotYetValid, claim("nbf", now.Unix()+11)},
		{"nbf infinite", auth.ReasonNotYetValid, claim("nbf", json.Number("1e999"))},
		{"jti missing", auth.ReasonJTI, func(d *draft) { delete(d.claims, "jti") }},
		{"jti null", auth.ReasonJTI, claim("jti", nil)},
		{"jti a number", auth.ReasonJTI, claim("jti", 1)},
		{"jti empty", auth.ReasonJTI, claim("jti", "")},
		{"jti of 129 bytes", auth.ReasonJTI, claim("jti", strings.Repeat("j", 129))},
		{"jti of 65 characters, 130 bytes", auth.ReasonJTI, claim("jti", strings.Repeat("é", 65))},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			d := es.assertion(t)
			d.t = t
			row.change(d)
			got, err := verify(d.String(), es.keys)
			refusedAs(t, err, auth.ErrInvalidClient, row.reason)
			var want auth.Assertion
			switch row.reason { // the signature was the client's own
			case auth.ReasonIssuer, auth.ReasonSubject, auth.ReasonAudience, auth.ReasonExpiry, auth.ReasonExpired, auth.ReasonNotYetValid, auth.ReasonJTI:
				want = auth.Assertion{ClientID: clientID, KeyID: member(t, es.public, "kid")}
			}
			if got != want {
				t.Errorf("refused, but returned %+v", got)
			}
			if !errors.Is(err, auth.ErrInvalidClient) || auth.ReasonOf(err) != row.reason {
				t.Errorf("errors.Is or ReasonOf disagree with %v", err)
			}
		})
	}
}
