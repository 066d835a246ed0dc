package main

// Reasons that several have.
const again = "parseCompact checks the same again, with the same reason; here it only spares a digest"

// redundant are mutants that change nothing that anybody can see, by name, with the reason.
var redundant = map[string]string{
	`verifier.go Verify: token == "" → false`:                            again,
	`verifier.go Verify: len(token) > maxCompact → >=`:                   again,
	`verifier.go Verify: len(token) > maxCompact → false`:                again,
	`verifier.go Verify: token == "" || len(token) > maxCompact → false`: again,
	`verifier.go Verify: !ok → true (2)`:                                 "a token that is known is remembered again",
}
