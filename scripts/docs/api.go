package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"slices"
	"strings"
)

// reference is the page of the API, as its layout shows it.
type reference struct {
	Intro   string
	Tags    []tag
	Schemas []shape
}

type tag struct {
	ID, Name, Description string
	Operations            []shown
}

// shown is an operation.
type shown struct {
	ID, Method, Path, Summary, Description string
	Scope                                  string
	Key                                    string // whether it takes an Idempotency-Key
	Curl                                   sample
	Parameters, Body                       []field
	BodyMedia                              string
	BodyOptional                           bool
	Answers                                []outcome
	Errors                                 []outcome
}

// field is a parameter, or a member of an object.
type field struct {
	Name, In    string
	Type        template.HTML
	Required    bool
	Description string
}

// outcome is an answer.
type outcome struct {
	Status, Description string
	Type                template.HTML
	Codes               []code
}

type code struct{ Name, Address string }

// shape is a named object of the document.
type shape struct {
	ID, Name, Description string
	Type                  template.HTML
	Fields                []field
}

// readAPI makes the reference of the document.
func readAPI(source []byte, explained bool) (*page, error) {
	d := new(document)
	if err := json.Unmarshal(source, d); err != nil {
		return nil, err
	}
	p := &page{name: "api", title: "API reference", summary: "Every operation of the API: parameters, bodies, answers, errors, and a line to try it with.", anchors: map[string]bool{}}
	r := reference{Intro: d.Info.Description}
	w := &writer{document: d, page: p, explained: explained}
	missing := samplesByName()
	for _, t := range d.Tags {
		shown := tag{ID: strings.ToLower(t.Name), Name: t.Name, Description: t.Description}
		p.head(shown.ID, t.Name, 2, t.Description)
		for _, op := range d.operations(t.Name) {
			s, ok := missing[op.ID]
			if !ok {
				return nil, fmt.Errorf("%s has no line for curl: write one in scripts/docs/samples.go", op.ID)
			}
			delete(missing, op.ID)
			shown.Operations = append(shown.Operations, w.operation(op, s))
		}
		r.Tags = append(r.Tags, shown)
	}
	for name := range missing {
		return nil, fmt.Errorf("samples.go has a line for %s, which is no operation", name)
	}
	p.head("objects", "Objects", 2, "")
	for _, name := range d.Components.Schemas.names {
		r.Schemas = append(r.Schemas, w.shape(name, d.Components.Schemas.values[name]))
	}
	layout, err := layouts()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := layout.ExecuteTemplate(&b, "api.html", r); err != nil {
		return nil, err
	}
	p.body = template.HTML(b.String()) //nolint:gosec // the template escapes
	return p, errors.Join(w.faults...)
}

// head is a heading of the page.
func (p *page) head(id, words string, level int, body string) {
	p.anchors[id] = true
	p.headings = append(p.headings, heading{id, words, level})
	p.texts = append(p.texts, textPart{id, words, body})
}

// writer shows parts of a document.
type writer struct {
	document  *document
	page      *page
	explained bool // there is a page of errors
	faults    []error
}

func (w *writer) operation(op *operation, s sample) shown {
	w.page.head(op.ID, op.Summary, 3, op.method+" "+op.path+" "+op.Description)
	o := shown{ID: op.ID, Method: op.method, Path: op.path, Summary: op.Summary, Description: op.Description, Curl: s}
	for _, required := range op.Security {
		for _, scopes := range required {
			o.Scope = strings.Join(scopes, " ")
		}
	}
	for _, p := range op.Parameters {
		p = w.document.parameter(p)
		o.Parameters = append(o.Parameters, field{Name: p.Name, In: p.In, Type: w.kind(p.Schema), Required: p.Required, Description: w.told(p.Description, p.Schema)})
	}
	if op.RequestBody != nil {
		o.BodyMedia, o.BodyOptional = op.RequestBody.Content.names[0], !op.RequestBody.Required
		o.Body = w.fields(op.RequestBody.Content.values[o.BodyMedia].Schema)
	}
	for _, status := range op.Responses.names {
		answer := w.document.response(op.Responses.values[status])
		of := outcome{Status: status, Description: answer.Description, Codes: w.codes(answer)}
		if status >= "400" {
			o.Errors = append(o.Errors, of)
			continue
		}
		var kinds []string
		for _, media := range answer.Content.names {
			if media == "application/json" {
				kinds = append(kinds, string(w.kind(answer.Content.values[media].Schema)))
			} else {
				kinds = append(kinds, "<code>"+template.HTMLEscapeString(media)+"</code>")
			}
		}
		of.Type = template.HTML(strings.Join(kinds, " or ")) //nolint:gosec // escaped above
		o.Answers = append(o.Answers, of)
	}
	if !slices.ContainsFunc(append(o.Answers, o.Errors...), func(a outcome) bool { return a.Status == fmt.Sprint(s.Status) }) {
		w.faults = append(w.faults, fmt.Errorf("the line of %s answers %d, which is not documented", op.ID, s.Status))
	}
	return o
}

// codes lead to their explanation.
func (w *writer) codes(r *response) (all []code) {
	for _, name := range r.codes() {
		to := link{"errors", name, "/docs/errors#" + name}
		if !w.explained {
			to = link{"interface", "7-errors", "/docs/interface#7-errors"}
		}
		w.page.links = append(w.page.links, to)
		all = append(all, code{name, to.written})
	}
	return all
}

func (w *writer) shape(name string, s *schema) shape {
	id := "schema-" + name
	w.page.anchors[id] = true
	w.page.texts = append(w.page.texts, textPart{id, name, s.Description})
	f := w.fields(s)
	kind := template.HTML("object")
	if len(f) == 0 {
		kind = w.kind(s)
	}
	return shape{id, name, s.Description, kind, f}
}

// fields are the members of an object and, by their full names, of objects in it that
// have no name.
func (w *writer) fields(s *schema) (all []field) {
	s = w.document.schema(s)
	for _, part := range s.AllOf {
		all = append(all, w.fields(part)...)
	}
	for _, name := range s.Properties.names {
		member := s.Properties.values[name]
		all = append(all, field{Name: name, Type: w.kind(member), Required: slices.Contains(s.Required, name), Description: w.told(member.Description, member)})
		inner := member
		for prefix := name + "."; ; {
			if inner.Items != nil {
				prefix, inner = strings.TrimSuffix(prefix, ".")+"[].", inner.Items
				continue
			}
			if inner.Ref == "" {
				for _, f := range w.fields(inner) {
					f.Name = prefix + f.Name
					all = append(all, f)
				}
			}
			break
		}
	}
	return all
}

// told is a description with what the schema says besides.
func (w *writer) told(description string, s *schema) string {
	if description == "" && s != nil && s.Ref != "" {
		description = w.document.schema(s).Description
	}
	var more []string
	if s != nil && s.MaxLength != nil {
		more = append(more, fmt.Sprintf("At most %d characters.", *s.MaxLength))
	}
	if s != nil && s.MaxItems != nil {
		more = append(more, fmt.Sprintf("At most %d.", *s.MaxItems))
	}
	if s != nil && s.Default != nil {
		more = append(more, fmt.Sprintf("Default: `%v`.", s.Default))
	}
	return strings.TrimSpace(description + " " + strings.Join(more, " "))
}

// kind says what a value is, with links to the objects that have a name.
func (w *writer) kind(s *schema) template.HTML {
	esc := template.HTMLEscapeString
	if s == nil {
		return "any"
	}
	var kinds []string
	add := func(text string) {
		if text != "" && !slices.Contains(kinds, text) {
			kinds = append(kinds, text)
		}
	}
	switch {
	case s.Ref != "":
		name := last(s.Ref)
		add(`<a href="#schema-` + esc(name) + `">` + esc(name) + `</a>`)
	case s.Const != nil:
		add("<code>" + esc(fmt.Sprint(s.Const)) + "</code>")
	case len(s.Enum) > 0:
		for _, v := range s.Enum {
			if v == nil {
				v = "null"
			}
			add("<code>" + esc(fmt.Sprint(v)) + "</code>")
		}
	case s.Items != nil:
		add("list of " + string(w.kind(s.Items)))
		for _, t := range s.Type {
			if t != "array" {
				add(esc(t))
			}
		}
	case len(s.AnyOf)+len(s.OneOf) > 0:
		for _, one := range append(s.AnyOf, s.OneOf...) {
			add(string(w.kind(one)))
		}
	case len(s.Type) > 0:
		for _, t := range s.Type {
			add(esc(t))
		}
	default:
		add("object")
	}
	return template.HTML(strings.Join(kinds, " or ")) //nolint:gosec // escaped above
}

// inline shows `code` in a sentence.
func inline(text string) template.HTML {
	parts := strings.Split(text, "`")
	for i := range parts {
		parts[i] = template.HTMLEscapeString(parts[i])
		if i%2 == 1 && i < len(parts)-1 {
			parts[i] = "<code>" + parts[i] + "</code>"
		}
	}
	return template.HTML(strings.Join(parts, "")) //nolint:gosec // escaped above
}
