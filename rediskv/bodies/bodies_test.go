package bodies

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
)

// hot are what a payment's life writes. None of them is left to package json.
var hot = []any{
	tollgate.Payment{},
	tollgate.Ticket{},
	tollgate.Event{},
	tollgate.PaymentEventData{},
	tollgate.AuditEntry{},
	tollgate.Quote{},
	tollgate.Capture{},
	tollgate.Refund{},
	tollgate.Transaction{},
}

// other types are not known, or have what no hot type has.
var other = []any{
	struct {
		A map[string]int `json:"a"`
		B float64        `json:"b,omitzero"`
	}{},
	struct {
		Payment tollgate.Payment `json:"payment"`
		Any     any              `json:"any"`
		Numbers []uint32         `json:"numbers"`
		Texts   []*string        `json:"texts"`
		Bytes   []byte           `json:"bytes"`
		Yes     bool             `json:"yes"`
		Dates   []tollgate.Date  `json:"dates"`
		Skipped string           `json:"-"`
		hidden  string
		Meta    tollgate.Metadata `json:"metadata"`
	}{},
	struct{}{},
	struct {
		tollgate.AuditTarget
		N int
	}{},
}

// TestSameBytes: whatever an object holds, its JSON is that of package json.
func TestSameBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, one := range append(append([]any{}, hot...), other...) {
		of := reflect.TypeOf(one)
		for range 300 {
			v := reflect.New(of)
			fill(random, v.Elem(), 0)
			for _, object := range []any{v.Interface(), v.Elem().Interface()} {
				got, err := Of(object)
				if err != nil {
					t.Fatalf("%s: %v", of, err)
				}
				want, err := json.Marshal(object, json.Deterministic(true))
				if err != nil {
					t.Fatalf("%s: %v", of, err)
				}
				if string(got) != string(want) {
					t.Fatalf("%s:\n got %s\nwant %s", of, got, want)
				}
			}
		}
	}
}

// What is written under one version stays as it is. Where this fails because the JSON of
// payments or tickets was meant to change, Version changes, too.
func TestVersion(t *testing.T) {
	random, sum := rand.New(rand.NewPCG(3, 4)), sha256.New()
	for _, one := range []any{tollgate.Payment{}, tollgate.Ticket{}} {
		for range 100 {
			v := reflect.New(reflect.TypeOf(one))
			fill(random, v.Elem(), 0)
			text, err := Of(v.Interface())
			if err != nil {
				t.Fatal(err)
			}
			sum.Write(text)
		}
	}
	written := map[string]string{"2": "c0b609b133176bb661e21163fac212ca53522f367841a05521f9bd14bf4de279"}
	if got := hex.EncodeToString(sum.Sum(nil)); got != written[Version] {
		t.Errorf("version %s writes %s, not %s", Version, got, written[Version])
	}
}

func TestHotTypesAreKnown(t *testing.T) {
	for _, one := range hot {
		if known(reflect.TypeOf(one)) == nil {
			t.Errorf("%T is left to package json", one)
		}
	}
}

func TestNothingAndText(t *testing.T) {
	for _, v := range []any{nil, (*tollgate.Payment)(nil), "a\u2028<", 7, []any{1, "a"}, map[string]any{"b": 1, "a": nil}, struct{ A any }{}} {
		got, err := Of(v)
		want, failed := json.Marshal(v, json.Deterministic(true))
		if err != nil || failed != nil || string(got) != string(want) {
			t.Errorf("%v: %s, %v; want %s, %v", v, got, err, want, failed)
		}
	}
	for _, v := range []any{&tollgate.Payment{Payee: "\xff"}, &tollgate.Ticket{Lines: []tollgate.TicketLine{{Label: "\xff"}}}, &tollgate.AuditEntry{Reason: "\xff"}} {
		if text, err := Of(v); err == nil {
			t.Errorf("%T: what is not UTF-8 is written: %q", v, text)
		}
	}
}

// TestSplit: around the place of the number stands what package json writes.
func TestSplit(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var event tollgate.Event
		var entry tollgate.AuditEntry
		fill(random, reflect.ValueOf(&event).Elem(), 0)
		fill(random, reflect.ValueOf(&entry).Elem(), 0)
		event.Sequence, event.HistoryID, entry.Seq = 0, nil, 0
		event.ID, event.Type, entry.Outcome, entry.Type = "evt_1", "payment.authorized", "succeeded", "payment.create"
		if event.Data != nil {
			data, err := json.Marshal(event.Data) // as NewEvent does
			check(t, err)
			event.Data = data
		}
		same := func(v any, place string, head, tail []byte, err error) {
			t.Helper()
			want, failed := json.Marshal(v, json.Deterministic(true))
			if got := string(head) + place + string(tail); err != nil || failed != nil || got != string(want) || !strings.HasSuffix(string(head), `":`) {
				t.Fatalf("%v, %v\n got %s\nwant %s", err, failed, got, want)
			}
		}
		head, tail, err := Event(&event)
		same(event, `0,"history_id":null`, head, tail, err)
		head, tail, err = Audit(&entry)
		same(entry, `0`, head, tail, err)
		if _ = append(head, "another"...); string(tail[:1]) != "," {
			t.Fatal("the head has room for what would be written over the tail")
		}
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var (
	texts = []string{
		"", "a", "Zürich", `"quoted" \ and / `, "\x00\x1f\x7f\t\n", "<script>&", "\u2028\u2029", "😀", "\ufffd", strings.Repeat("long ", 40), "10.00",
	}
	currencies = []tollgate.Currency{"EUR", "JPY", "BHD", "CLF", ""}
	values     = []string{`null`, `{}`, `[1, 2.50, "a\u0041"]`, ` { "b" : 1e3, "a" : "\/" } `, `"x"`}
)

// fill gives a value and all that is in it something at random, or nothing.
func fill(random *rand.Rand, v reflect.Value, depth int) {
	text := func() string { return texts[random.IntN(len(texts))] }
	switch to := v.Addr().Interface().(type) {
	case *tollgate.Money:
		*to = tollgate.Money{Minor: random.Int64N(3e15) - 1e15, Currency: currencies[random.IntN(len(currencies))]}
		return
	case *tollgate.Instant:
		*to = tollgate.Instant(random.Int64N(2) * random.Int64N(253402300799999))
		return
	case *tollgate.Reason:
		*to = tollgate.Reason([]string{"", "payee_blocked"}[random.IntN(2)])
		return
	case *tollgate.Date:
		*to = tollgate.Date(random.IntN(2) * random.IntN(50000))
		return
	case *jsontext.Value:
		if random.IntN(4) > 0 {
			*to = jsontext.Value(values[random.IntN(len(values))])
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text())
	case reflect.Bool:
		v.SetBool(random.IntN(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(random.Int32()) - 1<<30)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(random.UintN(256)))
	case reflect.Float64:
		v.SetFloat(random.Float64())
	case reflect.Interface:
		v.Set(reflect.ValueOf([]any{text(), 7, &tollgate.AuditTarget{ID: text()}, map[string]any{"b": 1, "a": text()}}[random.IntN(4)]))
	case reflect.Pointer:
		if random.IntN(2) == 0 && depth < 3 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(random, v.Elem(), depth+1)
		}
	case reflect.Slice:
		if random.IntN(4) > 0 {
			v.Set(reflect.MakeSlice(v.Type(), random.IntN(4), 4))
		}
		for i := range v.Len() {
			fill(random, v.Index(i), depth+1)
		}
	case reflect.Map:
		if random.IntN(4) > 0 {
			v.Set(reflect.MakeMap(v.Type()))
		}
		for n := random.IntN(6); n > 0 && !v.IsNil(); n-- {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(random, key, depth+1)
			fill(random, value, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(random, v.Field(i), depth+1)
			}
		}
	}
}

// BenchmarkOf is the ticket of a new payment, and the payment, beside package json.
func BenchmarkOf(b *testing.B) {
	payment, ticket := paymentOf()
	for name, write := range map[string]func(any) ([]byte, error){
		"Bodies": Of,
		"JSON":   func(v any) ([]byte, error) { return json.Marshal(v, json.Deterministic(true)) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := write(ticket)
				check(b, err)
				_, err = write(payment)
				check(b, err)
			}
		})
	}
}

// ticketOf is the ticket of a new payment.
func ticketOf() *tollgate.Ticket {
	_, t := paymentOf()
	return t
}

func paymentOf() (*tollgate.Payment, *tollgate.Ticket) {
	eur := func(minor int64) tollgate.Money { return tollgate.Money{Minor: minor, Currency: "EUR"} }
	const id, at = "01m8en2sy2b37wwgv3f6x6mm00", tollgate.Instant(1795788203970)
	allowed := tollgate.PerimeterDecision{ID: "per_" + id, Version: 1, Decision: tollgate.DecisionAllow}
	payment := &tollgate.Payment{
		Object: "payment", ID: "pay_" + id, CreatedAt: at, MerchantAccountID: "ma_" + id, Status: tollgate.Authorized,
		Amount: eur(1000), Currency: "EUR", Payee: "shop.example", AmountCapturable: eur(1000), AmountCaptured: eur(0), AmountReleased: eur(0),
		AmountRefunded: eur(0), AmountRefundable: eur(0), CaptureMethod: tollgate.CaptureManual, CaptureBefore: at, FeeTotal: eur(54),
		TicketID: "tkt_" + id, Perimeter: allowed, AuthorizedAt: at, UpdatedAt: at,
	}
	ticket := tollgate.NewTicket(payment)
	fee := tollgate.Citation{Name: "card_fee", Version: 2}
	ref := tollgate.RuleRef{Rule: fee, SHA256: strings.Repeat("0123456789abcdef", 4)}
	lines := []tollgate.FeeLine{{Label: "Card fee", Amount: eur(44), Rule: fee}, {Label: "Platform fee", Amount: eur(10), Rule: fee}}
	ticket.Evaluate(tollgate.EvaluationAuthorization, tollgate.PricingInput{Amount: eur(1000), Payee: "shop.example"}, []tollgate.RuleRef{ref, ref, ref}, lines, "evt_"+id, at)
	ticket.Refer("evt_" + id)
	return payment, ticket
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
