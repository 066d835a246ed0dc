package webhooks

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/client"
	"tollgate/handlers/worker/delivery"
)

// Who breaks off in the middle of a page goes on before it: no event that was
// not delivered is skipped.
func TestListenBrokenOff(t *testing.T) {
	const page = `{"object":"list","data":[{"id":"evt_1","type":"payment.captured"},{"id":"evt_2","type":"payment.captured"},{"id":"evt_3","type":"payment.captured"}],"has_more":false,"next_cursor":"end"}`
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		if got = append(got, req.Header.Get("Webhook-Id")); len(got) == 2 {
			cancel()
			<-req.Context().Done()
		}
	}))
	defer receiver.Close()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, page)
	}))
	defer service.Close()
	key, err := tollgate.NewWebhookKey(1, tollgate.SignatureV1, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &cli.App{Stdout: io.Discard, Stderr: io.Discard, Clock: time.Now, Entropy: rand.Reader}
	l := &listening{
		Client: &cli.Client{App: a, Base: service.URL, Token: "token"}, to: receiver.URL, key: key,
		sender: delivery.NewSender(delivery.SenderConfig{Clock: time.Now, Development: true}),
	}
	defer l.sender.Close()
	query := url.Values{"cursor": {"start"}}
	if err := client.FollowEvents(ctx, l.Client, query, func(e jsontext.Value) error { return l.deliver(ctx, e) }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || query.Get("cursor") != "start" {
		t.Errorf("%v arrived; go on at %s", got, query.Get("cursor"))
	}
}

func TestForwardTo(t *testing.T) {
	for to, ok := range map[string]bool{
		"http://127.0.0.1:3000/hooks": true, "http://localhost:3000/": true, "http://LOCALHOST/": true, "https://[::1]:3000/?a=b": true,
		"http://u:p@127.0.0.1/": false, "http://127.0.0.1/#x": false, "http://[::ffff:127.0.0.1]/": false, "http://127.0.0.1:/": false,
		"http://shop.example/": false, "ftp://127.0.0.1/": false, "http://127.1/": false, "": false,
	} {
		if err := checkLocal(to); (err == nil) != ok {
			t.Errorf("%s: %v", to, err)
		}
	}
}
