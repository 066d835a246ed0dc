package scripts_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tollgate"
	"tollgate/handlers"
	"tollgate/handlers/auth"
	"tollgate/handlers/mcp"
	"tollgate/handlers/problem"
)

var (
	code    = regexp.MustCompile("`([^`]+)`")
	routing = regexp.MustCompile(`^(GET|POST|PATCH|DELETE) ((?:/|…/)\S+)$`)
)

// The contract has each route with its scope, its use of the Idempotency-Key and
// its status, and no other route. Wherever it names one, it is there.
func TestContractHasTheRoutes(t *testing.T) {
	page := contractOf(t)
	said := map[string][]string{}
	for _, cells := range page.rows("4.1") {
		if m := routing.FindStringSubmatch(plain(cells[0])); m != nil && len(cells) == 5 {
			said[m[0]] = cells
		}
	}
	document := openAPI(t)
	for _, r := range new(handlers.Server).Routes() {
		name := r.Method + " " + r.Path
		cells, ok := said[name]
		if !ok {
			t.Errorf("section 4.1 has no %s", name)
			continue
		}
		delete(said, name)
		scope := string(r.Scope)
		if scope == "" {
			scope = "none"
		}
		if plain(cells[1]) != scope {
			t.Errorf("%s needs the scope %s, and section 4.1 says %s", name, scope, cells[1])
		}
		o := document.Paths[r.Path][strings.ToLower(r.Method)]
		if key := o.key(); cells[2] != key {
			t.Errorf("%s: the Idempotency-Key is %q in the OpenAPI document, and %q in section 4.1", name, key, cells[2])
		}
		for status := range o.Responses {
			if n, err := strconv.Atoi(status); err == nil && n < 300 && !strings.Contains(cells[3], status) {
				t.Errorf("%s answers %s, and section 4.1 says %s", name, status, cells[3])
			}
		}
	}
	for name := range said {
		t.Errorf("section 4.1 has %s, which is no route", name)
	}
	known := append(new(handlers.Server).Routes(), doors(t)...)
	for _, name := range page.words(routing) {
		if !slices.ContainsFunc(known, func(r handlers.Route) bool { return names(r, name) }) {
			t.Errorf("the contract names %s, which is no route", name)
		}
	}
}

// names reports whether a text such as "POST …/secrets" means a route.
// doors are what serve answers beside the API, as far as the contract promises it.
func doors(t *testing.T) (routes []handlers.Route) {
	t.Helper()
	for _, d := range mcp.Doors(mcp.Site{Server: new(handlers.Server), Issuer: "https://pay.example", Log: slog.New(slog.DiscardHandler)}) {
		for _, method := range d.Methods {
			routes = append(routes, handlers.Route{Method: method, Path: d.Path})
		}
	}
	return routes
}

func names(r handlers.Route, text string) bool {
	m := routing.FindStringSubmatch(text)
	wanted, _, _ := strings.Cut(m[2], "?")
	if end, ok := strings.CutPrefix(wanted, "…"); ok {
		return r.Method == m[1] && strings.HasSuffix(r.Path, end)
	}
	return r.Method == m[1] && r.Path == wanted
}

// Section 4.2 has each route that reads a body, with every member of it.
func TestContractHasTheBodies(t *testing.T) {
	page, document := contractOf(t), openAPI(t)
	for _, r := range new(handlers.Server).Routes() {
		name := r.Method + " " + r.Path
		o := document.Paths[r.Path][strings.ToLower(r.Method)]
		members := document.members(t, o.RequestBody.Content["application/json"].Schema)
		if len(members) == 0 || r.Path == "/v1/quotes" { // which section 2 has, in its three forms
			continue
		}
		i := slices.IndexFunc(page.rows("4.2"), func(cells []string) bool {
			return routing.MatchString(plain(cells[0])) && names(r, plain(cells[0]))
		})
		if i < 0 {
			t.Errorf("section 4.2 has no body of %s", name)
			continue
		}
		cell := page.rows("4.2")[i][1]
		if r.Method == "PATCH" { // "the same", of the row before
			cell += page.rows("4.2")[i-1][1]
		}
		for _, member := range members {
			if !strings.Contains(cell, "`"+member+"`") && !strings.Contains(cell, "`"+member+"{") {
				t.Errorf("section 4.2 does not say that %s takes %s", name, member)
			}
		}
	}
}

// Section 7 has each error code under its status, and no other code. Where a
// status stands before a code, it is that of the code.
func TestContractHasTheErrorCodes(t *testing.T) {
	page := contractOf(t)
	said := map[string]string{}
	for _, cells := range page.rows("7") {
		if _, err := strconv.Atoi(cells[0]); err != nil {
			continue
		}
		for _, m := range code.FindAllStringSubmatch(cells[1], -1) {
			said[m[1]] = cells[0]
		}
	}
	codes := regexp.MustCompile(`(?m)^\tCode\w+ +Code = "([a-z_]+)"`).FindAllStringSubmatch(read(t, "../error.go"), -1)
	if len(codes) < 50 {
		t.Fatalf("found %d codes: the test does not see them", len(codes))
	}
	status := map[string]string{}
	for _, m := range codes {
		status[m[1]] = strconv.Itoa(problem.StatusOf(tollgate.Code(m[1])))
		if said[m[1]] != status[m[1]] {
			t.Errorf("%s is %s, and section 7 says %q", m[1], status[m[1]], said[m[1]])
		}
	}
	for c := range said {
		if status[c] == "" {
			t.Errorf("section 7 has %s, which is no code", c)
		}
	}
	for _, m := range regexp.MustCompile("\\b([45]\\d\\d) `([a-z]+_[a-z_]+)`").FindAllStringSubmatch(page.now(), -1) {
		if status[m[2]] != m[1] {
			t.Errorf("the contract says %s %s, and its status is %q", m[1], m[2], status[m[2]])
		}
	}
}

// Wherever the contract names an event type, it is there. (That it has them all, and
// all datasets, is tested beside the handlers.) The types of audit entries look alike.
func TestContractNamesEventTypes(t *testing.T) {
	families := map[string]bool{}
	for _, e := range tollgate.EventTypes {
		family, _, _ := strings.Cut(string(e), ".")
		families[family] = true
	}
	page, count := contractOf(t), 0
	for section := range page {
		for _, word := range page.within(section, regexp.MustCompile(`^[a-z_]+\.[a-z_]+$`)) {
			family, _, _ := strings.Cut(word, ".")
			if section == "5" || !families[family] {
				continue
			}
			if count++; !slices.Contains(tollgate.EventTypes, tollgate.EventType(word)) {
				t.Errorf("section %s names %s, which is no event type", section, word)
			}
		}
	}
	if count < 50 {
		t.Errorf("found %d event types: the test does not see them", count)
	}
}

// Section 5 has each scope, and the contract names no other.
func TestContractHasTheScopes(t *testing.T) {
	page := contractOf(t)
	var said []string
	scope := regexp.MustCompile(`^[a-z]+:(read|write|capture|review|refund)$`)
	for _, cells := range page.rows("5") {
		if scope.MatchString(plain(cells[0])) {
			said = append(said, plain(cells[0]))
		}
	}
	for _, s := range auth.AllScopes() {
		if !slices.Contains(said, string(s)) {
			t.Errorf("section 5 has no %s", s)
		}
	}
	for _, s := range append(said, page.words(scope)...) {
		if !auth.AllScopes().Has(auth.Scope(s)) {
			t.Errorf("the contract names %s, which is no scope", s)
		}
	}
}

// Section 1 has each setting of the program, and no other; section 0 the prefix of
// each kind of id.
func TestContractHasSettingsAndPrefixes(t *testing.T) {
	page := contractOf(t)
	variable := regexp.MustCompile(`^TOLLGATE_[A-Z_]+$`)
	program := map[string]bool{}
	for _, m := range regexp.MustCompile(`\bFlag: "([a-z-]+)"`).FindAllStringSubmatch(settingsOf(t), -1) {
		program["TOLLGATE_"+strings.ToUpper(strings.ReplaceAll(m[1], "-", "_"))] = true
	}
	if len(program) < 20 {
		t.Fatalf("found %d settings: the test does not see them", len(program))
	}
	said := page.within("1", variable)
	for name := range program {
		if !slices.Contains(said, name) {
			t.Errorf("section 1 has no %s", name)
		}
	}
	for _, name := range page.words(variable) {
		if !program[name] {
			t.Errorf("the contract names %s, which is no setting", name)
		}
	}
	prefixes := page.within("0", regexp.MustCompile(`^[a-z]+_$`))
	for _, m := range regexp.MustCompile(`(?m)^\tPrefix\w+ += "([a-z]+_)"`).FindAllStringSubmatch(read(t, "../id.go")+read(t, "../webhook.go"), -1) {
		if !slices.Contains(prefixes, m[1]) {
			t.Errorf("section 0 has no prefix %s", m[1])
		}
	}
}

// settingsOf is the program's source, which has one list of settings.
func settingsOf(t *testing.T) (source string) {
	t.Helper()
	for file, text := range texts(t) {
		if strings.HasPrefix(file, "cmd/tollgate/") && strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			source += text
		}
	}
	return source
}

// contractPage is the contract by its sections of the first level ("4") and of
// the second ("4.1"), without code blocks.
type contractPage map[string]string

func contractOf(t *testing.T) contractPage {
	t.Helper()
	page := make(contractPage)
	var within []string
	for line := range strings.Lines(prose(read(t, "../"+contract))) {
		if m := numbered.FindStringSubmatch(line); m != nil {
			first, _, below := strings.Cut(m[1], ".")
			if within = []string{first}; below {
				within = append(within, m[1])
			}
		}
		for _, n := range within {
			page[n] += line
		}
	}
	if len(page) < 13 {
		t.Fatalf("found the sections %v: the test does not see the contract", slices.Collect(maps.Keys(page)))
	}
	return page
}

// notYet is the section of what a later release brings.
const notYet = "12"

// now is what the contract says of this release.
func (p contractPage) now() (text string) {
	for section := range p {
		if section != notYet && !strings.Contains(section, ".") {
			text += p[section]
		}
	}
	return text
}

// words are what stands in backticks, of a form.
func (p contractPage) words(form *regexp.Regexp) []string { return wordsIn(p.now(), form) }

func (p contractPage) within(section string, form *regexp.Regexp) []string {
	if section == notYet {
		return nil
	}
	return wordsIn(p[section], form)
}

func wordsIn(text string, form *regexp.Regexp) (found []string) {
	for _, m := range code.FindAllStringSubmatch(text, -1) {
		if form.MatchString(m[1]) {
			found = append(found, m[1])
		}
	}
	return found
}

// rows are the rows of a section's tables.
func (p contractPage) rows(section string) (rows [][]string) {
	for line := range strings.Lines(p[section]) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "|") {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			if strings.Trim(cells[0], "-") != "" || cells[0] == "" { // not the line below the head
				rows = append(rows, cells)
			}
		}
	}
	return rows
}

func plain(cell string) string { return strings.Trim(cell, "`") }

// openAPIDocument is what the contract is compared with.
type openAPIDocument struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]schema }
}

type operation struct {
	Parameters []struct {
		Ref string `json:"$ref"`
	}
	RequestBody struct {
		Content map[string]struct{ Schema schema }
	}
	Responses map[string]any
}

type schema struct {
	Ref        string `json:"$ref"`
	Properties map[string]any
	AllOf      []schema
}

func openAPI(t *testing.T) (d openAPIDocument) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, "../handlers/openapi.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// key is how section 4.1 spells what an operation does with an Idempotency-Key.
func (o operation) key() string {
	for _, p := range o.Parameters {
		switch p.Ref {
		case "#/components/parameters/IdempotencyKeyRequired":
			return "**required**"
		case "#/components/parameters/IdempotencyKey":
			return "accepted"
		}
	}
	return "–"
}

// members are those of the object that a schema describes.
func (d openAPIDocument) members(t *testing.T, s schema) []string {
	t.Helper()
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		found, ok := d.Components.Schemas[name]
		if !ok {
			t.Fatal(fmt.Errorf("no schema %s", name))
		}
		s = found
	}
	all := slices.Collect(maps.Keys(s.Properties))
	for _, part := range s.AllOf {
		all = append(all, d.members(t, part)...)
	}
	slices.Sort(all)
	return all
}
