package conform

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Exchange is one request and its answer.
type Exchange struct {
	Request     *http.Request // its body is not read
	RequestBody []byte
	Status      int
	Header      http.Header // of the answer
	Body        []byte      // of the answer
}

// Check compares an exchange with the document. Of an answer it checks the
// status, the headers, the media type, and the body under the closed schema;
// of a request that succeeded, that the document allows it. A request that is
// no operation must be answered with 404, 405 or a refusal of its size.
func (d *Document) Check(x Exchange) error {
	check := d.stray
	if o := d.operation(x.Request); o != nil {
		check = o.check
	}
	if err := check(x); err != nil {
		return fmt.Errorf("%s %s: %d: %w", x.Request.Method, x.Request.URL.Path, x.Status, err)
	}
	return nil
}

// stray checks the answer to a request that is no operation.
func (d *Document) stray(x Exchange) error {
	code := map[int]string{
		http.StatusNotFound: "not_found", http.StatusMethodNotAllowed: "method_not_allowed", http.StatusNotAcceptable: "not_acceptable",
		http.StatusRequestURITooLong: "uri_too_long", http.StatusRequestHeaderFieldsTooLarge: "headers_too_large",
	}[x.Status]
	if code == "" {
		return fmt.Errorf("no such operation is documented")
	}
	if x.Status == http.StatusMethodNotAllowed && x.Header.Get("Allow") == "" {
		return fmt.Errorf("the header Allow is missing")
	}
	if x.Request.Method == http.MethodHead {
		return nil
	}
	want := d.problem
	if strings.HasPrefix(x.Request.URL.Path, "/oauth2/") {
		want = d.oauth
	}
	body, err := decode(x.Body, x.Header.Get("Content-Type"), want)
	if err != nil {
		return err
	}
	if have := body.(map[string]any)["code"]; have != code {
		return fmt.Errorf("the code is %v instead of %s", have, code)
	}
	return agrees(x.Header, body)
}

// agrees checks what no schema can say: that the parts of an error fit
// together.
func agrees(header http.Header, body any) error {
	object, _ := body.(map[string]any)
	code, _ := object["code"].(string)
	if kind, ok := object["type"]; ok && code != "" && kind != "urn:tollgate:error:"+code {
		return fmt.Errorf("the type of the problem is %v, its code %s", kind, code)
	}
	if id, ok := object["request_id"]; ok && code != "" && id != header.Get("Request-Id") && header.Get("Idempotent-Replayed") == "" {
		return fmt.Errorf("the request is %v in the body and %q in the header", id, header.Get("Request-Id"))
	}
	if code == "store_unavailable" && header.Get("Retry-After") == "" {
		return fmt.Errorf("the header Retry-After is missing")
	}
	return nil
}

func (o *Operation) check(x Exchange) error {
	r, ok := o.responses[x.Status]
	if !ok {
		return fmt.Errorf("the status is not documented for %s", o.ID)
	}
	for _, h := range r.headers {
		if err := h.check(x.Header.Values(h.name)); err != nil {
			return err
		}
	}
	for name := range x.Header {
		if strings.HasPrefix(name, "Tollgate-") && !slices.ContainsFunc(r.headers, func(h parameter) bool { return strings.EqualFold(h.name, name) }) {
			return fmt.Errorf("the header %s is not documented", name)
		}
	}
	head := x.Request.Method == http.MethodHead
	if (r.content == nil || head) && len(x.Body) > 0 {
		return fmt.Errorf("there is a body where none is documented")
	}
	if r.content != nil && head {
		if err := r.content.has(x.Header.Get("Content-Type")); err != nil {
			return err
		}
	}
	if r.content != nil && !head {
		body, err := decode(x.Body, x.Header.Get("Content-Type"), r.content)
		if err != nil {
			return err
		}
		if err := agrees(x.Header, body); err != nil {
			return err
		}
	}
	if x.Status < 300 {
		if err := o.allows(x.Request, x.RequestBody); err != nil {
			return fmt.Errorf("a request that the document refuses succeeded: %w", err)
		}
	}
	return nil
}

// allows reports why a request is not one of the operation.
func (o *Operation) allows(r *http.Request, body []byte) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	for name := range query {
		if !slices.ContainsFunc(o.parameters, func(p parameter) bool { return p.in == "query" && p.name == name }) {
			return fmt.Errorf("the query parameter %s is not documented", name)
		}
	}
	values, _ := o.match(r.URL.Path)
	for _, p := range o.parameters {
		have := query[p.name]
		switch p.in {
		case "path":
			have = []string{values[p.name]}
		case "header":
			have = r.Header.Values(p.name)
		}
		if err := p.check(have); err != nil {
			return err
		}
	}
	if len(body) == 0 && !o.bodyNeeded || o.request == nil {
		return nil
	}
	_, err = decode(body, r.Header.Get("Content-Type"), o.request)
	return err
}

// check validates what a parameter or header has been given.
func (p parameter) check(have []string) error {
	switch {
	case len(have) == 0 && p.needed:
		return fmt.Errorf("the %s %s is missing", p.in, p.name)
	case len(have) == 0:
		return nil
	case len(have) > 1:
		return fmt.Errorf("the %s %s is there %d times", p.in, p.name, len(have))
	}
	var value any = have[0]
	switch p.kind {
	case "integer":
		n, err := strconv.ParseInt(have[0], 10, 64)
		if err != nil {
			return fmt.Errorf("the %s %s: %w", p.in, p.name, err)
		}
		value = n
	case "array":
		var list []any
		for part := range strings.SplitSeq(have[0], ",") {
			list = append(list, part)
		}
		value = list
	}
	if err := p.schema.Validate(value); err != nil {
		return fmt.Errorf("the %s %s: %w", p.in, p.name, err)
	}
	return nil
}

// has reports a media type that is not documented.
func (c content) has(contentType string) error {
	media, _, err := mime.ParseMediaType(contentType)
	if _, ok := c[media]; err != nil || !ok {
		return fmt.Errorf("the media type %q is not documented", contentType)
	}
	return nil
}

// decode reads a body of one of the documented media types and validates it.
func decode(body []byte, contentType string, want content) (any, error) {
	if err := want.has(contentType); err != nil {
		return nil, err
	}
	media, _, err := mime.ParseMediaType(contentType)
	schema := want[media]
	if schema == nil { // bytes
		return nil, nil
	}
	var value any
	switch media {
	case "application/x-www-form-urlencoded":
		value, err = form(body)
	case "text/csv", "application/x-ndjson", "multipart/byteranges": // a file
		value = string(body)
	default:
		if !jsontext.Value(body).IsValid() { // names that stand twice included
			return nil, fmt.Errorf("the body is not JSON: %.200s", body)
		}
		value, err = jsonschema.UnmarshalJSON(bytes.NewReader(body))
	}
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		return nil, fmt.Errorf("the body: %w", err)
	}
	return value, nil
}

func form(body []byte) (any, error) {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	object := make(map[string]any, len(values))
	for name, list := range values {
		if len(list) > 1 {
			return nil, fmt.Errorf("%s is there %d times", name, len(list))
		}
		object[name] = list[0]
	}
	return object, nil
}
