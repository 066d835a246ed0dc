// Package conformance has verifiers that others wrote look at 120 days of rotation.
package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/keyring"
	"tollgate/handlers/secret"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
	"tollgate/rediskv/testkit"
)

const issuer = "https://pay.example"

// hour is what an instance publishes and signs at one time.
type hour struct {
	At    int64  `json:"at"` // Unix milliseconds
	JWKS  string `json:"jwks"`
	Token string `json:"token"` // an access token that was issued then
}

// For 120 days an instance signs a token every hour. Libraries that others wrote verify
// each, although they read the key set once in 23 hours.
func TestKeysRotateForOthers(t *testing.T) {
	if os.Getenv("TOLLGATE_TEST_CONFORMANCE") == "" {
		t.Skip("make conformance plays it")
	}
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	shop := testkit.NewShop(t, rediskv.Options{URL: redistest.URL(t), Rules: []tollgate.RuleRef{testkit.CardFee}}, testkit.NewClock(), nil)
	kept := testkit.Open(t, rediskv.Options{URL: shop.URL, Clock: clock})
	work, instance := ring(t, kept, clock), ring(t, kept, clock)
	keys, err := instance.Open(t.Context())
	must(t, err)
	signs := auth.Issuer{Keys: keys, Name: issuer}

	var tape bytes.Buffer
	signers := map[string]bool{}
	for range 120 * 24 {
		must(t, work.Maintain(t.Context()))
		_, err := kept.Keyring(t.Context())
		must(t, err)
		instance.Follow(t.Context(), "ins_1", kept.KeptKeyring(), "")
		token, err := signs.Mint(now, auth.Token{
			ID: rand.Text(), ClientID: "cli_1", Organization: "org_1", GrantID: "grt_1", GrantVersion: 1, Scopes: auth.AllScopes(),
		})
		must(t, err)
		header, _, _ := strings.Cut(token, ".")
		signers[header] = true
		line, err := json.Marshal(hour{now.UnixMilli(), string(keys.JWKS()), token})
		must(t, err)
		tape.Write(append(line, '\n'))
		now = now.Add(time.Hour)
	}
	if len(signers) != 4 {
		t.Fatalf("%d keys have signed in 120 days", len(signers))
	}
	file := filepath.Join(t.TempDir(), "tape.ndjson")
	must(t, os.WriteFile(file, tape.Bytes(), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "node", "rotation.mjs", issuer, file).CombinedOutput()
	t.Logf("%s", out)
	must(t, err)
}

func ring(t *testing.T, kept *store.Store, clock func() time.Time) *keyring.Keyring {
	t.Helper()
	vault, err := secret.NewVault(bytes.Repeat([]byte{1}, secret.Size))
	must(t, err)
	k, err := keyring.New(keyring.Config{Store: kept, Vault: vault, Entropy: rand.Reader, Clock: clock, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	return k
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
