package main

// Reasons that several have.
const (
	certain = "a key that was parsed has a thumbprint, signs and is JSON again; the library can say otherwise, and no test can have it do so"
	written = "the payload is JSON by now, and the key signs"
)

// redundant are mutants that change nothing that anybody can see, by name, with the reason.
var redundant = map[string]string{
	`assertion.go SignAssertion: err != nil → false (3)`:     written,
	`assertion.go signCompact: err != nil → false`:           written,
	`compact.go only: err != nil → false`:                    "a list that was parsed before is read again",
	`dpop.go proofKey: err != nil → false (3)`:               certain,
	`dpop.go SignProof: err != nil → false (2)`:              certain,
	`generate.go GenerateClientKey: err != nil → false (2)`:  certain,
	`generate.go GenerateClientKey: err != nil → false (3)`:  certain,
	`generate.go GenerateClientKey: err != nil → false (4)`:  certain,
	`generate.go GenerateSigningKey: err != nil → false (2)`: certain,
	`keys.go NewKeys: err != nil → false (3)`:                certain,
	`keys.go NewKeys: err != nil → false (4)`:                certain,
	`keys.go keyThumbprint: err != nil → false`:              certain,
	`keys.go parseSigningKey: err != nil → false (2)`:        certain,
	`rulesign.go SignRule: err != nil → false (3)`:           written,
	`rulesign.go verifyRule: err != nil → false`:             "without a payload of its own to compare, it refuses too",
	`token.go Mint: err != nil → false (2)`:                  written,
	`verifier.go VerifyUnless: !ok → true (2)`:               "a token that is known is remembered again",
}
