package problem_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"tollgate"
	"tollgate/handlers/problem"
)

// codes reads the constants of type Code out of the root package, so that a
// code cannot be added without a status.
func codes(t *testing.T) []tollgate.Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../error.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []tollgate.Code
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if ok && strings.HasPrefix(spec.Names[0].Name, "Code") {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, tollgate.Code(text))
		}
		return true
	})
	return all
}

func TestEveryCodeHasAStatus(t *testing.T) {
	all := codes(t)
	if len(all) < 30 {
		t.Fatalf("found only %d codes", len(all))
	}
	for _, code := range all {
		if status := problem.StatusOf(code); status == http.StatusInternalServerError && code != tollgate.CodeInternal && code != tollgate.CodeRecordDamaged {
			t.Errorf("%s has no status", code)
		}
	}
}

func TestProblem(t *testing.T) {
	rule := tollgate.Citation{Name: "card_fee", Version: 2}
	answer := problem.Of(&tollgate.Error{
		Code: tollgate.CodeRuleRejected, Message: "no", Param: "payee", Rule: &rule,
		Details: []tollgate.Detail{{Param: "payee", Code: tollgate.CodePayeeInvalid, Message: "no"}},
		Context: tollgate.ErrorContext{
			PaymentID: "pay_1", TicketID: "tkt_1", Status: tollgate.Expired,
			Perimeter: &tollgate.PerimeterDecision{ID: "per_1", Version: 3, Decision: tollgate.DecisionDeny, Reason: tollgate.ReasonPayeeBlocked},
		},
	}, "req_1")
	want := `{"type":"urn:tollgate:error:rule_rejected","title":"Refused by a rule","status":422,"code":"rule_rejected","message":"no","request_id":"req_1",` +
		`"param":"payee","errors":[{"param":"payee","code":"payee_invalid","message":"no"}],"rule":"rule:card_fee@v2",` +
		`"perimeter":{"id":"per_1","version":3,"decision":"deny","reason":"payee_blocked"},"payment_id":"pay_1","ticket_id":"tkt_1","payment_status":"expired"}`
	if answer.Status != 422 || string(answer.Body) != want {
		t.Errorf("got %d %s\nwant 422 %s", answer.Status, answer.Body, want)
	}
}
