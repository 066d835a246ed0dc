package handlers_test

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
)

// TestOpenAPIHasTheEvents holds the document to the table of event types: Event
// is one of them, with the data that the table says, and those that are delivered
// stand among the webhooks. Operations are described, and no property of a request
// has a default: generators take it for one that is always there.
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
					Const any    `json:"const"`
					Ref   string `json:"$ref"`
					AllOf []struct {
						Ref string `json:"$ref"`
					} `json:"allOf"`
				} `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	event := doc.Components.Schemas["Event"]
	for _, row := range tollgate.EventKinds {
		kind := row.Type
		ref, ok := event.Discriminator.Mapping[string(kind)]
		listed := false
		for _, one := range event.OneOf {
			listed = listed || one.Ref == ref
		}
		if !ok || !listed {
			t.Errorf("%s is no event of the document", kind)
			continue
		}
		properties := doc.Components.Schemas[ref[len("#/components/schemas/"):]].Properties
		if got := properties["type"].Const; got != string(kind) {
			t.Errorf("%s is of type %v", ref, got)
		}
		data := properties["data"].Ref
		if all := properties["data"].AllOf; len(all) > 0 {
			data = all[0].Ref
		}
		have := slices.Sorted(maps.Keys(doc.Components.Schemas[strings.TrimPrefix(data, "#/components/schemas/")].Properties))
		always, maybe := membersOf(reflect.TypeOf(row.Data))
		if want := slices.Sorted(slices.Values(append(always, maybe...))); !slices.Equal(have, want) {
			t.Errorf("%s has the data %v, the table %v", kind, have, want)
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

// TestEventsAreDocumented holds the pages to the table of event types: each type
// is there, with the members of its data, and said to be delivered or not.
func TestEventsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("docs/interface.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(text), "### Event types")
	page, _, _ = strings.Cut(page, "\n#")
	code := regexp.MustCompile("`([^`]+)`")
	members := func(cell string) (names []string) {
		for _, m := range code.FindAllStringSubmatch(cell, -1) {
			for name := range strings.SplitSeq(strings.Trim(m[1], ", "), ", ") {
				if !strings.Contains(name, ".") { // that is a type
					names = append(names, strings.TrimSuffix(name, "[]"))
				}
			}
		}
		return names
	}
	type documented struct {
		data   string
		listed bool
	}
	found, groups := map[string]documented{}, map[string][]string{}
	for line := range strings.Lines(page) {
		cells := strings.Split(line, "|")
		switch {
		case len(cells) == 4: // a group of members
			groups[strings.TrimSpace(cells[1])] = members(cells[2])
		case len(cells) == 5:
			family := ""
			for _, m := range code.FindAllStringSubmatch(cells[1], -1) {
				if strings.HasPrefix(m[1], ".") {
					m[1] = family + m[1]
				}
				family, _, _ = strings.Cut(m[1], ".")
				found[m[1]] = documented{strings.TrimSpace(cells[3]), strings.Contains(cells[2], "never delivered")}
			}
		}
	}
	delete(found, "type") // the head
	for _, row := range tollgate.EventKinds {
		d, ok := found[string(row.Type)]
		if !ok {
			t.Errorf("%s is not documented", row.Type)
			continue
		}
		delete(found, string(row.Type))
		if d.listed == row.Delivered {
			t.Errorf("%s is delivered: %t, and documented as delivered: %t", row.Type, row.Delivered, !d.listed)
		}
		have := members(d.data)
		for name, group := range groups {
			if strings.HasPrefix(d.data, name) {
				have = append(have, group...)
			}
		}
		always, maybe := membersOf(reflect.TypeOf(row.Data))
		for _, name := range always {
			if !slices.Contains(have, name) {
				t.Errorf("%s has %s, which is not documented", row.Type, name)
			}
		}
		for _, name := range have {
			if !slices.Contains(append(always, maybe...), name) {
				t.Errorf("%s does not have %s, which is documented", row.Type, name)
			}
		}
	}
	for kind := range found {
		t.Errorf("%s is documented, and no event type", kind)
	}
}

// membersOf are the members that the JSON of a struct always has, and those that
// it has only with a value.
func membersOf(s reflect.Type) (always, maybe []string) {
	for f := range s.Fields() {
		if f.Anonymous {
			inner, outer := membersOf(f.Type)
			always, maybe = append(always, inner...), append(maybe, outer...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if options == "" {
			always = append(always, name)
		} else {
			maybe = append(maybe, name)
		}
	}
	return always, maybe
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
