package provision

import (
	"testing"

	"tollgate"
)

func TestCountries(t *testing.T) {
	for code, want := range map[string]bool{"DE": true, "US": true, "GB": true, "XX": false, "UK": false, "EU": false, "de": false, "276": false, "DEU": false, "": false, "ZZ": false} {
		l := tollgate.LegalEntity{ID: "le_1", LegalName: "a", Country: code, Type: "company", Status: "verified"}
		if err := checkLegalEntity(&l); (err == nil) != want {
			t.Errorf("%q: %v", code, err)
		}
	}
}
