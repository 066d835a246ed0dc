package conform_test

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"

	"tollgate/handlers/conform"
)

var readDocument = sync.OnceValues(func() ([]byte, error) { return os.ReadFile("../openapi.json") })

func text(t *testing.T) []byte {
	t.Helper()
	text, err := readDocument()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var loadDocument = sync.OnceValues(func() (*conform.Document, error) {
	text, err := readDocument()
	if err != nil {
		return nil, err
	}
	return conform.Load(text)
})

func document(t *testing.T) *conform.Document {
	t.Helper()
	d, err := loadDocument()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDocumentIsValid(t *testing.T) {
	if n := len(document(t).Operations()); n == 0 {
		t.Error("no operations")
	}
}

// TestBrokenDocumentsAreRefused changes one thing at a time: a check that
// lets one of them pass checks nothing.
func TestBrokenDocumentsAreRefused(t *testing.T) {
	for name, change := range map[string]struct{ old, new, want string }{
		"version":                {`"openapi": "3.1.1"`, `"openapi": "3.0.3"`, ""},
		"no title":               {`"title": "Tollgate"`, `"titel": "Tollgate"`, "title"},
		"unknown keyword":        {`"summary": "List events"`, `"sumary": "List events"`, "sumary"},
		"dangling schema":        {`{ "$ref": "#/components/schemas/Quote" }`, `{ "$ref": "#/components/schemas/Qoute" }`, "Qoute"},
		"dangling response":      {`{ "$ref": "#/components/responses/CursorExpired" }`, `{ "$ref": "#/components/responses/Nowhere" }`, "Nowhere"},
		"dangling inside schema": {`"cutoff": { "$ref": "#/components/schemas/Cutoff" }`, `"cutoff": { "$ref": "#/components/schemas/CutOff" }`, "CutOff"},
		"operation id twice":     {`"operationId": "readPayment"`, `"operationId": "readTicket"`, "readTicket"},
		"scope not declared":     {`["tickets:read"]`, `["tickets:raed"]`, "tickets:raed"},
		"example of an answer":   {`"has_more": false`, `"has_more": "no"`, "has_more"},
		"example of a request":   {`"amount": "60.00", "final_capture": true`, `"amount": 60, "final_capture": true`, "amount"},
		"undocumented key":       {`"token_type": "Bearer"`, `"token_type": "Bearer", "refresh_token": "x"`, "refresh_token"},
		"example of a header":    {`"example": "no-store"`, `"example": "store"`, "no-store"},
		"example of a parameter": {`"example": ["payment.*"]`, `"example": ["payment"]`, "payment"},
		"no such type":           {`"type": "boolean"`, `"type": "bool"`, "bool"},
		"bad pattern":            {`"pattern": "^[0-9a-f]{64}$"`, `"pattern": "^[0-9a-f{64}$"`, ""},
		"not JSON":               {`"paths": {`, `"paths": {,`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			broken := bytes.Replace(text(t), []byte(change.old), []byte(change.new), 1)
			if bytes.Equal(broken, text(t)) {
				t.Fatalf("%s is not in the document", change.old)
			}
			if _, err := conform.Load(broken); err == nil || !strings.Contains(err.Error(), change.want) {
				t.Errorf("loading says %v", err)
			}
		})
	}
}
