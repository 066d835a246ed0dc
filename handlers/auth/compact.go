package auth

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxCompact = 8 << 10          // bytes of an assertion or a token
	maxSkew    = 10 * time.Second // by which iat and nbf may be ahead (spec §5)
)

// compact is a JWS in compact serialization (RFC 7515 §7.1), taken apart and
// not verified.
type compact struct {
	text    string // as received
	header  object
	payload []byte
}

// parseCompact takes a compact JWS apart. go-jose skips CR and LF inside
// base64 and takes set bits beyond the last byte, so that many texts would be
// one token; here one token has one text. The reason is "" on success.
func parseCompact(text string) (compact, Reason) {
	// Nothing here may bring its own key or change how the rest is read
	// (RFC 7515 §4.1, RFC 7797).
	return parseCompactWith(text, "crit", "b64", "jwk", "jku", "x5u", "x5c")
}

// parseCompactWith is parseCompact of a JWS whose header may have other members than
// these. A null counts as present.
func parseCompactWith(text string, forbidden ...string) (compact, Reason) {
	if text == "" || len(text) > maxCompact {
		return compact{}, ReasonSize
	}
	parts := strings.Split(text, ".")
	if len(parts) != 3 || strings.ContainsAny(text, "\r\n") { // base64 skips them
		return compact{}, ReasonMalformed
	}
	var decoded [3][]byte
	for i, part := range parts {
		raw, err := base64.RawURLEncoding.Strict().DecodeString(part)
		if err != nil || len(raw) == 0 {
			return compact{}, ReasonMalformed
		}
		decoded[i] = raw
	}
	header, ok := parseObject(decoded[0])
	if !ok {
		return compact{}, ReasonMalformed
	}
	if slices.ContainsFunc(forbidden, header.has) {
		return compact{}, ReasonHeader
	}
	return compact{text, header, decoded[1]}, ""
}

// verify checks the signature with one algorithm and one public key.
func (c compact) verify(alg jose.SignatureAlgorithm, key any) Reason {
	if c.header.text("alg") != string(alg) {
		return ReasonAlgorithm
	}
	jws, err := jose.ParseSignedCompact(c.text, []jose.SignatureAlgorithm{alg})
	if err != nil {
		return ReasonMalformed
	}
	if _, err := jws.Verify(key); err != nil {
		return ReasonSignature
	}
	return ""
}

// object is a JSON object whose members are looked at one by one: for most
// claims, absent, null and of the wrong type are three different mistakes that
// decoding into a struct makes one.
type object map[string]jsontext.Value

// parseObject refuses what is not one JSON object, duplicate names at any
// depth, invalid UTF-8 and trailing data.
func parseObject(raw []byte) (object, bool) {
	var o object
	err := json.Unmarshal(raw, &o)
	return o, err == nil && o != nil
}

func (o object) has(name string) bool {
	_, ok := o[name]
	return ok
}

// text is the value of a member that is a JSON string. Empty: it is empty, missing or of
// another type.
func (o object) text(name string) string { return text(o[name]) }

func text(value jsontext.Value) string {
	unquoted, _ := jsontext.AppendUnquote(nil, value) // nothing, of what is no string
	return string(unquoted)
}

// only is the value of a member that is a JSON string or an array of exactly
// one (RFC 7519 §4.1.3 allows both forms for aud). Empty: it is neither.
func (o object) only(name string) string {
	value := o[name]
	if value.Kind() != '[' {
		return text(value)
	}
	var list []jsontext.Value
	if err := json.Unmarshal(value, &list); err != nil || len(list) != 1 {
		return ""
	}
	return text(list[0])
}

// moment is the value of a member that is a NumericDate (RFC 7519 §2): a JSON
// number of seconds, fractions allowed, from 1970 to the year 9999.
func (o object) moment(name string) (time.Time, bool) {
	const lastSecond = 253_402_300_799
	seconds, err := strconv.ParseFloat(string(o[name]), 64) // JSON, so no hexadecimal and no NaN
	if err != nil || seconds < 0 || seconds > lastSecond {
		return time.Time{}, false
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9)).UTC(), true
}
