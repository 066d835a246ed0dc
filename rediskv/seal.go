package rediskv

import "context"

// OnceSealed keeps the first seal that a process makes with its secret key, and
// returns what is kept: who cannot open that has another key than the others.
func (s *DB) OnceSealed(ctx context.Context, candidate []byte) (kept []byte, err error) {
	if s.seal != "" {
		return []byte(s.seal), nil
	}
	kept, err = s.Once(ctx, MetaKey, "seal", candidate)
	s.seal = string(kept)
	return kept, err
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
