package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// document is what of an OpenAPI document the reference shows.
type document struct {
	Info struct{ Description string }
	Tags []struct{ Name, Description string }

	Paths      object[object[*operation]]
	Components struct {
		Parameters map[string]*parameter
		Responses  map[string]*response
		Schemas    object[*schema]
	}
}

// operation is a method of a path.
type operation struct {
	ID                   string `json:"operationId"`
	Tags                 []string
	Summary, Description string
	Security             []map[string][]string
	Parameters           []*parameter
	RequestBody          *struct {
		Required bool
		Content  object[media]
	}
	Responses object[*response]

	method, path string
}

type media struct{ Schema *schema }

type parameter struct {
	Ref                   string `json:"$ref"`
	Name, In, Description string
	Required              bool
	Schema                *schema
}

type response struct {
	Ref         string `json:"$ref"`
	Description string
	Content     object[media]
}

// schema is a JSON Schema, as far as the document uses it.
type schema struct {
	Ref         string `json:"$ref"`
	Description string
	Type        kinds
	Format      string
	Enum        []any
	Const       any
	Default     any
	MaxLength   *int
	MaxItems    *int
	Required    []string
	Properties  object[*schema]
	Items       *schema
	AnyOf       []*schema
	OneOf       []*schema
	AllOf       []*schema
}

// kinds is a type, or several.
type kinds []string

// UnmarshalJSON takes a word and a list of words.
func (k *kinds) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*k = kinds{""}
		return json.Unmarshal(b, &(*k)[0])
	}
	return json.Unmarshal(b, (*[]string)(k))
}

// object is a JSON object that keeps its order.
type object[V any] struct {
	names  []string
	values map[string]V
}

// UnmarshalJSON reads member by member.
func (o *object[V]) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if _, err := d.Token(); err != nil {
		return err
	}
	o.values = map[string]V{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var v V
		if err := d.Decode(&v); err != nil {
			return fmt.Errorf("%v: %w", name, err)
		}
		o.names = append(o.names, name.(string))
		o.values[name.(string)] = v
	}
	return nil
}

// last is the name at the end of a reference.
func last(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }

func (d *document) parameter(p *parameter) *parameter {
	if p.Ref != "" {
		return d.Components.Parameters[last(p.Ref)]
	}
	return p
}

func (d *document) response(r *response) *response {
	if r.Ref != "" {
		return d.Components.Responses[last(r.Ref)]
	}
	return r
}

func (d *document) schema(s *schema) *schema {
	for s != nil && s.Ref != "" {
		s = d.Components.Schemas.values[last(s.Ref)]
	}
	return s
}

// operations are all of a tag, in the order of the document.
func (d *document) operations(tag string) (all []*operation) {
	for _, path := range d.Paths.names {
		methods := d.Paths.values[path]
		for _, method := range methods.names {
			op := methods.values[method]
			if len(op.Tags) > 0 && op.Tags[0] == tag {
				op.method, op.path = strings.ToUpper(method), path
				all = append(all, op)
			}
		}
	}
	return all
}

// codes are the error codes that a response names.
func (r *response) codes() (all []string) {
	for _, name := range r.Content.names {
		s := r.Content.values[name].Schema
		if s == nil {
			continue
		}
		for _, part := range append([]*schema{s}, s.AllOf...) {
			code := part.Properties.values["code"]
			if code == nil {
				continue
			}
			if text, ok := code.Const.(string); ok {
				all = append(all, text)
			}
			for _, v := range code.Enum {
				if text, ok := v.(string); ok {
					all = append(all, text)
				}
			}
		}
	}
	return all
}
