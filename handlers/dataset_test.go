package handlers_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers/worker/export"
)

// TestDatasetsAreDocumented holds the pages and the OpenAPI document to the table
// of datasets, with their filters and columns.
func TestDatasetsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("docs/interface.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(text), "### Exports")
	page, _, _ = strings.Cut(page, "\n#")
	code := regexp.MustCompile("`([^`]+)`")
	filters, columns := map[string]string{}, map[string]string{}
	for line := range strings.Lines(page) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		into := columns
		if len(cells) == 5 {
			into = filters
		}
		if last := code.FindStringSubmatch(cells[len(cells)-2]); last != nil {
			for _, name := range code.FindAllStringSubmatch(cells[1], -1) {
				into[name[1]] = last[1]
			}
		}
	}
	known := map[string]bool{}
	for _, k := range tollgate.DatasetKinds {
		if want := strings.Join(k.Filters, ", "); filters[string(k.Name)] != want {
			t.Errorf("%s has the filters %s, documented %s", k.Name, want, filters[string(k.Name)])
		}
		if want := strings.Join(export.Columns(k.Name), ", "); columns[string(k.Name)] != want {
			t.Errorf("%s has the columns %s, documented %s", k.Name, want, columns[string(k.Name)])
		}
		delete(filters, string(k.Name))
		for _, name := range k.Filters {
			known[name] = true
		}
	}
	for name := range filters {
		t.Errorf("%s is documented, and no dataset", name)
	}
	if text, err = os.ReadFile("openapi.json"); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct {
			Schemas struct {
				Dataset struct {
					Enum []string `json:"enum"`
				}
				ExportFilters struct {
					Properties map[string]jsontext.Value `json:"properties"`
				}
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(slices.Sorted(slices.Values(doc.Components.Schemas.Dataset.Enum)), slices.Sorted(slices.Values(tollgate.Datasets))) {
		t.Errorf("the document has the datasets %v", doc.Components.Schemas.Dataset.Enum)
	}
	for name := range doc.Components.Schemas.ExportFilters.Properties {
		if !known[name] {
			t.Errorf("the document has the filter %s, which no dataset has", name)
		}
		delete(known, name)
	}
	for name := range known {
		t.Errorf("the document does not have the filter %s", name)
	}
}
