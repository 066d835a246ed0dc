package handlers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"tollgate"
	"tollgate/handlers"
	"tollgate/handlers/problem"
)

const good = `"amount":"10.00","currency":"EUR","payee":"shop.example"`

// faultsOf prints code and param of an error, all of them when there are
// several.
func faultsOf(err error) string {
	e, ok := errors.AsType[*tollgate.Error](err)
	if !ok {
		return fmt.Sprint(err)
	}
	if len(e.Details) == 0 {
		return strings.TrimSpace(string(e.Code) + " " + e.Param)
	}
	var all []string
	for _, d := range e.Details {
		all = append(all, string(d.Code)+" "+d.Param)
	}
	return strings.Join(all, ", ")
}

// codeOf is the code in an error, empty for none.
func codeOf(err error) tollgate.Code {
	e, _ := errors.AsType[*tollgate.Error](err)
	if e == nil {
		return ""
	}
	return e.Code
}

func TestDecodePayment(t *testing.T) {
	long := strings.Repeat("é", 65)
	for body, want := range map[string]string{
		`{` + good + `}`: "<nil>",
		` {` + good + `,"capture_method":"automatic","reference":"a","description":null,"metadata":{"a":"b","A":"c"}} `: "<nil>",
		`{` + good + `,"reference":"` + long[:128] + `"}`:                                                               "<nil>",

		``:                                 "invalid_json",
		`null`:                             "invalid_json",
		`[]`:                               "invalid_json",
		`"x"`:                              "invalid_json",
		`{` + good:                         "invalid_json",
		`{` + good + `}}`:                  "invalid_json",
		`{` + good + `} {}`:                "invalid_json",
		`{` + good + `} x`:                 "invalid_json",
		`{` + good + `,}`:                  "invalid_json",
		"\ufeff{" + good + `}`:             "invalid_json",
		`{` + good + `,"payee":"b"}`:       "invalid_json",
		`{` + good + `,"\u0070ayee":"b"}`:  "invalid_json",
		`{` + good + `,"Payee":"b"}`:       "invalid_json",
		`{` + good + `,"metaData":{}}`:     "invalid_json",
		`{` + good + `,"x":{"a":1,"a":2}}`: "invalid_json",
		`{` + good + ",\"x\":\"\xff\"}":    "invalid_json",
		`{` + good + `,"x":"\ud800"}`:      "invalid_json",
		`{` + good + ",\"x\":\"\x01\"}":    "invalid_json",
		`{` + good + `,"x":01}`:            "invalid_json",
		`{` + good + `,"x":NaN}`:           "invalid_json",
		`{` + good + `/**/}`:               "invalid_json",
		`{'amount':"1"}`:                   "invalid_json",
		`{"x":` + strings.Repeat("[", 16) + strings.Repeat("]", 16) + `}`:              "invalid_json",
		`{` + good + `,"x":` + strings.Repeat("[", 15) + strings.Repeat("]", 15) + `}`: "parameter_unknown x",

		`{` + good + `,"memo":1}`:                                            "parameter_unknown memo",
		`{` + good + `,"":1}`:                                                "parameter_unknown",
		`{}`:                                                                 "parameter_missing amount, parameter_missing currency, parameter_missing payee",
		`{"amount":null,` + good[17:] + `}`:                                  "parameter_missing amount",
		`{"amount":10.00,` + good[17:] + `}`:                                 "parameter_invalid amount",
		`{"amount":{},` + good[17:] + `}`:                                    "parameter_invalid amount",
		`{"amount":"",` + good[17:] + `}`:                                    "amount_invalid amount",
		`{"amount":"0",` + good[17:] + `}`:                                   "amount_invalid amount",
		`{"amount":"0.00",` + good[17:] + `}`:                                "amount_invalid amount",
		`{"amount":"-1",` + good[17:] + `}`:                                  "amount_invalid amount",
		`{"amount":"1e3",` + good[17:] + `}`:                                 "amount_invalid amount",
		`{"amount":"1,5",` + good[17:] + `}`:                                 "amount_invalid amount",
		`{"amount":"1.001",` + good[17:] + `}`:                               "amount_scale_invalid amount",
		`{"amount":"99999999999999.00",` + good[17:] + `}`:                   "amount_invalid amount",
		`{"amount":"1.0","currency":"JPY","payee":"a.example"}`:              "amount_scale_invalid amount",
		`{"amount":"1.0001","currency":"CLF","payee":"a.example"}`:           "<nil>",
		`{"amount":"1.00","currency":"eur","payee":"a.example"}`:             "currency_unsupported currency",
		`{"amount":"+1","currency":"XXX","payee":"a b"}`:                     "amount_invalid amount, currency_unsupported currency, payee_invalid payee",
		`{"amount":"1.00001","currency":1,"payee":"a b"}`:                    "parameter_invalid currency, amount_invalid amount, payee_invalid payee",
		`{"amount":"x","payee":"a b","memo":1}`:                              "parameter_missing currency, parameter_unknown memo, amount_invalid amount, payee_invalid payee",
		`{` + good + `,"capture_method":"later"}`:                            "parameter_invalid capture_method",
		`{` + good + `,"capture_method":""}`:                                 "parameter_invalid capture_method",
		`{` + good + `,"reference":"` + long + `"}`:                          "parameter_invalid reference",
		`{` + good + `,"reference":"\u0000"}`:                                "parameter_invalid reference",
		`{` + good + `,"reference":["a"]}`:                                   "parameter_invalid reference",
		`{` + good + `,"description":"` + strings.Repeat("d", 256) + `"}`:    "parameter_invalid description",
		`{` + good + `,"merchant_account_id":"ma 1"}`:                        "parameter_invalid merchant_account_id",
		`{` + good + `,"merchant_account_id":""}`:                            "parameter_invalid merchant_account_id",
		`{` + good + `,"metadata":[]}`:                                       "parameter_invalid metadata",
		`{` + good + `,"metadata":{"a":1}}`:                                  "parameter_invalid metadata.a",
		`{` + good + `,"metadata":{"":"a"}}`:                                 "parameter_invalid metadata",
		`{` + good + `,"metadata":{"a":"` + strings.Repeat("v", 501) + `"}}`: "parameter_invalid metadata.a",
		`{` + good + `,"metadata":{"` + strings.Repeat("k", 41) + `":"a"}}`:  "parameter_invalid metadata",
		`{` + good + `,"` + strings.Repeat("n", 200) + `":1}`:                "parameter_unknown " + strings.Repeat("n", 100) + "…",
		`{` + good + `,"metadata":` + metadata(51) + `}`:                     "parameter_invalid metadata",
		`{` + good + `,"metadata":` + metadata(50) + `}`:                     "<nil>",
	} {
		if _, err := handlers.DecodePayment(body); faultsOf(err) != want {
			t.Errorf("%.200s\n got %s\nwant %s", body, faultsOf(err), want)
		}
	}
}

func metadata(keys int) string {
	m := make(map[string]string)
	for i := range keys {
		m[fmt.Sprint("k", i)] = "v"
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestDecodeQuote(t *testing.T) {
	for body, want := range map[string]string{
		`{` + good + `}`: "<nil>",
		`{"tool":"quote_ticket","input":{` + good + `}}`:                                    "<nil>",
		`{"name":"quote_ticket","input":{` + good + `}}`:                                    "<nil>",
		`{"tool":"other","input":{` + good + `}}`:                                           "parameter_invalid tool",
		`{"name":"other","input":{` + good + `}}`:                                           "parameter_invalid name",
		`{"tool":1,"input":{` + good + `}}`:                                                 "parameter_invalid tool",
		`{"input":{` + good + `}}`:                                                          "parameter_missing tool",
		`{"tool":"quote_ticket"}`:                                                           "parameter_missing input",
		`{"tool":"quote_ticket","input":[]}`:                                                "parameter_invalid input",
		`{"tool":"quote_ticket","name":"quote_ticket","input":{` + good + `}}`:              "parameter_unknown name",
		`{"tool":"quote_ticket","Input":{},"input":{` + good + `}}`:                         "invalid_json",
		`{"tool":"quote_ticket","input":{` + good + `,"Payee":"a"}}`:                        "invalid_json",
		`{"tool":"quote_ticket","input":{` + good + `,"memo":"a"}}`:                         "parameter_unknown input.memo",
		`{"tool":"quote_ticket","input":{` + good + `},"amount":"1"}`:                       "parameter_unknown amount",
		`{"tool":"quote_ticket","input":{"amount":1,"currency":"EUR"}}`:                     "parameter_invalid input.amount, parameter_missing input.payee",
		`{"tool":"quote_ticket","input":{"amount":"1.001","currency":"EUR","payee":"a b"}}`: "amount_scale_invalid input.amount, payee_invalid input.payee",
	} {
		if _, err := handlers.DecodeQuote(body); faultsOf(err) != want {
			t.Errorf("%s\n got %s\nwant %s", body, faultsOf(err), want)
		}
	}
}

func TestDecodeCaptureAndReview(t *testing.T) {
	for body, want := range map[string]string{
		``: "<nil>", `{}`: "<nil>", `{"amount":"10.001","final_capture":false}`: "<nil>", // places are the payment's to judge
		`{"amount":"x"}`: "amount_invalid amount", `{"amount":1}`: "parameter_invalid amount", `{"amount":""}`: "amount_invalid amount",
		`{"final_capture":"true"}`: "parameter_invalid final_capture", `{"final_capture":null}`: "<nil>",
		`{"currency":"EUR"}`: "parameter_unknown currency", ` `: "invalid_json",
	} {
		if _, err := handlers.DecodeCapture(body); faultsOf(err) != want {
			t.Errorf("capture %s: got %s, want %s", body, faultsOf(err), want)
		}
	}
	for body, want := range map[string]string{
		`{"decision":"approve"}`: "<nil>", `{"decision":"reject","note":"no"}`: "<nil>",
		`{}`: "parameter_missing decision", `{"decision":"maybe"}`: "parameter_invalid decision", ``: "invalid_json",
		`{"decision":"approve","note":"` + strings.Repeat("n", 256) + `"}`: "parameter_invalid note",
	} {
		if _, err := handlers.DecodeReview(body); faultsOf(err) != want {
			t.Errorf("review %s: got %s, want %s", body, faultsOf(err), want)
		}
	}
}

// What is refused is refused with one of the codes of interface §7.
func FuzzJSONBody(f *testing.F) {
	for _, body := range []string{`{` + good + `}`, `{"a":{"b":[1,2,{}]}}`, `{"a":1,"a":2}`, `{"tool":"quote_ticket","input":{}}`, `{"metadata":{"a":1}}`, ``, `nul`} {
		f.Add(body)
	}
	known := map[tollgate.Code]bool{
		"": true, tollgate.CodeInvalidJSON: true, tollgate.CodeParameterMissing: true, tollgate.CodeParameterInvalid: true, tollgate.CodeParameterUnknown: true,
		tollgate.CodeAmountInvalid: true, tollgate.CodeAmountScaleInvalid: true, tollgate.CodeCurrencyUnsupported: true, tollgate.CodePayeeInvalid: true,
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, decode := range []func(string) (any, error){handlers.DecodePayment, handlers.DecodeQuote, handlers.DecodeCapture, handlers.DecodeReview} {
			_, err := decode(body)
			if !known[codeOf(err)] || (err != nil && codeOf(err) == "") {
				t.Fatalf("%q: %v", body, err)
			}
			if e, ok := errors.AsType[*tollgate.Error](err); ok {
				problem.Of(e, "req_1") // every fault can be answered with
			}
		}
	})
}
