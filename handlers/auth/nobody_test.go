package auth_test

import (
	"slices"
	"testing"

	"tollgate/handlers/auth"
)

// A refusal does not tell whether there is such a client or such a key: each
// costs one verification by the alg of the assertion.
func TestVerificationsOfARefusal(t *testing.T) {
	clients := map[string]client{}
	for _, alg := range auth.Algorithms() {
		clients[alg] = newClient(t, "of "+alg, alg)
	}
	all := parseKeys(t, clients["ES256"].public, clients["Ed25519"].public, clients["PS256"].public)
	for alg, signer := range clients {
		stranger := newClient(t, "stranger", alg)
		for name, keys := range map[string]auth.ClientKeys{
			"unknown client":        {},
			"another key":           parseKeys(t, stranger.public),
			"another algorithm":     parseKeys(t, clients[map[bool]string{true: "PS256", false: "ES256"}[alg == "ES256"]].public),
			"several keys":          all,
			"the client's own keys": signer.keys,
		} {
			for _, kid := range []string{"its own", "unknown", "none"} {
				d := signer.assertion(t)
				switch kid {
				case "unknown":
					d.header["kid"] = kid
				case "none":
					delete(d.header, "kid")
				}
				var noted []string
				counted, undo := auth.CountVerifications(keys, func(alg string) { noted = append(noted, alg) })
				_, err := verify(d.String(), counted)
				undo()
				if err == nil || !slices.Equal(noted, []string{alg}) {
					t.Errorf("%s, %s, kid %s: verified by %v, %v", alg, name, kid, noted, err)
				}
			}
		}
	}
}
