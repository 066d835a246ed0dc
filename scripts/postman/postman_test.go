package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

const kept = "../examples/tollgate.postman_collection.json"

// The collection in the repository is that of the document as it is.
func TestCollectionIsCurrent(t *testing.T) {
	document, err := os.ReadFile("../../handlers/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	want, err := collection(document)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is old: make collection", kept)
	}
	if again, err := collection(document); err != nil || !bytes.Equal(again, want) {
		t.Error("the same document makes another collection")
	}
	// Nothing but ids of this organization's sandbox and placeholders stand in requests.
	if text := string(want); strings.Contains(text, `: \"ma_`) || !strings.Contains(text, `"{{$guid}}"`) {
		t.Error("a request has an account of the document's examples, or no idempotency key")
	}
}
