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
	"sync"
	"syscall/js"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate/handlers/service"
	"tollgate/rediskv"
)

const (
	// connections to Redis, beside the one for notices: a runtime allows six.
	connections = 4
	// silence is how long an object answers from memory that hears nothing: it may
	// have slept.
	silence = 5 * time.Second
	// patience is for a Redis that starts together with the runtime.
	patience = 2 * time.Second
	// keptFree is how many goroutines wait for another request.
	keptFree = 16
	// paymentBytes bounds the copies of payments: an object has little memory.
	paymentBytes = 4 << 20
)

func main() {
	e := &edge{host: js.Global().Get("tollgate"), answers: make(chan func()), free: make(chan struct{}, keptFree)} // there for this moment alone
	if err := e.start(context.Background()); err != nil {
		e.host.Call("failed", err.Error())
		return
	}
	e.host.Call("ready", js.FuncOf(e.serve), js.FuncOf(e.cancel), js.FuncOf(e.sleep))
	select {}
}

// edge is the service in one object.
type edge struct {
	host    js.Value
	log     *slog.Logger
	service *service.Service
	loops   loops

	underWay sync.Map      // requests' numbers, and what ends them
	answers  chan func()   // for goroutines that are free
	free     chan struct{} // as many as there are, at most keptFree
}

// setting is a binding of the object, as TOLLGATE_ settings are called everywhere.
func (e *edge) setting(name string) string { return e.host.Call("setting", "TOLLGATE_"+name).String() }

func (e *edge) start(ctx context.Context) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cmp.Or(e.setting("LOG_LEVEL"), "info"))); err != nil {
		return fmt.Errorf("TOLLGATE_LOG_LEVEL: %w", err)
	}
	e.log = slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(e.setting("SECRET_KEY")))
	if err != nil || len(secret) != 32 {
		return errors.New("TOLLGATE_SECRET_KEY is not 32 bytes in base64")
	}
	keys, err := signingKeys(e.setting("SIGNING_KEY"))
	if err != nil {
		return fmt.Errorf("TOLLGATE_SIGNING_KEY: %w", err)
	}
	url := e.setting("REDIS_URL")
	encrypted := strings.HasPrefix(url, "rediss://")
	store, err := service.Await(ctx, rediskv.Options{
		URL: url, Clock: time.Now, Entropy: bufio.NewReader(rand.Reader), Log: e.log, Pool: connections, Blocking: 1, Silence: silence, PaymentBytes: paymentBytes,
		Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			return dial(ctx, e.host.Call("dial", address, encrypted))
		},
	}, patience)
	if err != nil {
		return err
	}
	if _, err := service.Inspect(ctx, store, e.log); err != nil {
		return err
	}
	e.service, err = service.New(ctx, store, service.Options{
		Issuer: e.setting("ISSUER"), SigningKeys: keys, SecretKey: secret, Entropy: rand.Reader, Clock: time.Now, Log: e.log,
	})
	return err
}

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
