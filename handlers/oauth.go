package handlers

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
)

// oauthFault is an error with its kind in OAuth's words.
type oauthFault struct {
	kind  string
	cause *tollgate.Error
}

func (f *oauthFault) Error() string { return f.kind + ": " + f.cause.Error() }

func (f *oauthFault) Unwrap() error { return f.cause }

func oauthError(kind string, code tollgate.Code, param, message string) error {
	return &oauthFault{kind, &tollgate.Error{Code: code, Param: param, Message: message}}
}

// oauth reports whether errors take OAuth's form.
func (c *call) oauth() bool { return strings.HasPrefix(c.request.URL.Path, "/oauth2/") }

// oauthProblem is the body of an error of /oauth2/*: OAuth's members and ours
// (interface §5).
func oauthProblem(e *tollgate.Error, err error) *answer {
	kind := invalidRequest
	fault, ok := errors.AsType[*oauthFault](err)
	switch {
	case ok:
		kind = fault.kind
	case e.Code == tollgate.CodeTokenInvalid:
		kind = "invalid_client"
	case e.Code == tollgate.CodeStoreUnavailable:
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
	return &answer{status: problem.StatusOf(e.Code), body: body}
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
