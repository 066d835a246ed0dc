package provision

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"tollgate"
)

// provisioning is the file of `tollgate provision`. Names are those of the
// resources (interface §2); times, objects and organization ids are filled in.
type provisioning struct {
	Organizations []organizationForm `yaml:"organizations"`

	later map[string]perimeterFault // by id@version, for whom Redis is to be asked
}

type organizationForm struct {
	ID               string            `yaml:"id"`
	Name             string            `yaml:"name"`
	Status           string            `yaml:"status"`
	HomeRegion       string            `yaml:"home_region"`
	Metadata         tollgate.Metadata `yaml:"metadata"`
	LegalEntities    []legalEntityForm `yaml:"legal_entities"`
	Perimeters       []perimeterForm   `yaml:"perimeters"`
	RuleSets         []ruleSetForm     `yaml:"rule_sets"`
	MerchantAccounts []accountForm     `yaml:"merchant_accounts"`
	Clients          []clientForm      `yaml:"clients"`
	Grants           []grantForm       `yaml:"grants"`
	RuleSigners      []signerForm      `yaml:"rule_signers"`
}

type legalEntityForm struct {
	ID                 string            `yaml:"id"`
	LegalName          string            `yaml:"legal_name"`
	Country            string            `yaml:"country"`
	RegistrationNumber *string           `yaml:"registration_number"`
	TaxID              *string           `yaml:"tax_id"`
	Type               string            `yaml:"type"`
	Status             string            `yaml:"status"`
	Metadata           tollgate.Metadata `yaml:"metadata"`
}

type perimeterForm struct {
	ID          string `yaml:"id"`
	Version     int64  `yaml:"version"`
	Constraints any    `yaml:"constraints"`
}

type ruleSetForm struct {
	ID      string   `yaml:"id"`
	Version int64    `yaml:"version"`
	Rules   []string `yaml:"rules"`
}

type accountForm struct {
	ID                 string            `yaml:"id"`
	LegalEntityID      string            `yaml:"legal_entity_id"`
	Name               string            `yaml:"name"`
	Status             string            `yaml:"status"`
	Currencies         []string          `yaml:"currencies"`
	DefaultCurrency    string            `yaml:"default_currency"`
	Cutoff             cutoffForm        `yaml:"cutoff"`
	Perimeter          versionForm       `yaml:"perimeter"`
	RuleSet            versionForm       `yaml:"rule_set"`
	CaptureWindowHours *int              `yaml:"capture_window_hours"`
	Metadata           tollgate.Metadata `yaml:"metadata"`
}

type cutoffForm struct {
	CutoffTime          string `yaml:"cutoff_time"`
	TimeZone            string `yaml:"time_zone"`
	SettlementDelayDays int    `yaml:"settlement_delay_days"`
	Calendar            string `yaml:"calendar"`
	Interval            string `yaml:"interval"`
	EffectiveDate       string `yaml:"effective_date"` // of a change; empty: as early as can be
}

type versionForm struct {
	ID      string `yaml:"id"`
	Version int64  `yaml:"version"`
}

type clientForm struct {
	ID     string `yaml:"id"`
	Name   string `yaml:"name"`
	Status string `yaml:"status"`
	Keys   []any  `yaml:"keys"` // public JWKs: mappings, or JSON in a string
	// such as writes=10/s,reads=20/s
	RateLimits string `yaml:"rate_limits"`
	DPoPBound  bool   `yaml:"dpop_bound_access_tokens"`
}

type signerForm struct {
	ID     string `yaml:"id"`
	Name   string `yaml:"name"`
	Status string `yaml:"status"`
	Keys   []any  `yaml:"keys"` // public JWKs, as a client's
}

type grantForm struct {
	ID                 string   `yaml:"id"`
	ClientID           string   `yaml:"client_id"`
	Scopes             []string `yaml:"scopes"`
	MerchantAccountIDs []string `yaml:"merchant_account_ids"`
	// one of them
	DefaultMerchantAccountID string `yaml:"default_merchant_account_id"`

	Status    string `yaml:"status"`
	NotBefore string `yaml:"not_before"`
	ExpiresAt string `yaml:"expires_at"`

	RateLimits string `yaml:"rate_limits"` // of a client, where they are others
}

// parseProvisioning reads the file strictly: unknown keys, duplicate keys and
// a second document are refused, with their lines.
func parseProvisioning(text []byte) (*provisioning, error) {
	p := new(provisioning)
	d := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict())
	if err := d.Decode(p); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the file is empty")
		}
		return nil, errors.New(strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	var second any
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file holds more than one document")
	}
	return p, nil
}

// toJSON turns what YAML made of a free-form value into canonical JSON. A
// string must be JSON already.
func toJSON(v any) (jsontext.Value, error) {
	if text, ok := v.(string); ok {
		value := jsontext.Value(text)
		if !value.IsValid() {
			return nil, errors.New("is a string that is not JSON")
		}
		return value, value.Compact()
	}
	return json.Marshal(v, json.Deterministic(true))
}

// fileProblem is found in the file, with the YAML path of what it is about.
type fileProblem struct{ path, message string }

type fileProblems []fileProblem

// fieldName is how a message about one field of an object begins.
var fieldName = regexp.MustCompile(`^([a-z_]+): `)

// add notes err under path, or under the field of it that err begins with.
func (p *fileProblems) add(path string, err error) {
	if err == nil {
		return
	}
	message := err.Error()
	var e *tollgate.Error
	if errors.As(err, &e) {
		message = e.Message
	}
	if field := fieldName.FindStringSubmatch(message); field != nil {
		path += "." + field[1]
		message = message[len(field[0]):]
	}
	found := fileProblem{path, message}
	if !slices.Contains(*p, found) {
		*p = append(*p, found)
	}
}

func (p *fileProblems) addf(path, format string, args ...any) {
	p.add(path, fmt.Errorf(format, args...))
}

// in is all problems as one error, each with its line in the file.
func (p fileProblems) in(file string, text []byte) error {
	var b strings.Builder
	parsed, parseErr := parser.ParseBytes(text, 0)
	for _, problem := range p {
		line := 0
		for at := problem.path; parseErr == nil && line == 0 && at != ""; {
			if line = lineOf(parsed, at); line == 0 { // a field that is missing stands where its object does
				at = at[:max(strings.LastIndexByte(at, '.'), 0)]
			}
		}
		fmt.Fprintf(&b, "\n  %s:%d: %s: %s", file, line, problem.path, problem.message)
	}
	count := fmt.Sprintf("%d problems", len(p))
	if len(p) == 1 {
		count = "1 problem"
	}
	return fmt.Errorf("%s, nothing was written:%s", count, b.String())
}

// lineOf is the line of a YAML path, 0 where there is none.
func lineOf(f *ast.File, at string) int {
	path, err := yaml.PathString("$." + at)
	if err != nil {
		return 0
	}
	node, err := path.FilterFile(f)
	if err != nil || node == nil {
		return 0
	}
	return node.GetToken().Position.Line
}
