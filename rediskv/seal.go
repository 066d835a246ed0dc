package rediskv

import "context"

// SealField of MetaKey is a seal, made with the secret key of all processes, and
// SealedByField the id of that key.
const (
	SealField     = "seal"
	SealedByField = "sealed_by"
)

// firstSeal writes a seal and whose it is, both of one process.
const firstSeal = `if redis.call('HSETNX', KEYS[1], 'seal', ARGV[1]) == 1 then redis.call('HSET', KEYS[1], 'sealed_by', ARGV[2]) end return redis.call('HGET', KEYS[1], 'seal')`

// OnceSealed keeps the first seal that a process makes with its secret key, and the id of
// that, and returns the seal that is kept: it is known when the Store is opened.
func (s *DB) OnceSealed(ctx context.Context, candidate []byte, secretKey string) (kept []byte, err error) {
	if known := s.seal.Load(); known != nil && *known != "" {
		return []byte(*known), nil
	}
	err = s.Timed(ctx, "once_sealed", func(ctx context.Context) error {
		text, err := s.Redis.Eval(ctx, firstSeal, []string{MetaKey}, candidate, secretKey).Text()
		kept = []byte(text)
		return err
	})
	if err == nil {
		s.Sealed(string(kept))
		s.sealNamed = true
	}
	return kept, err
}

// NameSeal writes down of which secret key the seal is, where a release before this one
// has left that out.
func (s *DB) NameSeal(ctx context.Context, secretKey string) error {
	if s.sealNamed || s.IsOffline() {
		return nil
	}
	return s.Timed(ctx, "name_seal", func(ctx context.Context) error {
		return s.Redis.HSetNX(ctx, MetaKey, SealedByField, secretKey).Err()
	})
}

// Sealed remembers the seal as it was read later.
func (s *DB) Sealed(seal string) {
	if seal != "" {
		s.seal.Store(&seal)
	}
}

// Recorded is what this Redis is known by: its number of partitions, and its seal.
func (s *DB) Recorded() (partitions int, seal string) {
	if known := s.seal.Load(); known != nil {
		seal = *known
	}
	return len(s.spaces), seal
}
