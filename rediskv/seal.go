package rediskv

import "context"

// SealField of MetaKey is a seal, made with the secret key of all processes.
const SealField = "seal"

// OnceSealed keeps the first seal that a process makes with its secret key, and
// returns what is kept: it is known when the Store is opened.
func (s *DB) OnceSealed(ctx context.Context, candidate []byte) (kept []byte, err error) {
	if known := s.seal.Load(); known != nil && *known != "" {
		return []byte(*known), nil
	}
	kept, err = s.Once(ctx, MetaKey, SealField, candidate)
	s.Sealed(string(kept))
	return kept, err
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

// Once keeps the first candidate of a field of the hash at a key, and returns what is kept.
func (s *DB) Once(ctx context.Context, key, name string, candidate []byte) (kept []byte, err error) {
	err = s.Timed(ctx, "once_secret", func(ctx context.Context) error {
		pipe := s.Redis.Pipeline()
		pipe.HSetNX(ctx, key, name, candidate)
		is := pipe.HGet(ctx, key, name)
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		var err error
		kept, err = is.Bytes()
		return err
	})
	return kept, err
}
