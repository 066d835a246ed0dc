package input

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// What is accepted as JSON, the standard library accepts too; the one pass refuses what
// reading token by token refuses, for the same reason.
func FuzzJSON(f *testing.F) {
	for _, body := range []string{`{"amount":"10.00"}`, `{"a":{"b":[1,2,{}]}}`, `{"a":1,"a":2}`, `{"tool":"quote_ticket","input":{}}`, ``, `nul`, `{"a":"\"","b":` + strings.Repeat("[", 16) + strings.Repeat("]", 16) + `}`, `{} {}`, `{"a":"\ud800"}`, `{"a":"\"[","b":[[` + strings.Repeat("[", 13) + strings.Repeat("]", 15) + `}`, `{"a":` + strings.Repeat("[", 16) + strings.Repeat("]", 16) + `}`, `{"a":` + strings.Repeat("[", 20000)} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		refusal := checkJSON([]byte(body))
		if refusal == nil && !json.Valid([]byte(body)) {
			t.Fatalf("%q is not JSON", body)
		}
		if _, err := opened([]byte(body), new(faults)); fmt.Sprint(err) != fmt.Sprint(refusal) {
			t.Fatalf("%q: %v, want %v", body, err, refusal)
		}
	})
}
