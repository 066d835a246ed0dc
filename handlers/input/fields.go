package input

import (
	"slices"
	"strings"
	"unicode"

	"tollgate"
	"tollgate/handlers/problem"
)

// ID is an optional identifier.
func (f *Fields) ID(name string) string {
	text, ok := f.Text(name, false)
	if ok && !tollgate.ValidID(text) {
		f.Wrong(name, "is an identifier")
	}
	return text
}

// Metadata is an object of strings (interface §0).
func (f *Fields) Metadata() tollgate.Metadata {
	value, ok := f.Value("metadata", false, "an object of strings", '{')
	if !ok {
		return nil
	}
	m := make(tollgate.Metadata)
	inner := f.within("metadata", value)
	for _, one := range inner.sorted() {
		if one.value.Kind() == '"' {
			m[one.name] = unquote(one.value)
		} else {
			f.Refuse(tollgate.Invalid(Shortened(inner.Prefix+one.name), "Values of metadata are strings."))
		}
	}
	f.Check(m.Check(), "")
	return m
}

// Amount is an amount without its currency, or empty. Only the form can be
// checked, and JPY stands in: what it refuses as invalid is the form and nothing
// else.
func (f *Fields) Amount(name string, required bool) string {
	text, ok := f.Text(name, required)
	if !ok {
		return ""
	}
	if _, err := tollgate.ParseMoney(text, "JPY"); err != nil && problem.From(err).Code == tollgate.CodeAmountInvalid {
		f.Check(err, name)
	}
	return text
}

// Money is an amount with the places of its currency, which stands in another
// member. Whatever is wrong with that is said when its own turn comes.
func (f *Fields) Money(name, currency string) tollgate.Money {
	in, _ := tollgate.ParseCurrency(f.peek(currency)) // "" when it is none
	if in == "" {
		f.Amount(name, true)
		return tollgate.Money{}
	}
	text, ok := f.Text(name, true)
	if !ok {
		return tollgate.Money{}
	}
	m, err := ParseAmount(text, in)
	f.Check(err, name)
	return m
}

// ParseAmount reads an amount that a client asks for: more than nothing.
func ParseAmount(text string, currency tollgate.Currency) (tollgate.Money, error) {
	m, err := tollgate.ParseMoney(text, currency)
	if err == nil && m.Minor == 0 {
		return m, &tollgate.Error{Code: tollgate.CodeAmountInvalid, Param: "amount", Message: "An amount is greater than zero."}
	}
	return m, err
}

// parsed is a string in one of the root's forms, the zero value when it is not
// there; form says what it is, or else the error does.
func parsed[T any](f *Fields, name string, required bool, parse func(string) (T, error), form string) (value T) {
	text, ok := f.Text(name, required)
	if !ok {
		return value
	}
	value, err := parse(text)
	if err != nil && form != "" {
		f.Wrong(name, form)
	} else {
		f.Check(err, name)
	}
	return value
}

// Currency is the code of a currency.
func (f *Fields) Currency(name string) tollgate.Currency {
	return parsed(f, name, true, tollgate.ParseCurrency, "")
}

// Payee is whom a payment is for, in its one form.
func (f *Fields) Payee(name string) tollgate.Payee {
	return parsed(f, name, true, tollgate.ParsePayee, "")
}

// TakenPayee is payee for a request that can be a repeat. The text is that of
// earlier releases where payee is none any more; then refusal is the fault.
func (f *Fields) TakenPayee(name string) (payee tollgate.Payee, text string, refusal *tollgate.Error) {
	before := len(*f.faults)
	payee = f.Payee(name)
	if len(*f.faults) == before || f.of(name).Kind() != '"' {
		return payee, payee.String(), nil
	}
	if text, taken := tollgate.EarlierPayee(f.peek(name)); taken {
		return payee, text, (*f.faults)[before]
	}
	return payee, "", nil
}

// Instant is an RFC 3339 time, 0 when it is not there.
func (f *Fields) Instant(name string, required bool) tollgate.Instant {
	return parsed(f, name, required, tollgate.ParseInstant, instantForm)
}

// Date is a day of the calendar, NoDate when it is not there.
func (f *Fields) Date(name string) tollgate.Date {
	return parsed(f, name, false, tollgate.ParseDate, "is a date such as 2026-11-21")
}

// Citation is a rule's name and version, the zero one when it is not there.
func (f *Fields) Citation(name string, required bool) tollgate.Citation {
	return parsed(f, name, required, tollgate.ParseCitation, "is a citation such as rule:card_fee@v4")
}

// ActiveRule is an optional citation, or the name of a rule, whichever version
// of it is in force.
func (f *Fields) ActiveRule(name string) tollgate.Citation {
	return parsed(f, name, false, tollgate.ParseRule, "is a citation such as rule:card_fee@v4, or a rule's name such as card_fee")
}

// Filters reads an object of filters by the same rules as a query; of those that
// lists names, several words may be a list of strings. Where known is nil nobody
// can say which there are.
func (f *Fields) Filters(name string, known, lists []string, read func(*Query)) Values {
	q := &Query{Values: make(Values)}
	object, ok := f.Value(name, false, "an object of strings", '{')
	if !ok {
		return q.Values
	}
	inner := f.inside(name, object)
	inner.known = known
	if known == nil {
		inner.known = slices.Collect(inner.Names())
	}
	for _, filter := range known {
		if !inner.Has(filter) {
			continue
		}
		if text, ok := inner.filter(filter, slices.Contains(lists, filter)); ok {
			q.Values[filter] = text
		}
	}
	read(q)
	for _, e := range q.faults {
		e.Param = inner.Prefix + e.Param
		f.Refuse(e)
	}
	return q.Values
}

// filter is a filter as a query would have it, where it can have several words:
// one string with commas.
func (f *Fields) filter(name string, several bool) (text string, ok bool) {
	value := f.of(name)
	switch {
	case value.Kind() == '"':
		text = unquote(value)
	case value.Kind() == '[' && several:
		items, all := elementsOf(value)
		if !all {
			f.Wrong(name, "is a list of strings, or one string with commas")
			return "", false
		}
		text = strings.Join(items, ",")
	case several:
		f.Wrong(name, "is a list of strings, or one string with commas")
		return "", false
	default:
		f.Wrong(name, "is a string")
		return "", false
	}
	switch {
	case text == "":
		f.Wrong(name, "is empty; leave it out instead")
		return "", false
	case strings.ContainsFunc(text, unicode.IsControl):
		f.Wrong(name, "must not hold control characters")
		return "", false
	}
	return text, true
}
