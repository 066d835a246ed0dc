package bodies

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate"
)

// kept are the types that are packed.
var kept = []any{tollgate.Ticket{}, tollgate.Capture{}, tollgate.Refund{}, tollgate.Attempt{}}

// id is text that identifiers are made of.
func id(random *rand.Rand) string {
	return fmt.Sprintf("%s01m6vt5y3dwzq36ygbwjgs%04d", []string{"", "tkt_", "evt_", "x_", "_"}[random.IntN(5)], random.IntN(20))
}

// TestPack: whatever an object holds, what is read has the same JSON, and ends where it
// ends.
func TestPack(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	texts = append(texts, "ticket", "tkt_", "evt_evt_", "EUR", strings.Repeat("0f", 32), strings.Repeat("0F", 32), strings.Repeat("0", 63))
	defer func() { texts = texts[:len(texts)-7] }()
	for _, one := range kept {
		for range 2000 {
			v := reflect.New(reflect.TypeOf(one))
			fill(random, v.Elem(), 0)
			if of, ok := v.Interface().(*tollgate.Ticket); ok {
				of.ID, of.PaymentID = id(random), id(random)
				for range random.IntN(5) {
					of.EventIDs = append(of.EventIDs, id(random))
				}
			}
			want, err := json.Marshal(v.Interface(), json.Deterministic(true))
			check(t, err)
			known := id(random)
			packed, err := Pack(nil, v.Interface(), known)
			check(t, err)
			read := reflect.New(reflect.TypeOf(one))
			if random.IntN(2) == 0 { // as earlier builds write it
				plain, err := PackPlainly(nil, v.Interface())
				check(t, err)
				check(t, Unpack(string(plain), read.Interface(), known))
			} else {
				check(t, Unpack(string(packed), read.Interface(), known))
			}
			got, err := json.Marshal(read.Interface(), json.Deterministic(true))
			check(t, err)
			if string(got) != string(want) {
				t.Fatalf("%T:\n got %s\nwant %s", one, got, want)
			}
			if again, _ := Pack(nil, read.Interface(), known); string(again) != string(packed) {
				t.Fatalf("packed again: %q\n%q", again, packed)
			}
			for _, wrong := range []string{"", "\x00" + string(packed[1:]), string(rune(Packed+1)) + string(packed[1:]), string(packed) + "\x00", string(packed[:len(packed)-1])} {
				if Unpack(wrong, reflect.New(reflect.TypeOf(one)).Interface(), known) == nil {
					t.Fatalf("%T: %q is read", one, wrong)
				}
			}
		}
	}
	for _, v := range []any{&tollgate.Ticket{Payee: "\xff"}, &tollgate.Capture{Metadata: tollgate.Metadata{"a": "\xff"}}} {
		if _, err := Pack(nil, v, ""); err == nil {
			t.Errorf("%T: what is not UTF-8 is packed", v)
		}
		if _, err := PackPlainly(nil, v); err == nil {
			t.Errorf("%T: what is not UTF-8 is packed plainly", v)
		}
	}
}

// pricedTicket has a few evaluations, as a payment's life leaves them.
func pricedTicket(random *rand.Rand) *tollgate.Ticket {
	_, t := paymentOf()
	rules := t.Evaluations[0].Rules
	t.Lines, t.Evaluations, t.EventIDs, t.Total.Minor = nil, nil, nil, 0
	for n := range uint32(1 + random.IntN(5)) {
		kind, in := tollgate.EvaluationCapture, tollgate.PricingInput{Amount: t.Amount, Payee: "shop.example", CaptureIndex: n}
		if n == 0 {
			kind = []tollgate.EvaluationKind{tollgate.EvaluationAuthorization, tollgate.EvaluationReview}[random.IntN(2)]
		} else if n > 1 && random.IntN(3) == 0 {
			kind = tollgate.EvaluationRefund
		}
		lines := make([]tollgate.FeeLine, random.IntN(4))
		for i := range lines {
			lines[i] = tollgate.FeeLine{Label: texts[random.IntN(len(texts))], Amount: tollgate.Money{Minor: random.Int64N(3), Currency: "EUR"}, Rule: tollgate.Citation{Name: "fee", Version: 1}}
		}
		if n == 1 && random.IntN(2) == 0 { // captured as authorized
			lines = lines[:0]
			for _, l := range t.Lines {
				lines = append(lines, tollgate.FeeLine{Label: l.Label, Amount: l.Amount, Rule: l.Rule})
			}
		}
		if random.IntN(3) == 0 {
			rules = nil
			for n := range random.IntN(4) {
				rules = append(rules, tollgate.RuleRef{Rule: tollgate.Citation{Name: "fee", Version: random.IntN(3)}, SHA256: sumOf(fmt.Sprint(n))})
			}
		}
		t.Evaluate(kind, in, rules, lines, "evt_"+id(random), t.CreatedAt+tollgate.Instant(n))
		t.Refer(t.Evaluations[n].EventID)
	}
	if random.IntN(4) == 0 {
		t.Payee, t.ErasedAt = "", t.CreatedAt+9
	}
	return t
}

// sizeOf is how many bytes a ticket is packed in; it is read as it was.
func sizeOf(t *testing.T, ticket *tollgate.Ticket) int {
	t.Helper()
	packed, err := Pack(nil, ticket, "")
	check(t, err)
	read := new(tollgate.Ticket)
	check(t, Unpack(string(packed), read, ""))
	was, err := Of(ticket)
	check(t, err)
	is, err := Of(read)
	check(t, err)
	if string(is) != string(was) {
		t.Errorf("%s is read as %s", was, is)
	}
	return len(packed)
}

// TestPackSameRules: rules that are those of the evaluation before take up a byte.
func TestPackSameRules(t *testing.T) {
	size := func(change func([]tollgate.RuleRef)) int {
		ticket := ticketOf()
		rules := slices.Clone(ticket.Evaluations[0].Rules)
		rules[1].Rule.Version = 3
		ticket.Evaluations[0].Rules = slices.Clone(rules)
		change(rules)
		ticket.Evaluate(tollgate.EvaluationCapture, tollgate.PricingInput{Amount: ticket.Amount, Payee: "shop.example"}, rules, nil, ticket.Evaluations[0].EventID, ticket.CreatedAt)
		return sizeOf(t, ticket)
	}
	same := size(func([]tollgate.RuleRef) {})
	others := size(func(rules []tollgate.RuleRef) { slices.Reverse(rules[:2]) })
	if same+3*3+1 != others { // a flag, how many, and three bytes for each
		t.Errorf("%d bytes with the same, %d with others", same, others)
	}
}

// TestPackEvents: events of a ticket that are those of its evaluations take up no room.
func TestPackEvents(t *testing.T) {
	size := func(events int) int {
		ticket := ticketOf()
		for n := range 5 {
			ticket.Evaluate(tollgate.EvaluationCapture, tollgate.PricingInput{Amount: ticket.Amount}, nil, nil, fmt.Sprintf("evt_01m8en2sy2b37wwgv3f6x6mm%02d", n), ticket.CreatedAt)
			if n < events {
				ticket.Refer(ticket.Evaluations[n+1].EventID)
			}
		}
		return sizeOf(t, ticket)
	}
	if none, all := size(0), size(5); none != all {
		t.Errorf("%d bytes without, %d with five events", none, all)
	}
}

// TestPackDigests: the digest of lines that a ticket has takes up no room, and whatever
// stands in its place, that is read.
func TestPackDigests(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	changes := []func(*tollgate.Ticket, *tollgate.Evaluation){
		func(_ *tollgate.Ticket, e *tollgate.Evaluation) { e.LinesSHA256 = sumOf("another's") },
		func(_ *tollgate.Ticket, e *tollgate.Evaluation) { e.LinesSHA256 = strings.ToUpper(e.LinesSHA256) },
		func(_ *tollgate.Ticket, e *tollgate.Evaluation) {
			e.LinesSHA256 = strings.TrimSuffix(e.LinesSHA256, "0") + "0"
		},
		func(_ *tollgate.Ticket, e *tollgate.Evaluation) { e.LinesSHA256 = "" },
		func(of *tollgate.Ticket, e *tollgate.Evaluation) { e.LinesSHA256 = of.Evaluations[0].LinesSHA256 },
		func(_ *tollgate.Ticket, e *tollgate.Evaluation) { e.LinesSHA256 = tollgate.LinesSHA256(nil) },
		func(_ *tollgate.Ticket, e *tollgate.Evaluation) { e.Number = random.IntN(9) - 1 },
		func(_ *tollgate.Ticket, e *tollgate.Evaluation) { e.EventID = e.LinesSHA256 },
		func(_ *tollgate.Ticket, e *tollgate.Evaluation) { e.Rules = nil },
		func(of *tollgate.Ticket, e *tollgate.Evaluation) { of.Refer("evt_" + id(random)) },
		func(of *tollgate.Ticket, e *tollgate.Evaluation) { slices.Reverse(of.EventIDs) },
		func(of *tollgate.Ticket, e *tollgate.Evaluation) {
			of.EventIDs = of.EventIDs[:random.IntN(1+len(of.EventIDs))]
		},
		func(of *tollgate.Ticket, _ *tollgate.Evaluation) { of.Lines = of.Lines[:len(of.Lines)/2] },
		func(of *tollgate.Ticket, _ *tollgate.Evaluation) { slices.Reverse(of.Lines) },
		func(of *tollgate.Ticket, _ *tollgate.Evaluation) {
			for i := range of.Lines {
				of.Lines[i].Amount.Minor++
			}
		},
	}
	for range 5000 {
		ticket, whole := pricedTicket(random), true
		for range random.IntN(3) {
			changes[random.IntN(len(changes))](ticket, &ticket.Evaluations[random.IntN(len(ticket.Evaluations))])
			whole = false
		}
		want, err := json.Marshal(ticket, json.Deterministic(true))
		check(t, err)
		known := id(random)
		packed, err := Pack(nil, ticket, known)
		check(t, err)
		digests := map[string]bool{}
		for _, e := range ticket.Evaluations {
			digest, err := hex.DecodeString(e.LinesSHA256)
			there := slices.ContainsFunc(ticket.Lines, func(l tollgate.TicketLine) bool { return l.Evaluation == e.Number })
			if whole && there && !digests[e.LinesSHA256] && (err != nil || strings.Contains(string(packed), string(digest))) {
				t.Fatalf("%s\nhas the digest of evaluation %d: %q", want, e.Number, packed)
			}
			digests[e.LinesSHA256] = true // one whose lines are gone may have it
		}
		read := new(tollgate.Ticket)
		check(t, Unpack(string(packed), read, known))
		if got, err := json.Marshal(read, json.Deterministic(true)); err != nil || string(got) != string(want) {
			t.Fatalf("%v\n got %s\nwant %s", err, got, want)
		}
	}
}

// TestPackedAsThen: what was packed stays readable. Where this fails because a type has
// another field, that one has a tag, and Packed is the next number.
func TestPackedAsThen(t *testing.T) {
	erased := ticketOf()
	erased.Payee, erased.Evaluations[0].Input.Payee, erased.ErasedAt = "", "", erased.CreatedAt+1000
	tickets := map[int]*tollgate.Ticket{1: ticketOf(), 2: erased, 3: ticketOf()}
	then := map[int]string{
		1: "0107376930316d38656e327379326233377777677633663678366d6d3030849f8bd5c3683b003f00d00f23233173686f702e6578616d706c6502214361726420666565582321636172645f666565040231506c6174666f726d2066656514230c04026c2317430002170301021fd00f23230400030c0482010123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0c04140c04148201fc518e0ed73e3859f99cccf0220ec2677e9f0a7159b89b0ef5833386dbfd94ea470000014700",
		2: "0207376930316d38656e327379326233377777677633663678366d6d3030849f8bd5c3683b003f00d00f23230302214361726420666565582321636172645f666565040231506c6174666f726d2066656514230804026c2317430002170301021fd00f2323030003080482010123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0804100804108201fc518e0ed73e3859f99cccf0220ec2677e9f0a7159b89b0ef5833386dbfd94ea470000014700d00f",
		3: "030b4300014b005300d00f33336173686f702e6578616d706c6502414361726420666565583341636172645f666565040261506c6174666f726d2066656514331804026c3323630002230301022bd00f3333080003180482020123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef1804281804282f5b0001010000",
	}
	known := ticketOf().ID[len(tollgate.PrefixTicket):]
	for form, text := range then {
		now, err := PackPlainly(nil, tickets[form])
		if form == Packed {
			now, err = Pack(nil, tickets[form], known)
		}
		check(t, err)
		if got := fmt.Sprintf("%x", now); got != text {
			t.Errorf("form %d: %s", form, got)
		}
		bytes, err := hex.DecodeString(text)
		check(t, err)
		read := new(tollgate.Ticket)
		check(t, Unpack(string(bytes), read, known))
		if !reflect.DeepEqual(read, tickets[form]) {
			t.Errorf("form %d: %+v", form, read)
		}
	}
	var fields func(of reflect.Type) string
	fields = func(of reflect.Type) (list string) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice:
			return fields(of.Elem())
		case reflect.Struct:
			for _, f := range packedFields(of) {
				list += fmt.Sprintf("%s %s %d\n%s", of.Field(f.index).Name, of.Field(f.index).Type, f.since, fields(of.Field(f.index).Type))
			}
		}
		return list
	}
	all := strings.Join(words[:], " ") + "\n" + strings.Join(denseWords[:], " ") + "\n"
	for _, one := range kept {
		all += fields(reflect.TypeOf(one))
	}
	if got, want := sumOf(all), "ea7887ecf86631528bec64e3543b82c20e3d0218d75e29fc15bec91a85a7688d"; got != want {
		t.Errorf("the fields are\n%s%s", all, got)
	}
}

// FuzzUnpack: bytes of anybody are read or refused.
func FuzzUnpack(f *testing.F) {
	seed, err := Pack(nil, ticketOf(), "")
	check(f, err)
	f.Add(string(seed))
	seed, err = PackPlainly(nil, ticketOf())
	check(f, err)
	f.Add(string(seed))
	f.Fuzz(func(t *testing.T, text string) {
		for _, one := range kept {
			_ = Unpack(text, reflect.New(reflect.TypeOf(one)).Interface(), "")
		}
	})
}

// BenchmarkPack is a ticket and the ways to keep it.
func BenchmarkPack(b *testing.B) {
	ticket := ticketOf()
	packed, err := Pack(nil, ticket, "")
	check(b, err)
	text, err := Of(ticket)
	check(b, err)
	b.Logf("%d bytes, %d as JSON", len(packed), len(text))
	for name, do := range map[string]func() error{
		"Pack":   func() error { _, err := Pack(nil, ticket, ""); return err },
		"Of":     func() error { _, err := Of(ticket); return err },
		"Unpack": func() error { return Unpack(string(packed), new(tollgate.Ticket), "") },
		"JSON":   func() error { return json.Unmarshal(text, new(tollgate.Ticket)) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				check(b, do())
			}
		})
	}
}
