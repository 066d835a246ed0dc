package oauth

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"tollgate"
	"tollgate/handlers/input"
)

const (
	clientCredentials = "client_credentials"
	jwtBearer         = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" // RFC 7523 §2.2
)

// Form is the body of a request, whose client names itself by an assertion.
type Form struct {
	assertion, clientID string
	scope, grantID      string // of a token that is to be issued
	token               string // that is revoked or looked at
}

// Parse reads the form of an endpoint, which needs a parameter of its own beside the
// client's assertion: grant_type, or token. Parameters may not stand twice; unknown
// ones are ignored (RFC 6749 §3.2), and so is token_type_hint: there is one type.
func Parse(h http.Header, body []byte, needs string) (form Form, err error) {
	got, err := parse(string(body))
	if err != nil {
		return form, err
	}
	if len(h["Authorization"]) > 0 || got["client_secret"] != "" {
		return form, fault(invalidRequest, tollgate.CodeParameterInvalid, "client_assertion",
			"A client authenticates with its assertion and nothing beside it.") // RFC 6749 §2.3
	}
	for _, name := range []string{needs, "client_assertion_type", "client_assertion"} {
		if got[name] == "" {
			return form, fault(invalidRequest, tollgate.CodeParameterMissing, name, name+" is missing.")
		}
	}
	if needs == "grant_type" && got["grant_type"] != clientCredentials {
		return form, fault(unsupportedGrantType, tollgate.CodeParameterInvalid, "grant_type", "grant_type is "+clientCredentials+".")
	}
	if got["client_assertion_type"] != jwtBearer {
		return form, fault(invalidRequest, tollgate.CodeParameterInvalid, "client_assertion_type", "client_assertion_type is "+jwtBearer+".")
	}
	return Form{got["client_assertion"], got["client_id"], got["scope"], got["grant_id"], got["token"]}, nil
}

func parse(body string) (input.Values, error) {
	form := make(input.Values)
	for pair := range strings.SplitSeq(body, "&") {
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		value, valueErr := url.QueryUnescape(rawValue)
		if err != nil || valueErr != nil || !utf8.ValidString(name) || !utf8.ValidString(value) {
			return nil, fault(invalidRequest, tollgate.CodeParameterInvalid, "", "The body is not a form in UTF-8.")
		}
		if _, twice := form[name]; twice {
			return nil, fault(invalidRequest, tollgate.CodeParameterInvalid, input.Shortened(name), "A parameter may stand once.")
		}
		form[name] = value
	}
	return form, nil
}
