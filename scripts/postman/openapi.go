package main

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// document is what a collection needs of an OpenAPI document.
type document struct {
	Info struct {
		Title       string `json:"title"`
		Description string `json:"description"`
	} `json:"info"`
	Tags []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"tags"`
	Paths      ordered[ordered[operation]] `json:"paths"`
	Components struct {
		Parameters ordered[parameter] `json:"parameters"`
	} `json:"components"`
}

type operation struct {
	Tags        []string              `json:"tags"`
	Summary     string                `json:"summary"`
	Description string                `json:"description"`
	Security    []map[string][]string `json:"security"` // empty: no token is needed
	Parameters  []parameter           `json:"parameters"`
	Body        struct {
		Content ordered[struct {
			Example  jsontext.Value `json:"example"`
			Examples ordered[struct {
				Value jsontext.Value `json:"value"`
			}] `json:"examples"`
		}] `json:"content"`
	} `json:"requestBody"`
}

type parameter struct {
	Ref         string         `json:"$ref"`
	Name        string         `json:"name"`
	In          string         `json:"in"`
	Description string         `json:"description"`
	Example     jsontext.Value `json:"example"`
}

// resolve is a parameter or what it refers to.
func (d *document) resolve(p parameter) (parameter, error) {
	name, ok := strings.CutPrefix(p.Ref, "#/components/parameters/")
	if !ok {
		return p, nil
	}
	for _, c := range d.Components.Parameters {
		if c.name == name {
			return c.value, nil
		}
	}
	return p, fmt.Errorf("%s is not in the document", p.Ref)
}

// example is the body that the document shows, with its media type.
func (o *operation) example() (media string, body jsontext.Value) {
	if len(o.Body.Content) == 0 {
		return "", nil
	}
	c := o.Body.Content[0]
	if len(c.value.Examples) > 0 {
		return c.name, c.value.Examples[0].value.Value
	}
	return c.name, c.value.Example
}

// text is an example as it stands in a URL.
func (p *parameter) text() string {
	var list []string
	if json.Unmarshal(p.Example, &list) == nil {
		return strings.Join(list, ",")
	}
	var one string
	if json.Unmarshal(p.Example, &one) == nil {
		return one
	}
	return string(p.Example)
}

// ordered are the members of an object, in the document's order.
type ordered[V any] []member[V]

type member[V any] struct {
	name  string
	value V
}

// UnmarshalJSONFrom reads an object.
func (o *ordered[V]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if token, err := dec.ReadToken(); err != nil || token.Kind() != jsontext.KindBeginObject {
		return fmt.Errorf("no object but %v: %w", token, err)
	}
	for dec.PeekKind() != jsontext.KindEndObject {
		var m member[V]
		if err := json.UnmarshalDecode(dec, &m.name); err != nil {
			return err
		}
		if err := json.UnmarshalDecode(dec, &m.value); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		*o = append(*o, m)
	}
	_, err := dec.ReadToken()
	return err
}
