package main

// Reasons that several have.
const (
	empty   = "what is no text is read as the empty text, which the comparison behind it refuses"
	certain = "a key that was parsed signs, and texts and numbers are JSON"
	again   = "parseCompact checks the same again, with the same reason; here it only spares a digest"
)

// redundant are mutants that change nothing that anybody can see, by name, with the reason.
var redundant = map[string]string{
	`verifier.go VerifyUnless: token == "" → false`:                            again,
	`verifier.go VerifyUnless: len(token) > maxCompact → >=`:                   again,
	`verifier.go VerifyUnless: len(token) > maxCompact → false`:                again,
	`verifier.go VerifyUnless: token == "" || len(token) > maxCompact → false`: again,
	`verifier.go VerifyUnless: !ok → true (2)`:                                 "a token that is known is remembered again",
	`assertion.go PeekClientID: !ok → false`:                                   empty,
	`assertion.go peekIssuer: !ok → false (2)`:                                 empty,
	`assertion.go checkAssertion: !ok → false`:                                 empty,
	`assertion.go checkAssertion: !ok → false (2)`:                             empty,
	`assertion.go checkAssertion: !ok → false (3)`:                             empty,
	`assertion.go checkAssertion: !ok → false (6)`:                             empty,
	`assertion.go checkAssertion: aud == "" → false`:                           empty,
	`assertion.go checkAssertion: !ok || aud == "" → false`:                    empty,
	`assertion.go checkAssertion: !tollgate.ValidID(iss) → false`:              "the id that it is compared with was found valid by PeekClientID",
	`assertion.go SignAssertion: err != nil → false (2)`:                       certain,
	`assertion.go SignAssertion: err != nil → false (3)`:                       certain,
	`assertion.go signCompact: err != nil → false`:                             certain,
}
