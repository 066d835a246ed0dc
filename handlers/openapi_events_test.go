package handlers_test

import (
	"os"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
)

// TestOpenAPIHasTheEvents holds the document to the event types: Event is one
// of them, and those that are delivered stand among the webhooks. Operations are
// described, and no property of a request has a default: generators take it for
// one that is always there.
func TestOpenAPIHasTheEvents(t *testing.T) {
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Description string `json:"description"`
			RequestBody any    `json:"requestBody"`
		} `json:"paths"`
		Webhooks   map[string]jsontext.Value `json:"webhooks"`
		Components struct {
			Schemas map[string]struct {
				OneOf []struct {
					Ref string `json:"$ref"`
				} `json:"oneOf"`
				Discriminator struct {
					Mapping map[string]string `json:"mapping"`
				} `json:"discriminator"`
				Properties map[string]struct {
					Const any `json:"const"`
				} `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	event := doc.Components.Schemas["Event"]
	for _, kind := range tollgate.EventTypes {
		ref, ok := event.Discriminator.Mapping[string(kind)]
		listed := false
		for _, one := range event.OneOf {
			listed = listed || one.Ref == ref
		}
		if !ok || !listed {
			t.Errorf("%s is no event of the document", kind)
			continue
		}
		if got := doc.Components.Schemas[ref[len("#/components/schemas/"):]].Properties["type"].Const; got != string(kind) {
			t.Errorf("%s is of type %v", ref, got)
		}
		if _, ok := doc.Webhooks[string(kind)]; ok != kind.Deliverable() {
			t.Errorf("%s is delivered: %t; among the webhooks: %t", kind, kind.Deliverable(), ok)
		}
	}
	if len(event.Discriminator.Mapping) != len(tollgate.EventTypes) || len(event.OneOf) != len(tollgate.EventTypes) {
		t.Errorf("%d and %d types for %d", len(event.Discriminator.Mapping), len(event.OneOf), len(tollgate.EventTypes))
	}
	for kind := range doc.Webhooks {
		if !slices.Contains(tollgate.EventTypes, tollgate.EventType(kind)) || !tollgate.EventType(kind).Deliverable() {
			t.Errorf("%s is among the webhooks, and never delivered", kind)
		}
	}
	for path, item := range doc.Paths {
		for method, operation := range item {
			if operation.Description == "" {
				t.Errorf("%s %s is not described", method, path)
			}
			noDefaults(t, method+" "+path, operation.RequestBody)
		}
	}
	var all struct {
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for name, schema := range all.Components.Schemas {
		noDefaults(t, name, schema)
	}
}

// noDefaults looks for a default at any depth. A property may have that name.
func noDefaults(t *testing.T, at string, part any) {
	t.Helper()
	switch part := part.(type) {
	case map[string]any:
		for name, below := range part {
			_, schema := below.(map[string]any)
			if name == "default" && !schema {
				t.Errorf("%s has the default %v", at, below)
			}
			if name != "example" && name != "examples" {
				noDefaults(t, at+"."+name, below)
			}
		}
	case []any:
		for _, below := range part {
			noDefaults(t, at, below)
		}
	}
}
