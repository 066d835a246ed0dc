package main

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// connect trades an assertion, signed with the client's key, for an access token.
func connect() *client {
	var key jose.JSONWebKey
	file, err := os.ReadFile(os.Getenv("TOLLGATE_CLIENT_JWK"))
	check(err)
	check(json.Unmarshal(file, &key))
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}, nil)
	check(err)
	id := os.Getenv("TOLLGATE_CLIENT_ID")
	assertion, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: id, Subject: id, Audience: jwt.Audience{os.Getenv("TOLLGATE_ISSUER")},
		Expiry: jwt.NewNumericDate(time.Now().Add(time.Minute)), ID: rand.Text(),
	}).Serialize()
	check(err)
	c := &client{http: http.Client{Timeout: 15 * time.Second}}
	form := url.Values{
		"grant_type": {"client_credentials"}, "client_assertion": {assertion},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	c.token = c.send("POST", "/oauth2/token", header, []byte(form.Encode()))["access_token"].(string)
	return c
}
