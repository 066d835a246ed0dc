package oauth

import (
	"fmt"
	"time"

	"tollgate"
	"tollgate/handlers/auth"
)

// invalidClient has one text for every reason (spec §5): the log and the
// audit entry have the reason, under the request's id. Only the sandbox, where
// there is nothing to guess, says to the client itself what is wrong.
func (e *Endpoints) invalidClient(cause error) *tollgate.Error {
	refused := &tollgate.Error{Code: tollgate.CodeTokenInvalid, Message: "The client could not be authenticated.", Cause: cause}
	if e.Development {
		refused.Message += " " + e.mistake(auth.ReasonOf(cause))
	}
	return refused
}

// mistake says what is wrong with an assertion, what was expected and what to
// do (RFC 7523 §3).
func (e *Endpoints) mistake(reason auth.Reason) string {
	now := e.Wall().UTC()
	clock := fmt.Sprintf("This service's clock says %s, which is %d.", now.Format(time.RFC3339), now.Unix())
	switch reason {
	case auth.ReasonSize:
		return "client_assertion is empty or longer than 8 KiB. Send one signed JWT."
	case auth.ReasonMalformed:
		return "client_assertion is not a compact JWS: three parts of base64url without padding, with dots between them, and one JSON object each in the first two. Send the JWT as your library returns it."
	case auth.ReasonHeader:
		return "The header has crit, b64, jwk, jku, x5u or x5c. Leave them out: only keys that are registered count."
	case auth.ReasonType:
		return "typ in the header is neither client-authentication+jwt nor JWT. Send an assertion, not an access token."
	case auth.ReasonKey:
		return "kid in the header is not that of one of the client's registered keys, or is missing although it has several. Use the kid of the key that you sign with."
	case auth.ReasonAlgorithm:
		return "alg in the header is not the one that the key is registered with. Sign with the alg of the client's JWK; ES256 is the usual one."
	case auth.ReasonSignature:
		return "The signature does not hold with the client's registered key. Sign the first two parts as they are sent, with the private key whose public half is registered; an ES256 signature is 64 bytes, not DER."
	case auth.ReasonIssuer:
		return "iss is missing or is not a client's id. Set iss and sub to the client id, such as cli_…."
	case auth.ReasonSubject:
		return "sub is not the same as iss, or client_id names another client. Set iss and sub to the client id."
	case auth.ReasonAudience:
		return fmt.Sprintf("aud is not %s, alone. Set aud to this issuer, neither the token endpoint's URL nor a list with others.", e.Issuer.Name)
	case auth.ReasonExpiry:
		return "exp is missing, is not a number of seconds, or lies more than 5 minutes ahead. Set it to one minute from now. " + clock
	case auth.ReasonExpired:
		return "exp lies in the past. Make a new assertion for each request, and check your clock. " + clock
	case auth.ReasonNotYetValid:
		return "iat or nbf lies more than 10 seconds ahead, or is not a number of seconds. Check your clock. " + clock
	case auth.ReasonJTI:
		return "jti is missing or is not text of 1 to 128 bytes. Set it to a new random value each time."
	case auth.ReasonReplayed:
		return "This jti was used before. Make a new assertion, with another jti, for each request."
	case auth.ReasonUnknownClient:
		return "There is no active client of the id in iss. 'tollgate dev' prints the client id of the sandbox."
	case auth.ReasonOrganization:
		return "The client's organization is not active."
	default:
		return "The reason is " + string(reason) + "."
	}
}
