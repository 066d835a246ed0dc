package conform_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tollgate/handlers/conform"
)

// object and its helpers read the document once more and without the package
// under test, so that the examples become exchanges independently of it.
type object = map[string]any

func resolve(root, v object) object {
	for {
		at, ok := v["$ref"].(string)
		if !ok {
			return v
		}
		v = root
		for token := range strings.SplitSeq(strings.TrimPrefix(at, "#/"), "/") {
			v = v[token].(object)
		}
	}
}

func sorted(v any) []string {
	m, _ := v.(object)
	return slices.Sorted(maps.Keys(m))
}

// example is an exchange made of the document's examples.
type example struct {
	name string
	body any // of the answer, decoded
	conform.Exchange
}

// with is the exchange with another body in the answer.
func (e example) with(t *testing.T, body any) conform.Exchange {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	x := e.Exchange
	x.Body = text
	return x
}

// examples builds one exchange for every answer of every operation.
func examples(t *testing.T) []example {
	t.Helper()
	var root object
	if err := json.Unmarshal(text(t), &root); err != nil {
		t.Fatal(err)
	}
	var all []example
	paths := root["paths"].(object)
	for _, pattern := range sorted(paths) {
		for _, method := range sorted(paths[pattern]) {
			operation := paths[pattern].(object)[method].(object)
			responses := operation["responses"].(object)
			for _, status := range sorted(responses) {
				e := example{name: fmt.Sprint(operation["operationId"], " ", status)}
				e.Request, e.RequestBody = request(root, pattern, method, operation)
				e.Status, _ = strconv.Atoi(status)
				response := resolve(root, responses[status].(object))
				e.Header = headers(root, response)
				content, _ := response["content"].(object)
				for media, body := range content {
					e.Header.Set("Content-Type", media)
					if _, ok := body.(object)["schema"]; !ok { // bytes
						e.Body = []byte("\x00asm\x01\x00\x00\x00")
						continue
					}
					if e.body = body.(object)["example"]; e.body == nil {
						e.body = root // only /openapi.json has none: it would hold itself
					}
					e.Body = e.with(t, e.body).Body
				}
				all = append(all, e)
			}
		}
	}
	return all
}

func request(root object, pattern, method string, operation object) (*http.Request, []byte) {
	header := make(http.Header)
	list, _ := operation["parameters"].([]any)
	for _, p := range list {
		p := resolve(root, p.(object))
		name, value := p["name"].(string), fmt.Sprint(p["example"])
		switch {
		case p["in"] == "path":
			pattern = strings.ReplaceAll(pattern, "{"+name+"}", value)
		case p["in"] == "header" && p["required"] == true:
			header.Set(name, value)
		}
	}
	var body []byte
	if v, ok := operation["requestBody"].(object); ok {
		for media, content := range v["content"].(object) {
			header.Set("Content-Type", media)
			sample := content.(object)["example"]
			if named, ok := content.(object)["examples"].(object); ok {
				sample = named[sorted(named)[0]].(object)["value"]
			}
			if body, _ = json.Marshal(sample); media != "application/json" {
				form := make(url.Values)
				for name, v := range sample.(object) {
					form.Set(name, v.(string))
				}
				body = []byte(form.Encode())
			}
		}
	}
	r := httptest.NewRequest(strings.ToUpper(method), pattern, nil)
	r.Header = header
	return r, body
}

func headers(root, response object) http.Header {
	header := make(http.Header)
	named := response["headers"].(object)
	for name := range named {
		if h := resolve(root, named[name].(object)); h["required"] == true {
			header.Set(name, fmt.Sprint(h["example"]))
		}
	}
	return header
}
