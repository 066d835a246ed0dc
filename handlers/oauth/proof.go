package oauth

import (
	"errors"
	"net/http"
	"strings"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/problem"
)

// ProofMemory is for how long a proof is remembered: that of the nonce in it, by a clock
// that may be ahead.
const ProofMemory = auth.ProofLifetime + 2*skew

// Presented is an access token as a request presents it: alone, or with a proof of
// possession of the key that it is bound to.
type Presented struct {
	Token *auth.Token
	Proof *auth.Proof // nil: a bearer token
	Fresh string      // a nonce for the next proof, where half of this one's time is over
}

// Present reads the access token of a request, verifies it, and the proof where it is
// bound to a key (RFC 9449 §7). Before a signature is checked it asks refuse. Redis is not
// asked. Whether the grant is in force is for the caller to ask, and to burn the proof
// before anything is written.
func (e *Endpoints) Present(req *http.Request, refuse func() error) (p Presented, refused *tollgate.Error) {
	text, proven, missing := credentials(req.Header["Authorization"])
	if missing != nil {
		return p, missing
	}
	token, err := e.Verifier.VerifyUnless(text, refuse)
	switch {
	case err != nil:
		return p, Refused(err)
	case !proven && token.Thumbprint != "":
		return p, TokenInvalid(auth.Refuse(auth.ErrTokenInvalid, auth.ReasonBound))
	case proven && token.Thumbprint == "":
		return p, TokenInvalid(auth.Refuse(auth.ErrTokenInvalid, auth.ReasonUnbound))
	case !proven:
		return Presented{Token: token}, nil
	}
	if err := refuse(); err != nil {
		return p, Refused(err)
	}
	proof, fresh, err := e.prove(req, text)
	if err == nil && proof.Thumbprint != token.Thumbprint {
		err = auth.Refuse(auth.ErrProof, auth.ReasonToken)
	}
	if err == nil {
		err = e.once(proof)
	}
	if err != nil {
		return p, ProofRefused(err)
	}
	return Presented{token, proof, fresh}, nil
}

// prove verifies the proof of a request, with an access token or, for one, without. It is
// not used up.
func (e *Endpoints) prove(req *http.Request, token string) (proof *auth.Proof, fresh string, err error) {
	proofs := req.Header["Dpop"]
	if len(proofs) != 1 {
		return nil, "", auth.Refuse(auth.ErrProof, auth.ReasonProof)
	}
	of := auth.ProofOf{Method: req.Method, Token: token}
	for _, base := range append([]string{e.Issuer.Name}, e.Aliases...) {
		of.URLs = append(of.URLs, strings.TrimSuffix(base, "/")+req.URL.Path)
	}
	found, err := auth.VerifyProof(proofs[0], of, e.Wall())
	if err != nil {
		return nil, "", err
	}
	good, old := e.checkNonce(found.Nonce)
	if !good {
		return nil, "", auth.Refuse(auth.ErrProof, auth.ReasonNonceNeeded)
	}
	if old {
		fresh = e.Nonce()
	}
	return &found, fresh, nil
}

// once uses up a proof at this instance.
func (e *Endpoints) once(p *auth.Proof) error {
	first, full := e.used.use(p.Thumbprint, p.JTI, e.Wall(), ProofMemory)
	switch {
	case full:
		return problem.New(tollgate.CodeStoreUnavailable, "This instance has seen too many proofs to remember another one. Try again.")
	case !first:
		return auth.Refuse(auth.ErrProof, auth.ReasonReplayed)
	}
	return nil
}

// ProofRefused is what a client hears of a proof that is not taken. The cause is for the
// challenge and the log.
func ProofRefused(err error) *tollgate.Error {
	if e, ok := errors.AsType[*tollgate.Error](err); ok {
		return e
	}
	message := "The DPoP proof is not valid."
	switch auth.ReasonOf(err) {
	case auth.ReasonProof:
		message = "This needs one DPoP proof, in the header DPoP."
	case auth.ReasonNonceNeeded:
		message = "The DPoP proof needs the nonce of the header DPoP-Nonce. Make a new proof with it."
	}
	return &tollgate.Error{Code: tollgate.CodeTokenInvalid, Message: message, Cause: err}
}

// NeedsNonce reports whether an error asks the client for a nonce.
func NeedsNonce(err error) bool {
	return auth.ReasonOf(err) == auth.ReasonNonceNeeded
}
