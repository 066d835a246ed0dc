package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/service"
	"tollgate/rediskv/store"
)

// Secrets are a sandbox's keys. Those named ...Key of a client or a signer are
// private JWKs.
type Secrets struct {
	ClientKey  []byte
	RuleKey    []byte
	SigningKey []byte
	SecretKey  []byte // 32 bytes
}

// Prepare makes the demonstration organization where there is none. What is there
// is left as it is: somebody may have changed it on purpose.
func Prepare(ctx context.Context, store *store.Store, entropy io.Reader) (*Secrets, error) {
	private, _, err := auth.GenerateClientKey(entropy, "ES256")
	if err != nil {
		return nil, err
	}
	team, _, err := auth.GenerateClientKey(entropy, "ES256")
	if err != nil {
		return nil, err
	}
	signing, err := auth.GenerateSigningKey(entropy)
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 32)
	if _, err := io.ReadFull(entropy, secret); err != nil {
		return nil, err
	}
	s := new(Secrets)
	for _, k := range []struct {
		name      string
		candidate []byte
		kept      *[]byte
	}{
		{"client_key", private, &s.ClientKey}, {"rule_key", team, &s.RuleKey}, {"signing_key", signing, &s.SigningKey}, {"secret_key", secret, &s.SecretKey},
	} {
		if *k.kept, err = store.OnceSecret(ctx, k.name, k.candidate); err != nil {
			return nil, fmt.Errorf("sandbox %s: %w", k.name, err)
		}
	}
	_, err = store.Client(ctx, Client)
	var e *tollgate.Error
	if err == nil {
		return s, nil
	} else if !errors.As(err, &e) || e.Code != tollgate.CodeNotFound {
		return nil, err
	}
	public, err := publicHalf(s.ClientKey)
	if err != nil {
		return nil, fmt.Errorf("sandbox client key: %w", err)
	}
	teamPublic, err := publicHalf(s.RuleKey)
	if err != nil {
		return nil, fmt.Errorf("sandbox rule key: %w", err)
	}
	if _, err := service.Provision(ctx, store, Config(public, teamPublic), nil, false); err != nil {
		return nil, fmt.Errorf("sandbox organization: %w", err)
	}
	return s, nil
}

// publicHalf is the public JWK of a private P-256 JWK (RFC 7518 §6.2).
func publicHalf(private []byte) (string, error) {
	var key map[string]any
	if err := json.Unmarshal(private, &key); err != nil {
		return "", err
	}
	delete(key, "d")
	text, err := json.Marshal(key, json.Deterministic(true))
	return string(text), err
}
