// Package auth is the only package that knows JOSE (go-jose): it verifies
// client assertions, mints and verifies access tokens, and holds the keys for
// both.
//
// Everything here is pure. Whether an assertion's jti was used before, and
// whether a grant still holds, are questions for the store, asked by the
// caller after a signature has been verified. JWE is never parsed, and
// go-jose's own claim checks are never used: they accept a token without exp
// and an audience list that names others beside this service.
package auth

import "errors"

// What a refusal is, for errors.Is. The caller answers each with one text,
// whatever the reason (spec §5).
var (
	ErrInvalidClient = errors.New("invalid client") // an assertion
	ErrTokenInvalid  = errors.New("token invalid")  // an access token
	ErrTokenExpired  = errors.New("token expired")  // a genuine access token past its exp
	ErrProof         = errors.New("proof invalid")  // of possession (DPoP)
	ErrRuleSignature = errors.New("rule signature") // of a rule that is published
)

// Reason is one short stable word that says why a credential was refused. It
// is for audit entries, counters and logs, never for the one who sent it.
type Reason string

// Reasons, in the order in which the checks are made. The last three, and those of
// nonces, are found by the caller, not here.
const (
	ReasonSize          Reason = "size"          // empty or longer than 8 KiB
	ReasonMalformed     Reason = "malformed"     // not a compact JWS of two JSON objects
	ReasonHeader        Reason = "header"        // crit, b64, jwk, jku, x5u or x5c present
	ReasonType          Reason = "type"          // typ
	ReasonKey           Reason = "key"           // kid missing or unknown
	ReasonAlgorithm     Reason = "algorithm"     // alg is not the key's
	ReasonSignature     Reason = "signature"     //
	ReasonIssuer        Reason = "issuer"        // iss
	ReasonSubject       Reason = "subject"       // sub or client_id
	ReasonAudience      Reason = "audience"      // aud
	ReasonExpiry        Reason = "expiry"        // exp missing, not a number, too far ahead
	ReasonExpired       Reason = "expired"       // exp is past
	ReasonNotYetValid   Reason = "not_yet_valid" // iat or nbf ahead of the clock, or not a number
	ReasonJTI           Reason = "jti"           // jti missing or not 1–128 bytes
	ReasonClaims        Reason = "claims"        // any other claim of an access token
	ReasonMethod        Reason = "method"        // htm of a proof
	ReasonTarget        Reason = "target"        // htu of a proof
	ReasonToken         Reason = "token"         // ath of a proof, or it is of another key than the token
	ReasonNonce         Reason = "nonce"         // of a proof: malformed
	ReasonNonceNeeded   Reason = "use_nonce"     // none, or no good one
	ReasonProof         Reason = "proof"         // none, or two
	ReasonUnbound       Reason = "unbound"       // an access token that is bound to no key, with a proof
	ReasonBound         Reason = "bound"         // one that is, without a proof
	ReasonUnknownClient Reason = "unknown_client"
	ReasonReplayed      Reason = "replayed"
	ReasonOrganization  Reason = "organization" // the client's is not active
)

// Refusal is the error for every refused credential. It wraps one of
// ErrInvalidClient, ErrTokenInvalid and ErrTokenExpired, and carries nothing
// of the credential itself, so that it can be logged.
type Refusal struct {
	Kind   error
	Reason Reason
}

// Refuse makes the refusal of a kind for a reason.
func Refuse(kind error, reason Reason) error { return &Refusal{kind, reason} }

func (r *Refusal) Error() string { return r.Kind.Error() + ": " + string(r.Reason) }

func (r *Refusal) Unwrap() error { return r.Kind }

// ReasonOf returns the reason in err, or "" when err is not a refusal.
func ReasonOf(err error) Reason {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Reason
	}
	return ""
}
