package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/problem"
	"tollgate/rediskv/accounts"
)

// credentials take the token out of "Authorization: Bearer <token>" (RFC 6750 §2.1) or
// "DPoP <token>" (RFC 9449 §7.1). Two headers are no choice between them.
func credentials(headers []string) (token string, proven bool, refused *tollgate.Error) {
	if len(headers) == 0 {
		return "", false, problem.New(tollgate.CodeTokenMissing, "This needs an access token: Authorization: Bearer <token>.")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	proven = strings.EqualFold(scheme, "DPoP")
	if len(headers) > 1 || !proven && !strings.EqualFold(scheme, "Bearer") {
		return "", false, TokenInvalid(nil)
	}
	return token, proven, nil
}

// Refused is what a client hears of a token that is not taken.
func Refused(cause error) *tollgate.Error {
	if e, ok := errors.AsType[*tollgate.Error](cause); ok {
		return e
	}
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

// Challenge is WWW-Authenticate of an error of what needs a scope (RFC 6750 §3): without
// an error for a request that carried no token. proven: the client used the scheme DPoP
// (RFC 9449 §7.1).
func Challenge(e *tollgate.Error, scope auth.Scope, proven bool) string {
	kind := `error="invalid_token", error_description="The access token is not valid"`
	switch {
	case e.Code == tollgate.CodeTokenMissing:
		return `Bearer realm="tollgate"`
	case e.Code == tollgate.CodeScopeMissing:
		kind = fmt.Sprintf(`error="insufficient_scope", scope="%s"`, scope)
	case e.Code == tollgate.CodeTokenExpired:
		kind = `error="invalid_token", error_description="The access token has expired"`
	case NeedsNonce(e):
		kind = `error="use_dpop_nonce", error_description="The proof needs the nonce of DPoP-Nonce"`
	case errors.Is(e, auth.ErrProof):
		kind = `error="invalid_dpop_proof", error_description="The DPoP proof is not valid"`
	}
	if proven {
		return fmt.Sprintf(`DPoP realm="tollgate", %s, algs="%s"`, kind, strings.Join(auth.Algorithms(), " "))
	}
	return `Bearer realm="tollgate", ` + kind
}

// Proven reports whether a request uses the scheme DPoP.
func Proven(h http.Header) bool {
	_, proven, _ := credentials(h["Authorization"])
	return proven
}
