package oauth

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers/problem"
)

// OAuth's kinds of errors (RFC 6749 §5.2).
const (
	invalidRequest       = "invalid_request"
	invalidScope         = "invalid_scope"
	unsupportedGrantType = "unsupported_grant_type"
	invalidProof         = "invalid_dpop_proof" // RFC 9449 §5
	useNonce             = "use_dpop_nonce"     // RFC 9449 §8
)

// Fault is an error with its kind in OAuth's words.
type Fault struct {
	Kind  string
	cause *tollgate.Error
}

func (f *Fault) Error() string { return f.Kind + ": " + f.cause.Error() }

func (f *Fault) Unwrap() error { return f.cause }

func fault(kind string, code tollgate.Code, param, message string) error {
	return &Fault{kind, &tollgate.Error{Code: code, Param: param, Message: message}}
}

// Problem is the body of an error of /oauth2/*: OAuth's members and ours (spec §5). e
// is what err says to a client.
func Problem(e *tollgate.Error, err error) []byte {
	kind := invalidRequest
	fault, ok := errors.AsType[*Fault](err)
	switch {
	case ok:
		kind = fault.Kind
	case e.Code == tollgate.CodeTokenInvalid:
		kind = "invalid_client"
	case e.Code == tollgate.CodeStoreUnavailable, e.Code == tollgate.CodeHistoryLost:
		kind = "temporarily_unavailable"
	case problem.StatusOf(e.Code) >= 500:
		kind = "server_error"
	}
	body, err := json.Marshal(struct {
		Error       string        `json:"error"`
		Description string        `json:"error_description"`
		Code        tollgate.Code `json:"code"`
		Message     string        `json:"message"`
		Param       string        `json:"param,omitempty"`
	}{kind, asciiOnly(e.Message), e.Code, e.Message, e.Param})
	if err != nil {
		panic(err)
	}
	return body
}

// asciiOnly keeps the characters that error_description may have (RFC 6749
// §5.2).
func asciiOnly(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '\''
		}
		return r
	}, s)
}
