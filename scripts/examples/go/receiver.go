package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

type event struct {
	ID   string `json:"id"`
	Data struct {
		PaymentID string `json:"payment_id"`
		Status    string `json:"status"`
	} `json:"data"`
}

// receive passes on the events that are delivered to a listener, if they are signed
// with the endpoint's secret.
func receive(listener net.Listener, secret string) <-chan event {
	webhook, err := standardwebhooks.NewWebhook(secret)
	check(err)
	events := make(chan event, 100)
	server := &http.Server{ReadTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			err = webhook.Verify(body, r.Header)
		}
		var e event
		if err == nil {
			err = json.Unmarshal(body, &e)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		events <- e // answer first, then do the work
	})}
	go func() { check(server.Serve(listener)) }()
	return events
}
