package keyring

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/script"
)

// Secrets is which secret keys a process has, by their ids, and with which it encrypts.
type Secrets struct {
	Has    []string         `json:"has"`
	Uses   string           `json:"uses"`
	SaidAt tollgate.Instant `json:"said_at"`
}

// forgotten is for how long nobody has heard of a process that no longer counts.
const forgotten = 3 * time.Minute

// SaySecrets writes what a process has, for KnownSecrets.
func (s *Store) SaySecrets(ctx context.Context, process string, has Secrets) error {
	text, err := json.Marshal(has)
	if err != nil {
		return err
	}
	return s.db.Timed(ctx, "say_secrets", func(ctx context.Context) error {
		return s.db.Redis.HSet(ctx, rediskv.SecretsKey, process, text).Err()
	})
}

// KnownSecrets is what each process that lives has said. Of those that died long ago
// nothing is kept.
func (s *Store) KnownSecrets(ctx context.Context, now tollgate.Instant) (map[string]Secrets, error) {
	all := map[string]Secrets{}
	err := s.db.Timed(ctx, "known_secrets", func(ctx context.Context) error {
		found, err := s.db.Redis.HGetAll(ctx, rediskv.SecretsKey).Result()
		if err != nil {
			return err
		}
		var gone []string
		for process, text := range found {
			var one Secrets
			if err := json.Unmarshal([]byte(text), &one); err != nil || one.SaidAt.Add(forgotten) < now {
				gone = append(gone, process) // one that lives says it again
				continue
			}
			all[process] = one
		}
		if len(gone) > 0 {
			return s.db.Redis.HDel(ctx, rediskv.SecretsKey, gone...).Err()
		}
		return nil
	})
	return all, err
}

// ForgetSecrets is for a process that ends.
func (s *Store) ForgetSecrets(ctx context.Context, process string) error {
	return s.db.Timed(ctx, "forget_secrets", func(ctx context.Context) error {
		return s.db.Redis.HDel(ctx, rediskv.SecretsKey, process).Err()
	})
}

// Seal is the seal as it is now, and since when it is that one: 0 for the first.
func (s *Store) Seal(ctx context.Context) (seal string, since tollgate.Instant, err error) {
	err = s.db.Timed(ctx, "seal", func(ctx context.Context) error {
		found, err := s.db.Redis.HMGet(ctx, rediskv.MetaKey, rediskv.SealField, "sealed_at").Result()
		if err != nil {
			return err
		}
		seal, _ = found[0].(string)
		at, _ := found[1].(string)
		since = tollgate.Instant(rediskv.Fields{"at": at}.Int("at"))
		return nil
	})
	return seal, since, err
}

type (
	sealKeys struct{ Meta string }
	sealArgs struct {
		Before, After, SecretKey string
		At                       int64
	}
)

var scriptReplaceSeal = script.NewOpen[sealKeys, sealArgs](lua, "replace_seal")

// ReplaceSeal has everybody encrypt under another secret key, by its id.
// rediskv.ErrConflict: the seal is no longer the one that was read.
func (s *Store) ReplaceSeal(ctx context.Context, before, after, secretKey string, now tollgate.Instant) error {
	_, _, err := s.db.Run(ctx, scriptReplaceSeal.With(sealKeys{rediskv.MetaKey}, sealArgs{before, after, secretKey, int64(now)}))
	return err
}
