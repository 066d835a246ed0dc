package dev

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/demo"
	"tollgate/cmd/tollgate/provision"
	"tollgate/handlers/auth"
	"tollgate/rediskv/store"
)

// provided is the demonstration organization's client and the sandbox's secrets.
type provided struct {
	clientID   string
	clientKey  []byte // private JWK
	ruleKey    []byte // private JWK
	signingKey []byte // private JWK
	secretKey  []byte
}

// prepareDemo makes the demonstration organization where there is none. What
// is there is left as it is: somebody may have changed it on purpose.
func prepareDemo(ctx context.Context, a *cli.App, store *store.Store) (*provided, error) {
	d := &provided{clientID: demo.Client}
	private, _, err := auth.GenerateClientKey(a.Entropy, "ES256")
	if err != nil {
		return nil, err
	}
	team, _, err := auth.GenerateClientKey(a.Entropy, "ES256")
	if err != nil {
		return nil, err
	}
	signing, err := auth.GenerateSigningKey(a.Entropy)
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 32)
	if _, err := io.ReadFull(a.Entropy, secret); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		name      string
		candidate []byte
		kept      *[]byte
	}{
		{"client_key", private, &d.clientKey}, {"rule_key", team, &d.ruleKey}, {"signing_key", signing, &d.signingKey}, {"secret_key", secret, &d.secretKey},
	} {
		if *s.kept, err = store.OnceSecret(ctx, s.name, s.candidate); err != nil {
			return nil, fmt.Errorf("sandbox %s: %w", s.name, err)
		}
	}
	_, err = store.Client(ctx, demo.Client)
	var e *tollgate.Error
	if err == nil {
		return d, nil
	} else if !errors.As(err, &e) || e.Code != tollgate.CodeNotFound {
		return nil, err
	}
	public, err := publicHalf(d.clientKey)
	if err != nil {
		return nil, fmt.Errorf("sandbox client key: %w", err)
	}
	teamPublic, err := publicHalf(d.ruleKey)
	if err != nil {
		return nil, fmt.Errorf("sandbox rule key: %w", err)
	}
	if _, err := provision.ApplyConfig(ctx, store, demo.Config(public, teamPublic), nil, false); err != nil {
		return nil, fmt.Errorf("sandbox organization: %w", err)
	}
	return d, nil
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
