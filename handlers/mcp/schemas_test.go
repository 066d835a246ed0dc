package mcp_test

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var update = flag.Bool("update", false, "write schemas.json anew from the OpenAPI document")

type object = map[string]any

// openAPI is the document, from which the schemas of the tools are made.
type openAPI struct {
	t   *testing.T
	doc object
}

func (d openAPI) at(path ...string) object {
	d.t.Helper()
	here := d.doc
	for _, name := range path {
		next, ok := here[name].(object)
		if !ok {
			d.t.Fatalf("openapi.json has no %v", path)
		}
		here = next
	}
	return here
}

func (d openAPI) schema(name string) object { return d.at("components", "schemas", name) }

// inlined is a schema with what it refers to in the place of the references: models
// read inputs, and some of their hosts follow no reference.
func (d openAPI) inlined(of any) any {
	switch of := of.(type) {
	case object:
		if ref, ok := of["$ref"].(string); ok {
			whole := maps.Clone(d.inlined(d.schema(ref[strings.LastIndex(ref, "/")+1:])).(object))
			for name, value := range of {
				if name != "$ref" {
					whole[name] = d.inlined(value)
				}
			}
			return whole
		}
		copied := object{}
		for name, value := range of {
			copied[name] = d.inlined(value)
		}
		return copied
	case []any:
		var list []any
		for _, value := range of {
			list = append(list, d.inlined(value))
		}
		return list
	}
	return of
}

// bundled is a schema with what it refers to below $defs. An event is described by
// what all events have: the thirty kinds are longer than everything else together.
func (d openAPI) bundled(name string) object {
	defs := object{}
	var visit func(of any) any
	visit = func(of any) any {
		switch of := of.(type) {
		case object:
			copied := object{}
			for key, value := range of {
				switch ref, ok := value.(string); {
				case key == "discriminator":
				case ok && key == "$ref":
					name := ref[strings.LastIndex(ref, "/")+1:]
					copied[key] = "#/$defs/" + name
					if _, seen := defs[name]; !seen {
						defs[name] = nil
						defs[name] = visit(d.definition(name))
					}
				default:
					copied[key] = visit(value)
				}
			}
			return copied
		case []any:
			var list []any
			for _, value := range of {
				list = append(list, visit(value))
			}
			return list
		}
		return of
	}
	whole := visit(d.schema(name)).(object)
	whole["$defs"] = defs
	return whole
}

func (d openAPI) definition(name string) object {
	if name != "Event" {
		return d.schema(name)
	}
	event := maps.Clone(d.schema("PaymentAuthorizedEvent"))
	properties := maps.Clone(event["properties"].(object))
	properties["type"] = object{"type": "string", "description": "What happened, such as payment.captured."}
	properties["data"] = object{"type": "object", "description": "What it happened to; its members depend on type."}
	event["properties"], event["description"] = properties, d.schema("Event")["description"]
	return event
}

// body is an input that is a body, with arguments beside it.
func (d openAPI) body(name string, beside object) object {
	input := d.inlined(d.schema(name)).(object)
	properties := input["properties"].(object)
	maps.Copy(properties, beside)
	required, _ := input["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(beside)) {
		if name != "wait" {
			required = append(required, name)
		}
	}
	input["required"] = required
	delete(input, "description")
	return input
}

// query is an input that is the parameters of an operation.
func (d openAPI) query(path string) object {
	properties := object{}
	for _, p := range d.at("paths", path, "get")["parameters"].([]any) {
		p := p.(object)
		if ref, ok := p["$ref"].(string); ok {
			p = d.at("components", "parameters", ref[strings.LastIndex(ref, "/")+1:])
		}
		if p["in"] != "query" {
			continue
		}
		schema := maps.Clone(d.inlined(p["schema"]).(object))
		if text, ok := p["description"]; ok {
			schema["description"] = text
		}
		properties[p["name"].(string)] = schema
	}
	return object{"type": "object", "properties": properties, "additionalProperties": false}
}

func (d openAPI) id(description string) object {
	id := maps.Clone(d.schema("Id"))
	id["description"] = description
	return id
}

func (d openAPI) schemas() object {
	payment := d.id("The payment's id.")
	reference := object{
		"type": "string", "minLength": 1, "maxLength": d.schema("PaymentRequest")["properties"].(object)["reference"].(object)["maxLength"],
		"description": "Your own name for what is to be done, such as an order number. The same one is carried out once.",
	}
	change := object{"payment_id": payment, "reference": reference}
	one := func(name string, id object) object {
		return object{"type": "object", "required": []any{name}, "properties": object{name: id}, "additionalProperties": false}
	}
	events := d.query("/v1/events")
	wait := events["properties"].(object)["wait"].(object)
	wait["maximum"], wait["description"] = 8, "Seconds to wait for an event when there is none yet."
	tool := func(input object, output string) object { return object{"input": input, "output": d.bundled(output)} }
	return object{
		"quote_ticket":        tool(d.body("QuoteInput", nil), "Quote"),
		"create_payment":      tool(d.body("PaymentRequest", object{"reference": reference}), "Payment"),
		"capture":             tool(d.body("CaptureRequest", change), "Capture"),
		"cancel":              tool(d.body("CancelRequest", change), "Payment"),
		"refund":              tool(d.body("RefundRequest", change), "Refund"),
		"get_payment":         tool(one("payment_id", payment), "Payment"),
		"explain_ticket":      tool(one("ticket_id", d.id("The ticket's id, or its payment's.")), "Ticket"),
		"search_transactions": tool(d.query("/v1/transactions"), "TransactionList"),
		"list_events":         tool(events, "EventList"),
	}
}

// What agents are told of inputs and outputs is what the OpenAPI document says.
func TestSchemasAreThoseOfTheAPI(t *testing.T) {
	text, err := os.ReadFile("../openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	d := openAPI{t: t}
	if err := json.Unmarshal(text, &d.doc); err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(d.schemas(), json.Deterministic(true), jsontext.WithIndent(" "))
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile("schemas.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("schemas.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("schemas.json is not what the OpenAPI document says: go test ./handlers/mcp -run TestSchemasAreThoseOfTheAPI -update")
	}
}
