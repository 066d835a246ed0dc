package oauth

import (
	"errors"
	"fmt"
	"strings"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/problem"
	"tollgate/rediskv/accounts"
)

// Bearer takes the token out of "Authorization: Bearer <token>" (RFC 6750
// §2.1). Two headers are no choice between them.
func Bearer(headers []string) (string, *tollgate.Error) {
	if len(headers) == 0 {
		return "", problem.New(tollgate.CodeTokenMissing, "This needs an access token: Authorization: Bearer <token>.")
	}
	scheme, token, ok := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", TokenInvalid(nil)
	}
	return token, nil
}

// Refused is what a client hears of a token that is not taken.
func Refused(cause error) *tollgate.Error {
	if errors.Is(cause, auth.ErrTokenExpired) {
		return &tollgate.Error{Code: tollgate.CodeTokenExpired, Message: "The access token has expired; get a new one.", Cause: cause}
	}
	return TokenInvalid(cause)
}

// TokenInvalid says the same for every reason; the cause is for the log.
func TokenInvalid(cause error) *tollgate.Error {
	return &tollgate.Error{Code: tollgate.CodeTokenInvalid, Message: "The access token is not valid.", Cause: cause}
}

// Ended says why a token means nothing under its grant, as it is; nil: it does.
func Ended(token *auth.Token, grant *accounts.Grant, now tollgate.Instant) error {
	switch status := grant.At(now); {
	case status != tollgate.StatusActive:
		return fmt.Errorf("the grant is %s", status)
	case grant.Revision != token.GrantVersion:
		return fmt.Errorf("the grant is at version %d, the token at %d", grant.Revision, token.GrantVersion)
	case grant.ClientID != token.ClientID:
		return errors.New("the grant is another client's")
	case grant.Revoked[token.ID]:
		return errors.New("the token is revoked")
	}
	return nil
}

// Challenge is WWW-Authenticate (RFC 6750 §3) for what needs a scope: without an
// error for a request that carried no token.
func Challenge(code tollgate.Code, scope auth.Scope) string {
	switch code {
	case tollgate.CodeTokenMissing:
		return `Bearer realm="tollgate"`
	case tollgate.CodeScopeMissing:
		return fmt.Sprintf(`Bearer realm="tollgate", error="insufficient_scope", scope="%s"`, scope)
	case tollgate.CodeTokenExpired:
		return `Bearer realm="tollgate", error="invalid_token", error_description="The access token has expired"`
	default:
		return `Bearer realm="tollgate", error="invalid_token", error_description="The access token is not valid"`
	}
}
