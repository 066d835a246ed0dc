package handlers

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"tollgate"
	"tollgate/handlers/problem"
)

// id is an optional identifier.
func (f *fields) id(name string) string {
	text, ok := f.text(name, false)
	if ok && !tollgate.ValidID(text) {
		f.wrong(name, "is an identifier")
	}
	return text
}

// metadata is an object of strings (interface §0).
func (f *fields) metadata() tollgate.Metadata {
	value, ok := f.value("metadata", false, "an object of strings", '{')
	if !ok {
		return nil
	}
	m := make(tollgate.Metadata)
	inner := membersOf(value, f.prefix+"metadata.", f.faults)
	for _, key := range slices.Sorted(maps.Keys(inner.members)) {
		if value := inner.members[key]; value.Kind() == '"' {
			m[key] = unquote(value)
		} else {
			f.faults.add(tollgate.Invalid(shortened(inner.prefix+key), "Values of metadata are strings."))
		}
	}
	f.check(m.Check(), "")
	return m
}

// amount is an amount without its currency, or empty. Only the form can be
// checked, and JPY stands in: what it refuses as invalid is the form and nothing
// else.
func (f *fields) amount(name string, required bool) string {
	text, ok := f.text(name, required)
	if !ok {
		return ""
	}
	if _, err := tollgate.ParseMoney(text, "JPY"); err != nil && problem.From(err).Code == tollgate.CodeAmountInvalid {
		f.check(err, name)
	}
	return text
}

// money is an amount with the places of its currency, which stands in another
// member. Whatever is wrong with that is said when its own turn comes.
func (f *fields) money(name, currency string) tollgate.Money {
	in, _ := tollgate.ParseCurrency(f.peek(currency)) // "" when it is none
	if in == "" {
		f.amount(name, true)
		return tollgate.Money{}
	}
	text, ok := f.text(name, true)
	if !ok {
		return tollgate.Money{}
	}
	m, err := parseAmount(text, in)
	f.check(err, name)
	return m
}

// parseAmount reads an amount that a client asks for: more than nothing.
func parseAmount(text string, currency tollgate.Currency) (tollgate.Money, error) {
	m, err := tollgate.ParseMoney(text, currency)
	if err == nil && m.Minor == 0 {
		return m, &tollgate.Error{Code: tollgate.CodeAmountInvalid, Param: "amount", Message: "An amount is greater than zero."}
	}
	return m, err
}

func (f *fields) currency(name string) tollgate.Currency {
	text, ok := f.text(name, true)
	if !ok {
		return ""
	}
	c, err := tollgate.ParseCurrency(text)
	f.check(err, name)
	return c
}

// payee is whom a payment is for, in its one form.
func (f *fields) payee(name string) tollgate.Payee {
	text, ok := f.text(name, true)
	if !ok {
		return tollgate.Payee{}
	}
	payee, err := tollgate.ParsePayee(text)
	f.check(err, name)
	return payee
}

// takenPayee is payee for a request that can be a repeat. The text is that of
// earlier releases where payee is none any more; then refusal is the fault.
func (f *fields) takenPayee(name string) (payee tollgate.Payee, text string, refusal *tollgate.Error) {
	before := len(*f.faults)
	payee = f.payee(name)
	if len(*f.faults) == before || f.members[name].Kind() != '"' {
		return payee, payee.String(), nil
	}
	if text, taken := tollgate.EarlierPayee(f.peek(name)); taken {
		return payee, text, (*f.faults)[before]
	}
	return payee, "", nil
}

// instant is an RFC 3339 time, 0 when it is not there.
func (f *fields) instant(name string, required bool) tollgate.Instant {
	text, ok := f.text(name, required)
	if !ok {
		return 0
	}
	at, err := tollgate.ParseInstant(text)
	if err != nil {
		f.wrong(name, "is an RFC 3339 time such as 2026-11-21T18:16:28Z")
	}
	return at
}

// date is a day of the calendar, NoDate when it is not there.
func (f *fields) date(name string) tollgate.Date {
	text, ok := f.text(name, false)
	if !ok {
		return tollgate.NoDate
	}
	d, err := tollgate.ParseDate(text)
	if err != nil {
		f.wrong(name, "is a date such as 2026-11-21")
	}
	return d
}

// citation is a rule's name and version, the zero one when it is not there.
func (f *fields) citation(name string, required bool) tollgate.Citation {
	text, ok := f.text(name, required)
	if !ok {
		return tollgate.Citation{}
	}
	c, err := tollgate.ParseCitation(text)
	if err != nil {
		f.wrong(name, "is a citation such as rule:card_fee@v4")
	}
	return c
}

// ruleInForce is an optional citation, or the name of a rule, whichever version
// of it is in force.
func (f *fields) ruleInForce(name string) tollgate.Citation {
	text, ok := f.text(name, false)
	if !ok {
		return tollgate.Citation{}
	}
	c, err := tollgate.ParseRule(text)
	if err != nil {
		f.wrong(name, "is a citation such as rule:card_fee@v4, or a rule's name such as card_fee")
	}
	return c
}

// filters reads an object of filters by the same rules as a query; of those that
// lists names, several words may be a list of strings. Where known is nil nobody
// can say which there are.
func (f *fields) filters(name string, known, lists []string, read func(*queryReader)) values {
	q := &queryReader{values: make(values)}
	object, ok := f.value(name, false, "an object of strings", '{')
	if !ok {
		return q.values
	}
	inner := f.inside(name, object)
	inner.known = known
	if known == nil {
		inner.known = slices.Collect(inner.names())
	}
	for _, filter := range known {
		if !inner.has(filter) {
			continue
		}
		if text, ok := inner.filter(filter, slices.Contains(lists, filter)); ok {
			q.values[filter] = text
		}
	}
	read(q)
	for _, e := range q.faults {
		e.Param = inner.prefix + e.Param
		f.refuse(e)
	}
	return q.values
}

// filter is a filter as a query would have it, where it can have several words:
// one string with commas.
func (f *fields) filter(name string, several bool) (text string, ok bool) {
	value := f.members[name]
	switch {
	case value.Kind() == '"':
		text = unquote(value)
	case value.Kind() == '[' && several:
		var items []string
		if items, ok = elementsOf(value); !ok {
			f.wrong(name, "is a list of strings, or one string with commas")
			return "", false
		}
		text = strings.Join(items, ",")
	default:
		form := map[bool]string{true: "a list of strings, or one string with commas", false: "a string"}[several]
		f.wrong(name, "is "+form)
		return "", false
	}
	switch {
	case text == "":
		f.wrong(name, "is empty; leave it out instead")
		return "", false
	case strings.ContainsFunc(text, unicode.IsControl):
		f.wrong(name, "must not hold control characters")
		return "", false
	}
	return text, true
}
