package handlers_test

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate/handlers"
	"tollgate/handlers/conform"
)

// TestOpenAPIHasTheRoutes holds the document to the route table in both
// directions, scopes included.
func TestOpenAPIHasTheRoutes(t *testing.T) {
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(handlers.OpenAPI(), text) {
		t.Error("openapi.json.gz is of an older openapi.json: run make docs")
	}
	doc, err := conform.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string][]string)
	for _, o := range doc.Operations() {
		documented[o.Method+" "+o.Pattern] = o.Scopes
	}
	for _, route := range (*handlers.Server)(nil).Routes() {
		name := route.Method + " " + route.Path
		var scopes []string
		if route.Scope != "" {
			scopes = []string{string(route.Scope)}
		}
		have, ok := documented[name]
		switch {
		case !ok:
			t.Errorf("%s is not documented", name)
		case !slices.Equal(have, scopes):
			t.Errorf("%s needs the scopes %q; the document says %q", name, scopes, have)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("%s is documented and not there", name)
	}
}

// A reference stands alone, but in a schema: what is beside it nobody reads.
func TestOpenAPIReferencesStandAlone(t *testing.T) {
	text, err := os.ReadFile("openapi.json")
	must(t, text, err)
	var document any
	must(t, document, json.Unmarshal(text, &document))
	var look func(place string, v any)
	look = func(place string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok && len(v) > 1 && !strings.HasPrefix(ref, "#/components/schemas/") {
				t.Errorf("%s: there is more beside %s", place, ref)
			}
			for name, member := range v {
				look(place+"/"+name, member)
			}
		case []any:
			for i, member := range v {
				look(place+"/"+strconv.Itoa(i), member)
			}
		}
	}
	look("", document)
}
