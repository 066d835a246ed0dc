//go:build js && wasm

// Command page is a sandbox in a page: the API and the worker on an embedded Redis,
// whose changes the browser keeps. The worker of the page (worker.js) runs it.
package main

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"syscall/js"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate/cmd/edge/host"
	"tollgate/cmd/sandbox"
)

// receiver is where webhooks would be sent. Nothing leaves the page.
const receiver = "https://receiver.example/tollgate"

func main() {
	p := &host.Program{Host: host.Host()}
	p.Serve(start(context.Background(), p))
}

func start(ctx context.Context, p *host.Program) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	address := host.Setting(p.Host, "URL")
	base, err := url.Parse(address) // a file host may have the page below a path
	if err != nil {
		return err
	}
	keeper := &sandbox.Keeper{
		Redis: sandbox.NewRedis(time.Now),
		Write: func(ctx context.Context, changes []byte, whole bool) error {
			_, err := host.Await(ctx, p.Host.Call("keep", host.BytesOf(changes), whole))
			return err
		},
	}
	pieces, err := host.Await(ctx, p.Host.Call("kept"))
	if err != nil {
		return err
	}
	kept := make([][]byte, pieces.Length())
	for i := range kept {
		kept[i] = make([]byte, pieces.Index(i).Length())
		js.CopyBytesToGo(kept[i], pieces.Index(i))
	}
	if err := keeper.Load(kept...); err != nil {
		return err
	}
	s, err := sandbox.Start(ctx, sandbox.Options{
		URL: address, Redis: keeper.Redis, Clock: time.Now, Entropy: rand.Reader, Log: log, Transport: transport{p.Host}, Receiver: receiver,
	})
	if err != nil {
		return err
	}
	if err := keeper.Keep(ctx); err != nil {
		return err
	}
	go s.Run(ctx)
	go keeper.Run(ctx)
	inside := http.NewServeMux()
	inside.HandleFunc("GET /environment", func(w http.ResponseWriter, r *http.Request) {
		keys, err := s.Endpoint.Keys(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_ = json.MarshalWrite(w, s.Secrets.Environment(address, "", keys[len(keys)-1]))
	})
	inside.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) {
		whole, err := keeper.Redis.Snapshot()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(whole)
	})
	inside.HandleFunc("POST /state", func(w http.ResponseWriter, r *http.Request) { // is it one?
		b, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = sandbox.NewRedis(time.Now).Replay(b)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	api := http.StripPrefix(base.Path, keeper.Handler(s.Server.Handler()))
	p.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "inside" { // of the worker, never of a page
			inside.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
	return nil
}

// transport shows deliveries of webhooks to the host, which answers.
type transport struct{ host js.Value }

// RoundTrip shows a request as it would be sent.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	headers := []any{}
	for name, values := range r.Header {
		for _, v := range values {
			headers = append(headers, []any{name, v})
		}
	}
	status := t.host.Call("deliver", r.URL.String(), js.ValueOf(headers), string(body)).Int()
	return &http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}
