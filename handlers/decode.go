package handlers

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers/problem"
)

// maxDepth is how deep JSON may nest (interface §8).
const maxDepth = 16

// readBody reads what a route takes, up to its limit.
func readBody(c *call, kind bodyKind) ([]byte, error) {
	limit, media := int64(maxBody), "application/json"
	switch kind {
	case noBody:
		return nil, nil
	case formBody:
		limit, media = maxForm, "application/x-www-form-urlencoded"
	}
	limit = cmp.Or(c.row.limit, limit)
	typed := len(c.request.Header["Content-Type"]) > 0
	if typed || kind != optionalJSONBody {
		if err := checkContentType(c.request, media); err != nil {
			return nil, err
		}
	}
	tooLarge := problem.New(tollgate.CodeBodyTooLarge, fmt.Sprintf("The body of this request has at most %d bytes.", limit))
	if c.request.ContentLength > limit { // not worth waiting for
		return nil, tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.ResponseWriter, c.request.Body, limit))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge
	}
	if err != nil {
		return nil, &tollgate.Error{Code: tollgate.CodeInvalidJSON, Message: "The body did not arrive whole.", Cause: err}
	}
	if !typed && len(body) > 0 {
		return nil, checkContentType(c.request, media)
	}
	return body, nil
}

// decode reads the one JSON object of a body and collects everything that is
// wrong with it.
func decode[B any](body []byte, optional bool, read func(*fields) B) (B, error) {
	var none B
	if len(body) == 0 && optional {
		body = []byte("{}")
	}
	if err := checkJSON(body); err != nil {
		return none, err
	}
	var found faults
	f := membersOf(body, "", &found)
	b := read(f)
	if err := f.close(); err != nil {
		return none, err
	}
	if r, ok := any(b).(repeatable); ok && len(found) == 1 && found[0] == r.refused() {
		return b, nil
	}
	return b, found.err()
}

// repeatable is a request with a fault for which earlier releases did not refuse
// it: it is answered as it was then if it is a repeat, else refused.
type repeatable interface{ refused() *tollgate.Error }

// checkJSON refuses everything that two parsers could read differently:
// duplicate names, bad UTF-8, trailing data (RFC 8259 §4, §8.1), and what is
// no object or too deep.
func checkJSON(body []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	if d.PeekKind() != '{' {
		if _, err := d.ReadToken(); err == nil {
			return invalidJSON("The body is one JSON object.", nil)
		}
	}
	for {
		_, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF) && d.StackDepth() == 0 && d.InputOffset() > 0:
			return nil
		case errors.Is(err, jsontext.ErrDuplicateName):
			return invalidJSON("The body has an object with one name twice.", err)
		case err != nil:
			return invalidJSON("The body is not valid JSON in UTF-8.", err)
		case d.StackDepth() > maxDepth:
			return invalidJSON(fmt.Sprintf("The body nests deeper than %d levels.", maxDepth), nil)
		case d.StackDepth() == 0:
			if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
				return invalidJSON("The body has something after its JSON object.", err)
			}
			return nil
		}
	}
}

func invalidJSON(message string, cause error) *tollgate.Error {
	return &tollgate.Error{Code: tollgate.CodeInvalidJSON, Message: message, Cause: cause}
}

// fields are the members of one JSON object. Reading one makes its name known;
// close refuses those that nobody read. null is the same as absent.
type fields struct {
	prefix  string // "input." inside input
	members map[string]jsontext.Value
	known   []string
	inner   []*fields
	faults  *faults
}

// membersOf takes an object apart that checkJSON has accepted.
func membersOf(object jsontext.Value, prefix string, found *faults) *fields {
	f := &fields{prefix: prefix, members: make(map[string]jsontext.Value), faults: found}
	d := jsontext.NewDecoder(bytes.NewBuffer(object))
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() != '}' {
		var name jsontext.Token
		if name, err = d.ReadToken(); err != nil {
			break
		}
		key := name.String()
		var value jsontext.Value
		if value, err = d.ReadValue(); err == nil {
			f.members[key] = value.Clone()
		}
	}
	if err != nil { // checkJSON has read the same bytes
		panic(err)
	}
	return f
}

// close reports the names that are not known. One that differs from a known
// name only in case is no typing error but a second parser's chance to see
// another request.
func (f *fields) close() error {
	for _, name := range slices.Sorted(maps.Keys(f.members)) {
		if slices.Contains(f.known, name) {
			continue
		}
		if slices.ContainsFunc(f.known, func(known string) bool { return strings.EqualFold(known, name) }) {
			return invalidJSON("The body has a name that differs from a parameter's only in case.", nil)
		}
		f.faults.unknown(f.prefix + name)
	}
	for _, inner := range f.inner {
		if err := inner.close(); err != nil {
			return err
		}
	}
	return nil
}

func (f *fields) has(name string) bool {
	value, ok := f.members[name]
	return ok && value.Kind() != 'n'
}

// value is a member of the wanted kind; any other kind is a fault.
func (f *fields) value(name string, required bool, form string, kinds ...jsontext.Kind) (jsontext.Value, bool) {
	f.known = append(f.known, name)
	if !f.has(name) {
		if required {
			f.faults.missing(f.prefix + name)
		}
		return nil, false
	}
	value := f.members[name]
	if !slices.Contains(kinds, value.Kind()) {
		f.faults.add(tollgate.Invalid(f.prefix+name, "%s is %s.", f.prefix+name, form))
		return nil, false
	}
	return value, true
}

// object is a member that is an object itself; nil when it is not there.
func (f *fields) object(name string, required bool) *fields {
	value, ok := f.value(name, required, "an object", '{')
	if !ok {
		return nil
	}
	inner := membersOf(value, f.prefix+name+".", f.faults)
	f.inner = append(f.inner, inner)
	return inner
}

// text is a string of any content.
func (f *fields) text(name string, required bool) (string, bool) {
	value, ok := f.value(name, required, "a string", '"')
	if !ok {
		return "", false
	}
	return unquote(value), true
}

func unquote(value jsontext.Value) string {
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil { // checkJSON has read the same bytes
		panic(err)
	}
	return string(text)
}

// note is optional text of at most max characters; an empty one is none.
func (f *fields) note(name string, max int) *string {
	text, ok := f.text(name, false)
	if !ok || text == "" {
		return nil
	}
	f.check(tollgate.CheckText(f.prefix+name, text, max), "")
	return &text
}

// choice is one of the known words, fallback when absent.
func (f *fields) choice(name, fallback string, known ...string) string {
	text, ok := f.text(name, fallback == "")
	if !ok {
		return fallback
	}
	if !slices.Contains(known, text) {
		f.faults.add(tollgate.Invalid(f.prefix+name, "%s is one of %s.", f.prefix+name, strings.Join(known, ", ")))
	}
	return text
}

// flag is a boolean.
func (f *fields) flag(name string, fallback bool) bool {
	value, ok := f.value(name, false, "true or false", 't', 'f')
	if !ok {
		return fallback
	}
	return value.Kind() == 't'
}

// id is an optional identifier.
func (f *fields) id(name string) string {
	text, ok := f.text(name, false)
	if ok && !tollgate.ValidID(text) {
		f.faults.add(tollgate.Invalid(f.prefix+name, "%s is an identifier.", f.prefix+name))
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

// money is an amount, with the places of its currency. Without a currency only
// the form can be checked, and JPY stands in: what it refuses as invalid is the
// form and nothing else.
func (f *fields) money(name string, required bool, currency tollgate.Currency) tollgate.Money {
	text, ok := f.text(name, required)
	if !ok {
		return tollgate.Money{}
	}
	if currency == "" {
		if _, err := tollgate.ParseMoney(text, "JPY"); err != nil && problem.From(err).Code == tollgate.CodeAmountInvalid {
			f.check(err, name)
		}
		return tollgate.Money{}
	}
	m, err := parseAmount(text, currency)
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

// peekCurrency is the currency of an amount that is read before it; whatever
// is wrong with it is said when the currency's own turn comes.
func (f *fields) peekCurrency(name string) tollgate.Currency {
	value := f.members[name]
	if value.Kind() != '"' {
		return ""
	}
	c, _ := tollgate.ParseCurrency(unquote(value)) // "" when it is none
	return c
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
	if len(*f.faults) == before || !f.has(name) || f.members[name].Kind() != '"' {
		return payee, payee.String(), nil
	}
	if text, taken := tollgate.EarlierPayee(unquote(f.members[name])); taken {
		return payee, text, (*f.faults)[before]
	}
	return payee, "", nil
}

// check collects an error of the root under this object's name for it.
func (f *fields) check(err error, name string) {
	if err == nil {
		return
	}
	e := *problem.From(err)
	if name != "" {
		e.Param = f.prefix + name
	}
	f.faults.add(&e)
}
