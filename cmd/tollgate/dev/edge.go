package dev

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"tollgate/cmd/sandbox"
)

// edgeSettings are those of the service as workerd runs it: back is where rules are
// published.
func edgeSettings(s *sandbox.Secrets, redis, issuer, back string) []string {
	return []string{
		"TOLLGATE_REDIS_URL=" + redis, "TOLLGATE_ISSUER=" + issuer, "TOLLGATE_SIGNING_KEY=" + string(s.SigningKey),
		"TOLLGATE_SECRET_KEY=" + base64.StdEncoding.EncodeToString(s.SecretKey), "TOLLGATE_EDGE_SHARDS=1", "TOLLGATE_PUBLISH_URL=" + back,
	}
}

// runEdge has workerd answer at an address until ctx ends.
func runEdge(ctx context.Context, o devOptions, addr string, out io.Writer, settings []string) error {
	c := exec.CommandContext(ctx, o.workerd, "serve", "--socket-addr=http="+addr, filepath.Join(o.edge, "workerd.capnp"))
	c.Env, c.Stdout, c.Stderr = append(os.Environ(), settings...), out, out
	c.Cancel, c.WaitDelay = func() error { return c.Process.Signal(syscall.SIGTERM) }, 5*time.Second
	if err := c.Run(); ctx.Err() == nil {
		return fmt.Errorf("workerd has ended: %w", cmp.Or(err, errors.New("it says no error")))
	}
	return nil
}

// awaitEdge waits until workerd answers, or nobody waits.
func awaitEdge(ctx context.Context, url string) {
	for ctx.Err() == nil {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", nil)
		if err != nil {
			return
		}
		answer, err := http.DefaultClient.Do(r)
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}
