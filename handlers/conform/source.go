package conform

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// resource is the name under which the schemas find the document.
const resource = "tollgate:openapi.json"

// source is the document as JSON, with its schemas addressed by pointer.
type source struct {
	root     any
	compiler *jsonschema.Compiler
	ids      map[string]bool // operation ids seen
}

// node is an object of the document and the JSON pointer to it.
type node struct {
	at    string
	value map[string]any
}

// node finds an object by pointer and follows references.
func (s *source) node(at string) (node, error) {
	for range 8 {
		v := s.root
		for token := range strings.SplitSeq(strings.TrimPrefix(at, "/"), "/") {
			token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
			switch parent := v.(type) {
			case map[string]any:
				v = parent[token]
			case []any:
				i, err := strconv.Atoi(token)
				if err != nil || i >= len(parent) {
					return node{}, fmt.Errorf("%s is not there", at)
				}
				v = parent[i]
			default:
				v = nil
			}
		}
		object, ok := v.(map[string]any)
		if !ok {
			return node{}, fmt.Errorf("%s is not there", at)
		}
		target, refers := object["$ref"].(string)
		if !refers {
			return node{at, object}, nil
		}
		if at, ok = strings.CutPrefix(target, "#"); !ok {
			return node{}, fmt.Errorf("%s is in another document", target)
		}
	}
	return node{}, fmt.Errorf("%s: the references have no end", at)
}

// child is an object below n.
func (s *source) child(n node, keys ...string) (node, error) {
	at := n.at
	for _, key := range keys {
		at += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
	}
	return s.node(at)
}

// each calls f for the objects that are the members of n's member key, in the
// order of their names; no such member is no error.
func (s *source) each(n node, key string, f func(name string, n node) error) error {
	members, _ := n.value[key].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		member, err := s.child(n, key, name)
		if err == nil {
			err = f(name, member)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// compile makes the schema at a pointer ready to validate.
func (s *source) compile(at string) (*jsonschema.Schema, error) {
	return s.compiler.Compile(resource + "#" + strings.ReplaceAll(at, "%", "%25"))
}

// checkSchemas compiles every component, used or not, so that none refers to
// what is not there.
func (s *source) checkSchemas() error {
	components, err := s.node("/components")
	if err != nil {
		return err
	}
	schemas, _ := components.value["schemas"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		if _, err := s.compile("/components/schemas/" + name); err != nil {
			return err
		}
	}
	return nil
}

// schema compiles the member "schema" of n and checks n's examples with it.
func (s *source) schema(n node) (*jsonschema.Schema, error) {
	schema, err := s.compile(n.at + "/schema")
	if err != nil {
		return nil, err
	}
	if example, ok := n.value["example"]; ok {
		if err := schema.Validate(example); err != nil {
			return nil, fmt.Errorf("the example: %w", err)
		}
	}
	return schema, s.each(n, "examples", func(_ string, e node) error {
		return schema.Validate(e.value["value"])
	})
}

// content is the schemas of a body by media type; nil for bytes.
type content map[string]*jsonschema.Schema

// content is nil where there is no body.
func (s *source) content(n node) (content, error) {
	var schemas content
	err := s.each(n, "content", func(media string, body node) error {
		if schemas == nil {
			schemas = make(content)
		}
		if _, ok := body.value["schema"]; !ok && media == "application/wasm" {
			schemas[media] = nil
			return nil
		}
		schema, err := s.schema(body)
		schemas[media] = schema
		return err
	})
	return schemas, err
}

// component is the content of a body that has one media type.
func (s *source) component(media, name string) (content, error) {
	schema, err := s.compile("/components/schemas/" + name)
	return content{media: schema}, err
}
