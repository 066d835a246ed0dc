// Package attack builds what no client of good will sends: assertions, tokens and requests
// with every part replaceable. It uses nothing but the standard library, so that what is
// hostile does not depend on the code that judges it. It is for tests.
package attack

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Member is a member of a JSON object: a name, and any text for its value.
type Member struct {
	Name, Raw string
	Escaped   bool // the name is written in escapes, which mean the same
}

// Members are an object that keeps its order and may have a name twice.
type Members []Member

// With has a member's value replaced, or the member added at the end.
func (m Members) With(name, raw string) Members {
	m = slices.Clone(m)
	for i := range m {
		if m[i].Name == name {
			m[i].Raw = raw
			return m
		}
	}
	return append(m, Member{Name: name, Raw: raw})
}

// Without has no member of the name.
func (m Members) Without(name string) Members {
	return slices.DeleteFunc(slices.Clone(m), func(one Member) bool { return one.Name == name })
}

// Twice has a member a second time. Escaped, its name looks like another one's.
func (m Members) Twice(name, raw string, escaped bool) Members {
	return append(slices.Clone(m), Member{name, raw, escaped})
}

// Raw is a member's value, or empty.
func (m Members) Raw(name string) string {
	for _, one := range m {
		if one.Name == name {
			return one.Raw
		}
	}
	return ""
}

func (m Members) String() string {
	var list []string
	for _, one := range m {
		name := strconv.Quote(one.Name)
		if one.Escaped {
			name = fmt.Sprintf(`"\u%04x%s"`, one.Name[0], one.Name[1:])
		}
		list = append(list, name+":"+one.Raw)
	}
	return "{" + strings.Join(list, ",") + "}"
}

// JWS is a compact JWS about to be signed (RFC 7515 §7.1).
type JWS struct {
	Header, Claims Members
	Key            *ecdsa.PrivateKey
	// What stands in for header and claims, for the signature and for the whole text.
	RawHeader, RawClaims string
	Sign                 func(input string) []byte
	Finish               func(text string) string
}

// Read takes a compact JWS apart, to be signed again with a key.
func Read(text string, jwk []byte) (JWS, error) {
	var j JWS
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return j, fmt.Errorf("%d parts", len(parts))
	}
	var err error
	if j.Header, err = object(parts[0]); err != nil {
		return j, err
	}
	if j.Claims, err = object(parts[1]); err != nil {
		return j, err
	}
	j.Key, err = Key(jwk)
	return j, err
}

// object reads an encoded JSON object in its order.
func object(part string) (list Members, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		list = append(list, Member{Name: fmt.Sprint(name), Raw: string(value)})
	}
	return list, nil
}

// Key reads a private P-256 JWK.
func Key(jwk []byte) (*ecdsa.PrivateKey, error) {
	var k struct{ D string }
	if err := json.Unmarshal(jwk, &k); err != nil {
		return nil, err
	}
	d, err := base64.RawURLEncoding.DecodeString(k.D)
	if err != nil {
		return nil, err
	}
	return ecdsa.ParseRawPrivateKey(elliptic.P256(), d)
}

// String is the signed text.
func (j JWS) String() string {
	header, claims := j.Header.String(), j.Claims.String()
	if j.RawHeader != "" {
		header = j.RawHeader
	}
	if j.RawClaims != "" {
		claims = j.RawClaims
	}
	input := Encode([]byte(header)) + "." + Encode([]byte(claims))
	sign := j.Sign
	if sign == nil {
		sign = j.ES256
	}
	text := input + "." + Encode(sign(input))
	if j.Finish != nil {
		text = j.Finish(text)
	}
	return text
}

// Encode is base64url without padding.
func Encode(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

// ES256 signs with the key (RFC 7518 §3.4): r and s, 32 bytes each.
func (j JWS) ES256(input string) []byte {
	r, s := j.numbers(input)
	return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
}

// DER signs with the key, in the form that JWS does not have.
func (j JWS) DER(input string) []byte {
	sum := sha256.Sum256([]byte(input))
	der, err := j.Key.Sign(nil, sum[:], crypto.SHA256)
	if err != nil {
		panic(err) // it is a P-256 key
	}
	return der
}

func (j JWS) numbers(input string) (r, s *big.Int) {
	var signature struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(j.DER(input), &signature); err != nil {
		panic(err)
	}
	return signature.R, signature.S
}

// HS256 signs with a secret: a public key, say, that somebody takes for one.
func HS256(secret []byte) func(input string) []byte {
	return func(input string) []byte {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(input))
		return mac.Sum(nil)
	}
}

// Request is a request as it goes over the wire, line by line.
type Request struct {
	Method, Target string
	Headers        []string // whole lines, without their end
	Body           string
}

// String is the text of the request, which asks for the connection to be closed.
func (r Request) String() string {
	lines := append([]string{r.Method + " " + r.Target + " HTTP/1.1", "Host: api.tollgate.test", "Connection: close"}, r.Headers...)
	if r.Body != "" {
		lines = append(lines, fmt.Sprintf("Content-Length: %d", len(r.Body)))
	}
	return strings.Join(lines, "\r\n") + "\r\n\r\n" + r.Body
}
