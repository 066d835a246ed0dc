//go:build js && wasm

// Command edge is the service as WebAssembly: an object of an edge runtime runs it
// (object.js) and gives it requests, settings and connections to Redis. It answers
// the whole API but for publishing rules; `tollgate work` stays a process beside it.
package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall/js"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate/cmd/edge/host"
	"tollgate/handlers/service"
	"tollgate/rediskv"
	"tollgate/rediskv/gcra"
)

const (
	// connections to Redis, beside the one for notices: a runtime allows six.
	connections = 4
	// silence is how long an object answers from memory that hears nothing: it may
	// have slept.
	silence = 5 * time.Second
	// patience is for a Redis that starts together with the runtime.
	patience = 2 * time.Second
	// paymentBytes bounds the copies of payments: an object has little memory.
	paymentBytes = 4 << 20
)

func main() {
	p := &host.Program{Host: host.Host()}
	p.Serve(start(context.Background(), p))
}

// start makes the service of its settings.
func start(ctx context.Context, p *host.Program) error {
	setting := func(name string) string { return host.Setting(p.Host, name) }
	var level slog.Level
	if err := level.UnmarshalText([]byte(cmp.Or(setting("LOG_LEVEL"), "info"))); err != nil {
		return fmt.Errorf("TOLLGATE_LOG_LEVEL: %w", err)
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	var secrets [][]byte
	for _, name := range []string{"SECRET_KEY", "SECRET_KEY_PREVIOUS"} {
		text := strings.TrimSpace(setting(name))
		key, err := base64.StdEncoding.DecodeString(text)
		switch {
		case text == "" && len(secrets) > 0:
		case err != nil || len(key) != 32:
			return fmt.Errorf("TOLLGATE_%s is not 32 bytes in base64", name)
		default:
			secrets = append(secrets, key)
		}
	}
	keys, err := signingKeys(setting("SIGNING_KEY"))
	if err != nil {
		return fmt.Errorf("TOLLGATE_SIGNING_KEY: %w", err)
	}
	url := setting("REDIS_URL")
	encrypted := strings.HasPrefix(url, "rediss://")
	store, err := service.Await(ctx, rediskv.Options{
		URL: url, Clock: time.Now, Wall: wall, Entropy: bufio.NewReader(rand.Reader), Log: log, Pool: connections, Blocking: 1, Silence: silence, PaymentBytes: paymentBytes, GoOn: setting("ON_HISTORY_LOSS") == "continue",
		Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			return dial(ctx, p.Host.Call("dial", address, encrypted))
		},
	}, patience)
	if err != nil {
		return err
	}
	if _, err := service.Inspect(ctx, store, log); err != nil {
		return err
	}
	limits, err := gcra.Parse(setting("RATE_LIMITS"))
	if err != nil {
		return fmt.Errorf("TOLLGATE_RATE_LIMITS: %w", err)
	}
	s, err := service.New(ctx, store, service.Options{
		Issuer: setting("ISSUER"), SigningKeys: keys, SecretKeys: secrets, Entropy: rand.Reader, Clock: time.Now, Log: log, RateLimits: limits,
	})
	if err != nil {
		return err
	}
	p.Handler, p.Run = s.Server.Handler(), s.Run
	return nil
}

// wall is the machine's clock, to be compared with that of Redis. It is not time.Now,
// which tests set.
func wall() time.Time { return time.UnixMilli(int64(js.Global().Get("Date").Call("now").Float())) }

// signingKeys are private JWKs, separated as in TOLLGATE_SIGNING_KEY of `serve`. A
// file is nothing that an object has.
func signingKeys(text string) (keys [][]byte, err error) {
	for {
		if text = strings.TrimLeft(text, ", \t\r\n"); text == "" {
			return keys, nil
		}
		d := jsontext.NewDecoder(strings.NewReader(text))
		key, err := d.ReadValue()
		if err != nil {
			return nil, errors.New("it is one or more private JWKs") // the text is a secret
		}
		keys = append(keys, key.Clone())
		text = text[d.InputOffset():]
	}
}
