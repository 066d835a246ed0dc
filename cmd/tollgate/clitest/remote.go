package clitest

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tollgate/handlers/auth"
)

// Answer is what a service that another process runs has answered, read.
type Answer struct {
	*http.Response
	Text string
}

// Remote has no more patience than any test.
var Remote = &http.Client{Timeout: Patience, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// Receive makes a request.
func Receive(req *http.Request) (Answer, error) {
	resp, err := Remote.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return Answer{resp, string(text)}, err
}

// Send makes a request under a token; headers are names and values.
func Send(ctx context.Context, token, method, address, body string, headers ...string) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "" {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	return Receive(req)
}

// AskToken sends a new assertion of a client to the token endpoint.
func AskToken(ctx context.Context, base, issuer, client string, key []byte) (Answer, error) {
	assertion, err := auth.SignAssertion(key, client, issuer, rand.Text(), time.Now())
	if err != nil {
		return Answer{}, err
	}
	form := url.Values{
		"grant_type": {"client_credentials"}, "client_assertion": {assertion},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
	}
	return Send(ctx, "", http.MethodPost, base+"/oauth2/token", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}
