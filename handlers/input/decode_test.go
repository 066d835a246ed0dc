package input

import (
	"encoding/json"
	"testing"
)

// What is accepted as JSON, the standard library accepts too.
func FuzzJSON(f *testing.F) {
	for _, body := range []string{`{"amount":"10.00"}`, `{"a":{"b":[1,2,{}]}}`, `{"a":1,"a":2}`, `{"tool":"quote_ticket","input":{}}`, ``, `nul`} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if checkJSON([]byte(body)) == nil && !json.Valid([]byte(body)) {
			t.Fatalf("%q is not JSON", body)
		}
	})
}
