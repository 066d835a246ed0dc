package cli

import (
	"os"
	"regexp"
	"testing"

	"tollgate"
	"tollgate/handlers/problem"
)

// Every code of the service has a row, and no other has.
func TestEveryCodeIsExplained(t *testing.T) {
	source, err := os.ReadFile("../../../error.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`(?m)^\tCode\w+ +Code = "([a-z_]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(codes) < 50 {
		t.Fatalf("found %d codes: the test does not see them", len(codes))
	}
	for _, m := range codes {
		if h, ok := HelpOf(m[1]); !ok || h.What == "" || h.Do == "" {
			t.Errorf("%s is not explained", m[1])
		}
	}
	if len(codes) != len(Codes) {
		t.Errorf("%d codes, and %d are explained", len(codes), len(Codes))
	}
}

// An error ends with the command to try, filled with what it names; never with words
// that a server has made up.
func TestNextCommand(t *testing.T) {
	a := &App{Program: "tollgate", args: []string{"pay"}}
	rule, err := tollgate.ParseCitation("rule:my_fee@v1")
	if err != nil {
		t.Fatal(err)
	}
	denied := &Refusal{Problem: problem.Problem{Code: tollgate.CodePerimeterDenied, Perimeter: &tollgate.PerimeterDecision{ID: "per_1"}}, Status: 403}
	hostile := &Refusal{Problem: problem.Problem{Code: tollgate.CodePerimeterDenied, Perimeter: &tollgate.PerimeterDecision{ID: "per_1; rm -rf /"}}, Status: 403}
	for want, err := range map[string]error{
		"tollgate perimeter per_1":           denied,
		"tollgate explain perimeter_denied":  hostile,
		"tollgate explain rul_my_fee_v1":     &Refusal{Problem: problem.Problem{Code: tollgate.CodeRuleRejected, Rule: &rule}, Status: 422},
		"tollgate explain parameter_invalid": &Refusal{Problem: problem.Problem{Code: tollgate.CodeParameterInvalid}, Status: 400},
		"tollgate whoami":                    &Refusal{Problem: problem.Problem{Code: tollgate.CodeScopeMissing}, Status: 403},
		"tollgate doctor":                    UnavailableError(os.ErrDeadlineExceeded),
		"":                                   UsageError(os.ErrInvalid),
	} {
		if got := a.next(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	a.args = []string{"doctor"}
	if got := a.next(UnavailableError(os.ErrDeadlineExceeded)); got != "" {
		t.Errorf("after doctor: %q", got)
	}
}
