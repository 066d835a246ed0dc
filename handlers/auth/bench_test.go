package auth_test

import (
	"testing"

	"tollgate/handlers/auth"
)

// BenchmarkVerify shows what remembering a token saves. Without it: two tokens
// take turns in a cache of one, so each is verified every time.
func BenchmarkVerify(b *testing.B) {
	b.Run("cached", func(b *testing.B) {
		s := newService(b, 1)
		text := s.mint(b, "1")
		for b.Loop() {
			if _, err := s.verifier.Verify(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("uncached", func(b *testing.B) {
		s := newService(b, 1)
		texts := [2]string{s.mint(b, "1"), s.mint(b, "2")}
		for i := 0; b.Loop(); i++ {
			if _, err := s.verifier.Verify(texts[i%2]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkMint(b *testing.B) {
	s := newService(b, 1)
	for b.Loop() {
		if _, err := s.issuer.Mint(now, grant); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyAssertion(b *testing.B) {
	for _, alg := range auth.Algorithms() {
		b.Run(alg, func(b *testing.B) {
			c := newClient(b, "bench", alg)
			text := c.assertion(b).String()
			for b.Loop() {
				if _, err := verify(text, c.keys); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
