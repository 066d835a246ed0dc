package handlers_test

import (
	"os"
	"slices"
	"testing"

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
