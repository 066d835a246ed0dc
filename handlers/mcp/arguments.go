package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
)

// maxReference is that of payments (interface §4).
const maxReference = 64

// arguments are those of a call, by name; null is the same as left out.
type arguments map[string]jsontext.Value

// names are the members of an object, in their order.
func names(object jsontext.Value) (list []string, err error) {
	d := jsontext.NewDecoder(strings.NewReader(string(object)))
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		list = append(list, name.String())
		if err := d.SkipValue(); err != nil {
			return nil, err
		}
	}
	if _, err := d.ReadToken(); err != nil && err != io.EOF {
		return nil, err
	}
	return list, nil
}

// read takes the arguments of a call, or says what is wrong with them. What a value
// must be the API says; here is what it would not see, or not say to an agent.
func (t *tool) read(text []byte) (arguments, string) {
	a := arguments{}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &a); err != nil || a == nil {
			return nil, "invalid_json: The arguments of " + t.name + " are not a JSON object in which each name stands once. Send one."
		}
	}
	for name, value := range a {
		if value.Kind() == 'n' {
			delete(a, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if !slices.Contains(t.known, name) {
			return nil, fmt.Sprintf("parameter_unknown: %s has no argument %s. Leave it out. Its arguments are %s.", t.name, quoted(name), strings.Join(t.known, ", "))
		}
	}
	for _, name := range t.required {
		if _, ok := a[name]; !ok {
			return nil, fmt.Sprintf("parameter_missing: %s needs %s. Call it again with %s.", t.name, name, strings.Join(t.required, ", "))
		}
	}
	if amount := a["amount"]; amount.Kind() == '0' {
		return nil, fmt.Sprintf(`parameter_invalid: amount is the JSON number %s. Amounts are text, so that no digit is lost. Write "10.00", with quotation marks.`, cut(string(amount)))
	}
	for _, name := range []string{"payment_id", "ticket_id"} {
		if value, ok := a[name]; ok && strings.Contains(t.path, "{"+name+"}") && !tollgate.ValidID(jsonText(value)) {
			return nil, fmt.Sprintf("parameter_invalid: %s is no identifier. Copy it from the answer that named it, such as pay_01….", name)
		}
	}
	if _, ok := a["reference"]; ok && t.key != nil {
		reference := jsonText(a["reference"])
		if reference == "" || tollgate.CheckText("reference", reference, maxReference) != nil {
			return nil, fmt.Sprintf("parameter_invalid: reference is not text of 1 to %d characters. Take your own name for what you do, such as an order number.", maxReference)
		}
	}
	return a, ""
}

// jsonText is a JSON string's text, "" for anything else.
func jsonText(value jsontext.Value) (text string) {
	if value.Kind() == '"' {
		_ = json.Unmarshal(value, &text)
	}
	return text
}

// text is an argument that is a string.
func (a arguments) text(name string) string { return jsonText(a[name]) }

// idempotencyKey is the same for the same client, tool and arguments that name what is
// to be done once. They are hashed as a JSON array, so that no two lists of them make
// the same text.
func (t *tool) idempotencyKey(client string, a arguments) string {
	if t.key == nil {
		return ""
	}
	of := []string{"tollgate mcp 1", client, t.name}
	for _, name := range t.key {
		of = append(of, a.text(name))
	}
	list, err := json.Marshal(of)
	if err != nil { // they were read as JSON
		panic(err)
	}
	sum := sha256.Sum256(list)
	return hex.EncodeToString(sum[:])
}

// address is the path of a call. It takes the path's parameters out of the arguments
// that are left to send.
func (t *tool) address(rest arguments) string {
	path := t.path
	for name := range rest {
		if strings.Contains(path, "{"+name+"}") {
			id := rest.text(name)
			if payment, ok := strings.CutPrefix(id, tollgate.PrefixPayment); ok && name == "ticket_id" {
				id = tollgate.PrefixTicket + payment // one ends as the other does
			}
			path = strings.Replace(path, "{"+name+"}", url.PathEscape(id), 1)
			delete(rest, name)
		}
	}
	return path
}

// query is arguments as query parameters; a list's elements have commas between them.
func (t *tool) query(rest arguments) (url.Values, string) {
	q := url.Values{}
	for name, value := range rest {
		switch value.Kind() {
		case '"':
			q.Set(name, jsonText(value))
		case '0', 't', 'f':
			q.Set(name, string(value))
		case '[':
			var list []string
			if err := json.Unmarshal(value, &list); err != nil {
				return nil, fmt.Sprintf("parameter_invalid: %s is not a list of text. Write it as its schema says.", name)
			}
			q.Set(name, strings.Join(list, ","))
		default:
			return nil, fmt.Sprintf("parameter_invalid: %s is an object. Write it as its schema says.", name)
		}
	}
	return q, ""
}

// quoted prints hostile text: escaped and cut.
func quoted(s string) string { return fmt.Sprintf("%q", cut(s)) }

func cut(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "…"
	}
	return s
}
