// Package conform holds the answers of the service to its OpenAPI document,
// key by key. Tests use it; the service does not import it.
//
// The document is public and therefore open: clients ignore keys that they do
// not know. Here it is closed: an answer with a key, a status, a code or a
// media type that is not documented is an error.
package conform

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Document is a checked OpenAPI 3.1 document. It is safe for concurrent use.
type Document struct {
	operations []*Operation
	// What answers outside every operation, and below /oauth2/.
	problem, oauth content
}

// Operation is one method of one path.
type Operation struct {
	ID      string
	Method  string   // in upper case
	Pattern string   // with parameters in braces
	Scopes  []string // that a token needs; nil for what anybody may ask

	parameters []parameter
	request    content // nil without a body
	bodyNeeded bool
	responses  map[int]response
}

// Load reads and checks a document: it is valid OpenAPI 3.1 (kin-openapi is
// the judge), no reference dangles, operation ids are unique, every scope is
// declared, and every example is valid under the closed schemas.
func Load(text []byte) (*Document, error) {
	if err := judge(text); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	s, err := newSource(text)
	if err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	d := new(Document)
	if err := s.checkSchemas(); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	if d.problem, err = s.component("application/problem+json", "Problem"); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	if d.oauth, err = s.component("application/json", "OAuthError"); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	paths, err := s.node("/paths")
	if err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	for _, pattern := range slices.Sorted(maps.Keys(paths.value)) {
		item, err := s.child(paths, pattern)
		if err != nil {
			return nil, fmt.Errorf("openapi: %s: %w", pattern, err)
		}
		for _, method := range slices.Sorted(maps.Keys(item.value)) {
			o, err := s.operation(item, method)
			if err != nil {
				return nil, fmt.Errorf("openapi: %s %s: %w", method, pattern, err)
			}
			o.Method, o.Pattern = strings.ToUpper(method), pattern
			d.operations = append(d.operations, o)
		}
	}
	return d, nil
}

// judge asks a library of others whether the document is what it says.
func judge(text []byte) error {
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return err
	}
	if !doc.IsOpenAPI31OrLater() {
		return fmt.Errorf("the version is %s", doc.OpenAPI)
	}
	// The examples are checked here, once and closed.
	return doc.Validate(context.Background(), openapi3.DisableExamplesValidation(),
		openapi3.EnableSchemaFormatValidation(), openapi3.EnableSchemaPatternValidation(), openapi3.EnableSchemaDefaultsValidation())
}

// Operations are all operations, by path and method.
func (d *Document) Operations() []*Operation { return slices.Clone(d.operations) }

// find is the operation of a request, or nil.
func (d *Document) find(method, path string) *Operation {
	for _, o := range d.operations {
		if _, ok := o.match(path); ok && o.Method == method {
			return o
		}
	}
	return nil
}

// operation finds the operation of a request: that of GET for HEAD, which the
// document describes once for all.
func (d *Document) operation(r *http.Request) *Operation {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return d.find(method, r.URL.Path)
}

// match compares a path segment by segment and returns the values of the
// pattern's parameters.
func (o *Operation) match(path string) (map[string]string, bool) {
	want, have := strings.Split(o.Pattern, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return nil, false
	}
	values := make(map[string]string)
	for i, segment := range want {
		name, ok := strings.CutPrefix(segment, "{")
		if ok {
			values[strings.TrimSuffix(name, "}")] = have[i]
		}
		if !ok && segment != have[i] || have[i] == "" && i > 0 {
			return nil, false
		}
	}
	return values, true
}

// newSource reads the text and closes its schemas.
func newSource(text []byte) (*source, error) {
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	closeSchemas(root)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource(resource, root); err != nil {
		return nil, err
	}
	return &source{root: root, compiler: compiler, ids: make(map[string]bool)}, nil
}

// closeSchemas refuses in every object whose keys are listed the keys that
// are not, unless the schema itself says what others there may be.
func closeSchemas(v any) {
	switch v := v.(type) {
	case map[string]any:
		_, listed := v["properties"].(map[string]any)
		_, additional := v["additionalProperties"]
		if v["type"] == "object" && listed && !additional {
			v["unevaluatedProperties"] = false
		}
		for _, member := range v {
			closeSchemas(member)
		}
	case []any:
		for _, item := range v {
			closeSchemas(item)
		}
	}
}
