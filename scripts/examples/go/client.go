package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
)

type client struct {
	http  http.Client
	token string // good for ten minutes
}

// call sends a request of the API. body and key may be missing.
func (c *client) call(method, path string, body object, key string) object {
	header := http.Header{"Authorization": {"Bearer " + c.token}}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	var text []byte
	if body != nil {
		header.Set("Content-Type", "application/json")
		text, _ = json.Marshal(body)
	}
	return c.send(method, path, header, text)
}

func (c *client) send(method, path string, header http.Header, body []byte) (answer object) {
	request, err := http.NewRequest(method, os.Getenv("TOLLGATE_URL")+path, bytes.NewReader(body))
	check(err)
	request.Header = header
	response, err := c.http.Do(request)
	check(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	check(err)
	if response.StatusCode >= 300 { // problem+json, with code, message and request_id
		log.Fatalf("%s %s: %s %s", method, path, response.Status, text)
	}
	if len(text) > 0 {
		check(json.Unmarshal(text, &answer))
	}
	return answer
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
