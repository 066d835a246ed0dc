package main

// Reasons that several have.
const (
	certain = "a key that was parsed has a thumbprint, signs and is JSON again; the library can say otherwise, and no test can have it do so"
	written = "the payload is JSON by now, and the key signs"
	guarded = "the script that burns the assertion is not carried out in a history that was lost, either"
)

// redundant are mutants that change nothing that anybody can see, by name, with the reason.
var redundant = map[string]string{
	`assertion.go SignAssertion: err != nil → false (3)`:            written,
	`assertion.go signCompact: err != nil → false`:                  written,
	`authorize.go authorize: v.Proof == nil → false`:                "a bearer token that a door has verified is verified again",
	`authorize.go suspect: c.token.History != "" → true`:            "no history is without a name",
	`client.go client: err != nil → false (2)`:                      "keys that are stored were read when they were registered",
	`client.go client: err != nil → false (3)`:                      "what Redis does not answer counts as emptied",
	`compact.go only: err != nil → false`:                           "a list that was parsed before is read again",
	`dpop.go proofKey: err != nil → false (3)`:                      certain,
	`dpop.go SignProof: err != nil → false (2)`:                     certain,
	`fault.go Problem: err != nil → false`:                          "an error is JSON",
	`generate.go GenerateClientKey: err != nil → false (2)`:         certain,
	`generate.go GenerateClientKey: err != nil → false (3)`:         certain,
	`generate.go GenerateClientKey: err != nil → false (4)`:         certain,
	`generate.go GenerateSigningKey: err != nil → false (2)`:        certain,
	`issue.go Issue: err != nil → false (5)`:                        guarded,
	`issue.go Issue: err != nil → false (6)`:                        "a token of a client's grant has all claims",
	`issue.go granted: err != nil → false (2)`:                      "the scopes of a stored grant were read when it was stored",
	`issue.go grantOf: grant.ClientID == client.ID → true`:          "the list of a client's grants has no other's, and who reads a grant by a token compares them again",
	`keys.go NewKeys: err != nil → false (3)`:                       certain,
	`keys.go NewKeys: err != nil → false (4)`:                       certain,
	`keys.go keyThumbprint: err != nil → false`:                     certain,
	`keys.go parseSigningKey: err != nil → false (2)`:               certain,
	`nonce.go checkNonce: err != nil → false`:                       "what base64 cannot read to its end is shorter than a nonce",
	`oauth.go history: err == nil && !r.Open → false`:               guarded,
	`revoke.go about: token.Organization != r.Organization → false`: "a client's id is of one organization",
	`rulesign.go SignRule: err != nil → false (3)`:                  written,
	`rulesign.go verifyRule: err != nil → false`:                    "without a payload of its own to compare, it refuses too",
	`token.go Mint: err != nil → false (2)`:                         written,
	`verifier.go VerifyUnless: !ok → true (2)`:                      "a token that is known is remembered again",
}
