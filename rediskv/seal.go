package rediskv

import "context"

// OnceSealed keeps the first seal that a process makes with its secret key, and
// returns what is kept: who cannot open that has another key than the others.
func (s *DB) OnceSealed(ctx context.Context, candidate []byte) (kept []byte, err error) {
	if s.seal != "" {
		return []byte(s.seal), nil
	}
	kept, err = s.once(ctx, metaKey, "seal", candidate)
	s.seal = string(kept)
	return kept, err
}

func (s *DB) once(ctx context.Context, key, name string, candidate []byte) (kept []byte, err error) {
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
