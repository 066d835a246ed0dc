package conform

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// parameter is one parameter of a path, a query or the headers.
type parameter struct {
	name, in string
	needed   bool
	kind     string // "string", "integer", "boolean" or "array"; comma-separated if an array
	schema   *jsonschema.Schema
}

// response is what may be answered with one status.
type response struct {
	headers []parameter
	content content // nil for no body
}

// operation reads one operation of a path.
func (s *source) operation(item node, method string) (*Operation, error) {
	n, err := s.child(item, method)
	if err != nil {
		return nil, err
	}
	o := &Operation{responses: make(map[int]response)}
	if o.ID, _ = n.value["operationId"].(string); o.ID == "" || s.ids[o.ID] {
		return nil, fmt.Errorf("the operationId %q is missing or not unique", o.ID)
	}
	s.ids[o.ID] = true
	if o.Scopes, err = s.scopes(n); err != nil {
		return nil, err
	}
	list, _ := n.value["parameters"].([]any)
	for i := range list {
		at, err := s.child(n, "parameters", strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		p, err := s.parameter(at)
		if err != nil {
			return nil, err
		}
		p.name, _ = at.value["name"].(string)
		p.in, _ = at.value["in"].(string)
		o.parameters = append(o.parameters, p)
	}
	if _, ok := n.value["requestBody"]; ok {
		body, err := s.child(n, "requestBody")
		if err != nil {
			return nil, err
		}
		o.bodyNeeded, _ = body.value["required"].(bool)
		if o.request, err = s.content(body); err != nil {
			return nil, fmt.Errorf("request: %w", err)
		}
	}
	return o, s.each(n, "responses", func(status string, at node) error {
		code, err := strconv.Atoi(status)
		if err != nil {
			return fmt.Errorf("the status %q is not a number", status)
		}
		o.responses[code], err = s.response(at)
		return err
	})
}

// scopes is what every alternative of an operation's security asks for; all
// ask for the same, and the scheme declares it.
func (s *source) scopes(n node) ([]string, error) {
	declared, err := s.node("/components/securitySchemes/oauth2/flows/clientCredentials/scopes")
	if err != nil {
		return nil, err
	}
	list, ok := n.value["security"].([]any)
	if !ok {
		return nil, fmt.Errorf("security is not stated")
	}
	var scopes []string
	for i, alternative := range list {
		for scheme, v := range alternative.(map[string]any) {
			var these []string
			for _, scope := range v.([]any) {
				if _, ok := declared.value[scope.(string)]; !ok {
					return nil, fmt.Errorf("the scope %s is not declared", scope)
				}
				these = append(these, scope.(string))
			}
			if i > 0 && !slices.Equal(these, scopes) {
				return nil, fmt.Errorf("%s asks for other scopes than the other schemes", scheme)
			}
			scopes = these
		}
	}
	return scopes, nil
}

// parameter reads what parameters and headers have in common.
func (s *source) parameter(n node) (parameter, error) {
	schema, err := s.schema(n)
	if err != nil {
		return parameter{}, fmt.Errorf("%v: %w", n.value["name"], err)
	}
	shape, err := s.child(n, "schema")
	if err != nil {
		return parameter{}, err
	}
	p := parameter{kind: "string", schema: schema}
	if kind, ok := shape.value["type"].(string); ok {
		p.kind = kind
	}
	p.needed, _ = n.value["required"].(bool)
	return p, nil
}

// response reads one answer of an operation.
func (s *source) response(n node) (r response, err error) {
	if r.content, err = s.content(n); err != nil {
		return r, err
	}
	err = s.each(n, "headers", func(name string, at node) error {
		p, err := s.parameter(at)
		p.name, p.in = name, "header"
		r.headers = append(r.headers, p)
		return err
	})
	return r, err
}
