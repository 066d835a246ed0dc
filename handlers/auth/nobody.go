package auth

import (
	"sync"

	"github.com/go-jose/go-jose/v4"
)

// nobody has the public key of each algorithm whose private half was thrown
// away. An assertion of a client that does not exist, or by a key that it does
// not have, is verified with the one of its algorithm, and refused whatever
// comes of it.
var nobody = sync.OnceValue(func() map[jose.SignatureAlgorithm]clientKey {
	keys := make(map[jose.SignatureAlgorithm]clientKey, len(nobodysKeys))
	for _, raw := range nobodysKeys {
		key, err := parseClientKey([]byte(raw))
		if err != nil {
			panic(err) // they are constants
		}
		keys[key.alg] = key
	}
	return keys
})

var nobodysKeys = []string{
	`{"kty":"EC","crv":"P-256","alg":"ES256","x":"XMJOBqlxIMoCfbPhFXUl2ElJgdyHWZKRLl5ZblFLVr0","y":"ATTWLQV5Gn4rWgHSVCLYUwcLj8Pod70qEODABL3I4WM"}`,
	`{"kty":"OKP","crv":"Ed25519","alg":"Ed25519","x":"eHtNYv8TzumKUozGymJT1GpQj_P_NNjCEDjK2f9Qtg0"}`,
	`{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","x":"fve80X588c-TGnulAGcKDWiAwwCE9tAlGfQjkx1GVSk"}`,
	`{"kty":"RSA","alg":"PS256","n":"2VMpuZfJgvTypCaQfvlmFbnjPc9Yo2KmxK_t75WwoiPHCG--S6Yhcd1odvnD_v1CQMehU9ntWv1IRNL2gSZ4Ut3POlNJ9pSMJGhiSwcAki5F2KHh4d03GAtsblrrxM4qux3K_skwN6NkRfxuFS5TarOunsqV7KkKCvK7adQ_SpYwZJ1EeGVuTsKLt_HnC_sxxA82Pc0MsKS4T8tGZ_Z0H_54KZpzG72MRYJedLE4NmUm-RTVk8cf0qyvj9e40S-hYYTUHYgQFcNiDODlbaymm-PSLTRsfgp1j6-mt3Wds1kuu5l1doWZUhs6029FLkA77_qZBvOXcPM7QA366MPIcy3NJpY2U0MJItUUSu8cHo0uSzUUNvEj1V79kMINFsDlJK-hgoyqJoMOklHukHoNyflHXbvCTSpRyEeg5iyxYisUZsqPlqTXvUyoqdoJBoktGo7wtlwe1QXlcVeFIBe4eo90MTEMNeU_1rzWv6J7Nt69WcVHEDhhHONseNjnwT_z","e":"AQAB"}`,
}
