package handlers

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"tollgate"
	"tollgate/handlers/input"
)

// tokenForm is the body of a token request.
type tokenForm struct{ assertion, clientID, scope, grantID string }

// readTokenForm reads the form (RFC 6749 §4.4.2). Parameters may not stand
// twice; unknown ones are ignored (§3.2).
func readTokenForm(c *call) (form tokenForm, err error) {
	got, err := parseForm(string(c.body))
	if err != nil {
		return form, err
	}
	if len(c.request.Header["Authorization"]) > 0 || got["client_secret"] != "" {
		return form, oauthError(invalidRequest, tollgate.CodeParameterInvalid, "client_assertion",
			"A client authenticates with its assertion and nothing beside it.") // RFC 6749 §2.3
	}
	for _, name := range []string{"grant_type", "client_assertion_type", "client_assertion"} {
		if got[name] == "" {
			return form, oauthError(invalidRequest, tollgate.CodeParameterMissing, name, name+" is missing.")
		}
	}
	if got["grant_type"] != clientCredentials {
		return form, oauthError(unsupportedGrantType, tollgate.CodeParameterInvalid, "grant_type", "grant_type is "+clientCredentials+".")
	}
	if got["client_assertion_type"] != jwtBearer {
		return form, oauthError(invalidRequest, tollgate.CodeParameterInvalid, "client_assertion_type", "client_assertion_type is "+jwtBearer+".")
	}
	return tokenForm{got["client_assertion"], got["client_id"], got["scope"], got["grant_id"]}, nil
}

func parseForm(body string) (input.Values, error) {
	form := make(input.Values)
	for pair := range strings.SplitSeq(body, "&") {
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		value, valueErr := url.QueryUnescape(rawValue)
		if err != nil || valueErr != nil || !utf8.ValidString(name) || !utf8.ValidString(value) {
			return nil, oauthError(invalidRequest, tollgate.CodeParameterInvalid, "", "The body is not a form in UTF-8.")
		}
		if _, twice := form[name]; twice {
			return nil, oauthError(invalidRequest, tollgate.CodeParameterInvalid, input.Shortened(name), "A parameter may stand once.")
		}
		form[name] = value
	}
	return form, nil
}
