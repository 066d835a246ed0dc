package dev

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tollgate/cmd/sandbox"
)

// A file of the environment with odd paths still sources.
func TestEnvironmentSources(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's a dir")
	path := filepath.Join(dir, "dev.env")
	secrets := sandbox.Secrets{ClientKey: []byte(`{"kty":"EC"}`), RuleKey: []byte(`{"kty":"EC"}`)}
	if err := write(secrets.Environment("http://127.0.0.1:1", "token", "whsec_1"), path); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", `set -a; . "$1"; set +a; cat "$TOLLGATE_CLIENT_JWK"; env`, "sh", path).CombinedOutput()
	if err != nil || !bytes.HasPrefix(out, []byte(`{"kty":"EC"}`)) || !bytes.Contains(out, []byte("TOLLGATE_GRANT="+sandbox.Grant)) {
		t.Errorf("%v\n%s", err, out)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 3 {
		t.Errorf("%d files beside each other, want 3: %v", len(entries), entries)
	}
}

func TestPlainHandler(t *testing.T) {
	var out bytes.Buffer
	at := func() time.Time { return time.Date(2026, 11, 21, 18, 16, 28, 0, time.UTC) }
	log := slog.New(newPlainHandler(&out, at)).With("a", 1)
	log.Info("request", "method", "POST", "route", "POST /v1/payments", "status", 201, "took_ms", 3.1, "request_id", "req_1")
	log.Warn("careful", "why", "because")
	log.Debug("unseen")
	want := "18:16:28  POST /v1/payments                             201     3.1 ms  req_1\n18:16:28  careful (warn)  a=1  why=because\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestAddresses(t *testing.T) {
	for addr, want := range map[string]string{":0": "127.0.0.1:0", ":8080": "127.0.0.1:8080", "0.0.0.0:1": "0.0.0.0:1", "[::1]:1": "[::1]:1", "x": "x"} {
		if got := loopback(addr); got != want {
			t.Errorf("%s: %s", addr, got)
		}
	}
	if got := redactURL("redis://user:secret@host:1"); strings.Contains(got, "secret") {
		t.Error(got)
	}
}
