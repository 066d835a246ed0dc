package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate/cmd/sandbox"
)

// The collection's own scripts: the first gets a token before a request, the other
// keeps the ids of an answer for the next ones.
var (
	//go:embed before.js
	before string
	//go:embed after.js
	after string
)

// Types of the format 2.1 (schema.getpostman.com).
type (
	postman struct {
		Info struct {
			Name        string `json:"name"`
			Description string `json:"description"`
			Schema      string `json:"schema"`
		} `json:"info"`
		Auth     auth      `json:"auth"`
		Event    []event   `json:"event"`
		Variable []keyed   `json:"variable"`
		Item     []*folder `json:"item"`
	}
	auth struct {
		Type   string  `json:"type"`
		Bearer []keyed `json:"bearer,omitempty"`
	}
	event struct {
		Listen string `json:"listen"`
		Script struct {
			Type string   `json:"type"`
			Exec []string `json:"exec"`
		} `json:"script"`
	}
	folder struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Item        []item `json:"item"`
	}
	item struct {
		Name    string  `json:"name"`
		Request request `json:"request"`
	}
	request struct {
		Method      string  `json:"method"`
		Description string  `json:"description,omitempty"`
		Auth        *auth   `json:"auth,omitempty"`
		Header      []keyed `json:"header"`
		URL         url     `json:"url"`
		Body        *body   `json:"body,omitempty"`
	}
	url struct {
		Raw      string   `json:"raw"`
		Host     []string `json:"host"`
		Path     []string `json:"path"`
		Query    []keyed  `json:"query,omitempty"`
		Variable []keyed  `json:"variable,omitempty"`
	}
	body struct {
		Mode       string   `json:"mode"`
		URLEncoded []keyed  `json:"urlencoded,omitempty"`
		Raw        string   `json:"raw,omitempty"`
		Options    *options `json:"options,omitempty"`
	}
	options struct {
		Raw struct {
			Language string `json:"language"`
		} `json:"raw"`
	}
	keyed struct {
		Key         string `json:"key"`
		Value       string `json:"value"`
		Type        string `json:"type,omitempty"`
		Description string `json:"description,omitempty"`
		Disabled    bool   `json:"disabled,omitzero"`
	}
)

// inSandbox are the ids that every sandbox has.
var inSandbox = map[string]string{
	"organization_id": sandbox.Organization, "legal_entity_id": sandbox.LegalEntity, "merchant_account_id": sandbox.AccountEUR,
	"grant_id": sandbox.Grant, "rule_set_id": sandbox.RuleSet, "webhook_id": sandbox.Webhook,
}

// collection is an OpenAPI document as a collection.
func collection(text []byte) ([]byte, error) {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("the OpenAPI document: %w", err)
	}
	var c postman
	c.Info.Name, c.Info.Schema = d.Info.Title, "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
	c.Info.Description = d.Info.Description + "\n\nIn the sandbox of `tollgate dev` the collection gets its own tokens. Elsewhere, set the variables `base_url` and `token`. The ids in answers become the variables of the next requests."
	c.Auth = auth{Type: "bearer", Bearer: []keyed{{Key: "token", Value: "{{token}}", Type: "string"}}}
	c.Event = []event{script("prerequest", before), script("test", after)}
	c.Variable = []keyed{{Key: "base_url", Value: "http://127.0.0.1:8080"}, {Key: "token", Value: ""}}
	for _, tag := range d.Tags {
		c.Item = append(c.Item, &folder{Name: tag.Name, Description: tag.Description})
	}
	for _, path := range d.Paths {
		for _, o := range path.value {
			if err := c.add(&d, path.name, strings.ToUpper(o.name), &o.value); err != nil {
				return nil, fmt.Errorf("%s %s: %w", o.name, path.name, err)
			}
		}
	}
	for _, f := range c.Item { // what deletes comes last, so that all of a folder runs
		slices.SortStableFunc(f.Item, func(a, b item) int { return deletes(a) - deletes(b) })
	}
	for i := range c.Item {
		for j := range c.Item[i].Item {
			c.name(c.Item[i].Item[j].Request.Body)
		}
	}
	return json.Marshal(&c, jsontext.WithIndent("  "))
}

func script(listen, code string) (e event) {
	e.Listen, e.Script.Type, e.Script.Exec = listen, "text/javascript", strings.Split(strings.TrimSpace(code), "\n")
	return e
}

func deletes(i item) int {
	if i.Request.Method == "DELETE" {
		return 1
	}
	return 0
}

// add puts an operation into the folder of its tag.
func (c *postman) add(d *document, path, method string, o *operation) error {
	at := slices.IndexFunc(c.Item, func(f *folder) bool { return slices.Contains(o.Tags, f.Name) })
	if at < 0 {
		return fmt.Errorf("no folder for the tags %q", o.Tags)
	}
	r := request{Method: method, Description: o.Description, Header: []keyed{}}
	if len(o.Security) == 0 {
		r.Auth = &auth{Type: "noauth"}
	}
	r.URL.Raw, r.URL.Host = "{{base_url}}"+strings.NewReplacer("{", ":", "}", "").Replace(path), []string{"{{base_url}}"}
	r.URL.Path = strings.Split(strings.NewReplacer("{", ":", "}", "").Replace(path[1:]), "/")
	for _, p := range o.Parameters {
		p, err := d.resolve(p)
		if err != nil {
			return err
		}
		switch {
		case p.In == "path":
			r.URL.Variable = append(r.URL.Variable, keyed{Key: p.Name, Value: "{{" + p.Name + "}}", Description: p.Description})
			c.variable(p)
		case p.In == "query":
			r.URL.Query = append(r.URL.Query, keyed{Key: p.Name, Value: p.text(), Description: p.Description, Disabled: true})
		case p.Name == "Idempotency-Key":
			r.Header = append(r.Header, keyed{Key: p.Name, Value: "{{$guid}}", Description: p.Description})
		default:
			r.Header = append(r.Header, keyed{Key: p.Name, Value: p.text(), Description: p.Description, Disabled: true})
		}
	}
	media, example := o.example()
	switch {
	case example == nil:
	case media == "application/json":
		r.Header = append(r.Header, keyed{Key: "Content-Type", Value: media})
		if err := example.Indent(jsontext.WithIndent("  ")); err != nil {
			return err
		}
		r.Body = &body{Mode: "raw", Raw: string(example), Options: &options{}}
		r.Body.Options.Raw.Language = "json"
	default:
		var form ordered[string]
		if err := json.Unmarshal(example, &form); err != nil {
			return err
		}
		r.Body = &body{Mode: "urlencoded"}
		for _, m := range form {
			r.Body.URLEncoded = append(r.Body.URLEncoded, keyed{Key: m.name, Value: m.value})
		}
	}
	c.Item[at].Item = append(c.Item[at].Item, item{Name: o.Summary, Request: r})
	return nil
}

// variable makes one of the collection of an id in a path.
func (c *postman) variable(p parameter) {
	if slices.ContainsFunc(c.Variable, func(v keyed) bool { return v.Key == p.Name }) {
		return
	}
	value, ok := inSandbox[p.Name]
	if !ok {
		value = p.text()
	}
	c.Variable = append(c.Variable, keyed{Key: p.Name, Value: value})
}

var ids = regexp.MustCompile(`"(\w+_id)(s?)": (\[\s*)?"[^"]*"`)

// name puts variables in the place of the ids that a body shows.
func (c *postman) name(b *body) {
	if b == nil {
		return
	}
	b.Raw = ids.ReplaceAllStringFunc(b.Raw, func(found string) string {
		m := ids.FindStringSubmatch(found)
		if !slices.ContainsFunc(c.Variable, func(v keyed) bool { return v.Key == m[1] }) {
			return found
		}
		return `"` + m[1] + m[2] + `": ` + m[3] + `"{{` + m[1] + `}}"`
	})
}
