package compiler

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// goType is what a reader of rule.toml must never see.
var goType = regexp.MustCompile(`int64|float64|destination|incompatible|\bslice\b|struct|interface|map\[|compiler\.|toml:|_unsupported|_invalid`)

// Every error says where it is, what is wrong and what is expected, in the words of
// rule.toml.
func TestFaultsSayWhereAndWhat(t *testing.T) {
	for _, test := range []struct {
		source     string
		line       int
		what, want string
	}{
		{"label = 3", 1, "label is a number", `label = "Card fee"`},
		{"label = \"x\"\n[[fee]]\npercentage = 1.4", 3, "percentage is a number", `percentage = "1.40"`},
		{"label = \"x\"\n[[fee]]\ncurrencies = \"EUR\"\npercentage = \"1\"", 3, "currencies is text", `["EUR", "USD"]`},
		{"label = \"x\"\n[[fee]]\ncurrencies = [3]\npercentage = \"1\"", 3, "currencies is a number", `["EUR", "USD"]`},
		{"label = \"x\"\nfee = 3", 2, "fee is a number", "[[fee]]"},
		{"label = \"x\"\nfee = [3]", 2, "fee is a number", "[[fee]]"},
		{"label = \"x\"\nrefunds = \"yes\"", 2, "refunds is text", "refunds = true"},
		{"label = \"x", 1, "", `label = "Card fee"`},
		{"label = \"x\"\n[[fee]]\npct = \"3\"", 3, "no key pct", "percentage"},
		{"label = \"x\"\n[[fee]]\npercentage = \"1\"\n[[fee]]\ncurrencies = [\"EURO\"]\nfixed = \"1\"", 5, "EURO", `["EUR", "USD"]`},
		{"label = \"x\"\n[[fee]]\ncurrencies = [\"JPY\"]\nfixed = \"1.5\"", 4, "JPY has 0 decimal places", `fixed = "0.25"`},
		{"label = \"x\"\n[[fee]]\ncurrencies = [\"EUR\"]\nfixed = \"1\"\n[[fee]]\ncurrencies = [\"EUR\"]\nfixed = \"1\"", 5, "EUR has a fee already", ""},
		{"label = \"x\"\nrefunds = true\n[refund]\n[[refund.fee]]\ncurrencies = [\"EUR\"]\nfixed = \"1.555\"", 6, "2 decimal places", `fixed = "0.25"`},
		{"label = \"x\"\n[[payee]]\nname = \"Shop\"\nthen = \"trap\"", 3, "lower case", `name = "refuse.test"`},
		{"label = \"x\"\nrefunds = true\n[refund]\nshape = 1", 4, "no key shape", "label"},
		{"module = 3", 1, "module is a number", `module = "build/rule.wasm"`},
		{"module = \"a\"\nfree = \"EUR\"", 2, "free is text", `free = ["CHF"]`},
		{"module = \"a\"\nfere = [\"EUR\"]", 2, "no key fere", "free"},
		{"[[fee]]\npercentage = \"1\"", 0, "label", `label = "Card fee"`},
		{"label = [\"x\"]", 1, "label is a list", `label = "Card fee"`},
		{"label = \"x\"\n[[refund]]", 2, "refund is a list of tables", "[refund]"},
		{"label = \"x\"\n[[fee", 2, "heading of a table", "[[fee]]"},
		{"label = \"x\"\nlabel = \"y\"", 2, "label stands twice", `label = "Card fee"`},
		{"label = \"x\"\nfee = \"y\"\n[[fee]]", 3, "fee stands twice", "[[fee]]"},
		{"label = \"x\\q\"", 1, "single \\", "for one"},
		{"label = \"x\"\n[[fee]]\ncurrencies = [\"EUR\" \"USD\"]", 3, "lacks a comma", `["EUR", "USD"]`},
		{"label = \"x\"\n[[fee]]\npercentage : 3", 3, "no key with =", `percentage = "1.40"`},
		{"label = \"x\"\n[[fee]]\npercentage = 1,4", 3, "behind the value", "in quotes"},
		{"label = \"x\"\n[[fee]]\npercentage = 99999999999999999999", 3, "percentage is neither text", `percentage = "1.40"`},
		{"label = x", 1, "label is neither text", `label = "Card fee"`},
		{"label = \"\xff\"", 1, "a character", "UTF-8"},
	} {
		_, described, err := ParsePackage([]byte(test.source))
		if err == nil && !described {
			_, _, err = Build([]byte(test.source))
		}
		if err == nil {
			t.Errorf("%q is taken", test.source)
			continue
		}
		f := FaultOf([]byte(test.source), err)
		if f.Line != test.line || !strings.Contains(f.What, test.what) || !strings.Contains(f.Want, test.want) || (test.want == "") != (f.Want == "") {
			t.Errorf("%q: line %d, %q, expected %q", test.source, f.Line, f.What, f.Want)
		}
		if syntax, ok := errors.AsType[toml.ParseError](err); ok && strings.Contains(f.What, syntax.Message) {
			t.Errorf("%q: %s is what the decoder says", test.source, f)
		}
		if seen := goType.FindString(f.Error()); seen != "" {
			t.Errorf("%q: %s has %q", test.source, f.Error(), seen)
		}
	}
}

// Whatever the text is, no type of Go is shown.
func FuzzFaults(f *testing.F) {
	for _, source := range []string{"label = 3", "label = \"x\"\n[[fee]]\npercentage = 1.4\ntiers = [1]", "fee = {}", "label = 1979-05-27", "refund = [[]]"} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		if _, _, err := Build([]byte(source)); err != nil {
			fault := FaultOf([]byte(source), err)
			syntax, ok := errors.AsType[toml.ParseError](err)
			if fault.What == "" || strings.Contains(fault.Error(), "destination has") || ok && strings.Contains(fault.What, syntax.Message) {
				t.Errorf("%q: %s", source, fault)
			}
		}
	})
}
