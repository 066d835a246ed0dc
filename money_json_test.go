package tollgate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
)

// ofMoney are the types whose JSON has amounts.
var ofMoney = []any{
	&tollgate.Payment{}, &tollgate.Capture{}, &tollgate.Refund{}, &tollgate.Transaction{}, &tollgate.Ticket{}, &tollgate.EvaluationInput{},
	&tollgate.PayoutObject{}, &tollgate.PaymentEventData{}, &tollgate.PayoutEventData{}, &tollgate.Divergence{},
	&tollgate.PreviewAmount{}, &tollgate.PreviewPayout{}, &tollgate.PreviewMove{}, &tollgate.Quote{}, &tollgate.FeeSample{},
}

// inOthers are types that leave their amounts to the object that they are in.
var inOthers = []string{"FeeLine", "TicketLine", "FeeOutcome"}

// full sets every member of an object that its JSON has.
func full(v reflect.Value, c tollgate.Currency) {
	switch value := v.Addr().Interface().(type) {
	case *tollgate.Money:
		*value = tollgate.Money{Minor: 1205, Currency: c}
		return
	case *tollgate.Currency:
		*value = c
		return
	case *tollgate.Citation:
		*value = cite
		return
	case *jsontext.Value:
		*value = jsontext.Value(`{"a":"b"}`)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(20_000)
	case reflect.Uint32:
		v.SetUint(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		full(v.Elem(), c)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			full(v.Index(i), c)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(tollgate.Metadata{"key": "text"}))
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				full(v.Field(i), c)
			}
		}
	default:
		panic(v.Type())
	}
}

// Everything that has amounts is read as it was written.
func TestMoneyIsReadAsWritten(t *testing.T) {
	for _, c := range scales {
		for _, o := range ofMoney {
			v := reflect.ValueOf(o).Elem()
			full(v, c)
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			again := reflect.New(v.Type())
			if err := json.Unmarshal(text, again.Interface()); err != nil {
				t.Errorf("%s: %v", text, err)
			} else if !reflect.DeepEqual(again.Interface(), o) {
				t.Errorf("%s was read as %+v", text, again.Elem())
			}
			// And is not read when one of them is in another currency.
			amount := `"` + tollgate.Money{Minor: 1205, Currency: c}.String() + `"`
			parts := strings.Split(string(text), amount)
			for i := range len(parts) - 1 {
				spoiled := strings.Join(parts[:i+1], amount) + `"12.3"` + strings.Join(parts[i+1:], amount)
				if err := json.Unmarshal([]byte(spoiled), again.Interface()); err == nil {
					t.Errorf("%s was read", spoiled)
				}
			}
		}
	}
}

// A new type with amounts is not forgotten.
func TestMoneyIsReadOfEveryType(t *testing.T) {
	known := slices.Clone(inOthers)
	for _, o := range ofMoney {
		known = append(known, reflect.TypeOf(o).Elem().Name())
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, _ := n.(*ast.TypeSpec)
			if spec == nil {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok && slices.ContainsFunc(s.Fields.List, amountInJSON) {
				if found++; !slices.Contains(known, spec.Name.Name) {
					t.Errorf("%s has an amount in its JSON: give it an UnmarshalJSONFrom and name it in ofMoney", spec.Name.Name)
				}
			}
			return true
		})
	}
	if found < 10 {
		t.Errorf("%d types with amounts found", found)
	}
}

func amountInJSON(f *ast.Field) bool {
	of := f.Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	name, _ := of.(*ast.Ident)
	return name != nil && name.Name == "Money" && f.Tag != nil
}

// What was not written so is refused, and no amount is read as another.
func TestMoneyIsReadStrictly(t *testing.T) {
	ok := `{"amount":"10.00","currency":"EUR","payee":"shop.example","capture_index":1}`
	if err := json.Unmarshal([]byte(ok), new(tollgate.EvaluationInput)); err != nil {
		t.Fatal(err)
	}
	for _, amount := range []string{
		`"10"`, `"10.0"`, `"10.000"`, `"10."`, `".00"`, `"010.00"`, `"+1.00"`, `"-1.00"`, `"1e3"`, `"1,00"`, `" 1.00"`, `""`, `"10.00000"`,
		`"10000000000000.00"`, `"99999999999999999999.00"`, `"１.00"`, `"--1.00"`, `"0.-1"`, `1.00`, `null`, `"NaN"`, `"0 places"`,
	} {
		text := strings.Replace(ok, `"10.00"`, amount, 1)
		if err := json.Unmarshal([]byte(text), new(tollgate.EvaluationInput)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
	for _, spoiled := range []string{
		strings.Replace(ok, "EUR", "JPY", 1), strings.Replace(ok, "EUR", "BHD", 1), strings.Replace(ok, "EUR", "eur", 1), strings.Replace(ok, "EUR", "", 1),
		strings.Replace(ok, "EUR", "2 places", 1), strings.Replace(ok, `"currency":"EUR",`, "", 1), strings.Replace(ok, `"amount":"10.00",`, "", 1),
		strings.NewReplacer("EUR", "JPY", "10.00", "10.").Replace(ok), strings.NewReplacer("EUR", "eur", "10.00", "10").Replace(ok),
	} {
		if err := json.Unmarshal([]byte(spoiled), new(tollgate.EvaluationInput)); err == nil {
			t.Errorf("%s was read", spoiled)
		}
	}
	for _, text := range []string{`"-0.05"`, `"12345678901234567.89"`} { // a sum may
		var a tollgate.PreviewAmount
		err := json.Unmarshal([]byte(`{"currency":"EUR","amount":`+text+`}`), &a)
		if err != nil || `"`+a.Amount.String()+`"` != text {
			t.Errorf("%s: %s, %v", text, a.Amount, err)
		}
	}
	if err := json.Unmarshal([]byte(`{"currency":"EUR","amount":"-0.00"}`), new(tollgate.PreviewAmount)); err == nil {
		t.Error("-0.00 was read")
	}
}

// In a list, what stands in the place of an object that cannot be read is told
// from the others.
func TestDamagedEntryIsRead(t *testing.T) {
	whole := tollgate.Payment{Object: "payment", ID: "pay_2", Amount: tollgate.Money{Minor: 5, Currency: "EUR"}, Currency: "EUR", Metadata: tollgate.Metadata{}}
	for _, m := range []*tollgate.Money{&whole.AmountCapturable, &whole.AmountCaptured, &whole.AmountReleased, &whole.AmountRefunded, &whole.AmountRefundable, &whole.FeeTotal} {
		m.Currency = "EUR"
	}
	list := tollgate.List[tollgate.Listed[tollgate.Payment]]{Object: "list", Data: []tollgate.Listed[tollgate.Payment]{
		{Damage: &tollgate.DamagedObject{Object: "payment", ID: "pay_1", Damaged: true}}, {Value: whole},
	}}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"object":"list","data":[{"object":"payment","id":"pay_1","damaged":true},{"object":"payment","id":"pay_2",`; !strings.HasPrefix(string(text), want) {
		t.Errorf("%s", text)
	}
	var again tollgate.List[tollgate.Listed[tollgate.Payment]]
	if err := json.Unmarshal(text, &again); err != nil || !reflect.DeepEqual(again, list) {
		t.Errorf("%s was read as %+v, %v", text, again, err)
	}
	if err := json.Unmarshal([]byte(`{"object":"transaction","id":"txn_1","damaged":true}`), new(tollgate.Transaction)); err != nil {
		t.Errorf("where every transaction is read, one that is damaged: %v", err)
	}
}
