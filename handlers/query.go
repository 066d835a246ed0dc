package handlers

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"tollgate"
	"tollgate/handlers/problem"
)

// values are the parameters of a query, each once.
type values map[string]string

// parseQuery reads a query strictly: a name that the route does not have, one
// that stands twice, and what is not percent-encoded UTF-8 are faults, not
// things to guess about.
func parseQuery(raw string, names []string) (values, error) {
	query := make(values)
	var found faults
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, nameErr := url.QueryUnescape(rawName)
		value, valueErr := url.QueryUnescape(rawValue)
		_, twice := query[name]
		switch {
		case nameErr != nil || !utf8.ValidString(name):
			found.add(tollgate.Invalid("query", "The query is not percent-encoded UTF-8."))
			continue
		case !slices.Contains(names, name):
			found.unknown(name)
			continue
		case twice:
			found.wrong(name, "may stand once")
		case valueErr != nil || !utf8.ValidString(value) || strings.Contains(rawValue, ";"):
			found.wrong(name, "is not percent-encoded UTF-8")
		case value == "":
			found.wrong(name, "is empty; leave it out instead")
		case strings.ContainsFunc(value, unicode.IsControl):
			found.wrong(name, "must not hold control characters")
		}
		query[name] = value
	}
	return query, found.err()
}

// queryReader reads parameters, collecting every fault.
type queryReader struct {
	values values
	faults faults
}

// refuse notes a fault of a parameter, or between parameters.
func (q *queryReader) refuse(e *tollgate.Error) { q.faults.add(e) }

// wrong notes what is wrong with a parameter, such as "is a date".
func (q *queryReader) wrong(name, how string) { q.faults.wrong(name, how) }

// err is what is wrong with the query, nil when nothing is.
func (q *queryReader) err() error { return q.faults.err() }

// limit is the page size, 1–100, by default 20 (interface §0).
func (q *queryReader) limit() int { return q.number("limit", 20, 1, 100) }

func (q *queryReader) number(name string, fallback, least, most int) int {
	text, ok := q.values[name]
	if !ok {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most || strconv.Itoa(n) != text {
		q.wrong(name, fmt.Sprintf("is a whole number from %d to %d", least, most))
	}
	return n
}

// id is an identifier to filter by; one that does not exist selects nothing.
func (q *queryReader) id(name string) string {
	text, ok := q.values[name]
	if ok && !tollgate.ValidID(text) {
		q.wrong(name, "is an identifier")
	}
	return text
}

// instant is an RFC 3339 time, 0 when absent.
func (q *queryReader) instant(name string) tollgate.Instant {
	text, ok := q.values[name]
	if !ok {
		return 0
	}
	at, err := tollgate.ParseInstant(text)
	if err != nil {
		q.wrong(name, "is an RFC 3339 time such as 2026-11-21T18:16:28Z")
		return 0
	}
	q.values[name] = at.String() // one spelling, so that cursors compare
	return at
}

// choices is a comma-separated list of known words, in order and each once.
func (q *queryReader) choices(name string, known []string) []string {
	text, ok := q.values[name]
	if !ok {
		return nil
	}
	list := strings.Split(text, ",")
	for _, word := range list {
		if !slices.Contains(known, word) {
			q.wrong(name, "is a comma-separated list of "+strings.Join(known, ", "))
			return nil
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	q.values[name] = strings.Join(list, ",")
	return list
}

// choice is one of the known words, fallback when absent.
func (q *queryReader) choice(name, fallback string, known ...string) string {
	text, ok := q.values[name]
	if !ok {
		return fallback
	}
	if !slices.Contains(known, text) {
		q.wrong(name, "is one of "+strings.Join(known, ", "))
		return fallback
	}
	return text
}

// text is free text of at most max characters.
func (q *queryReader) text(name string, max int) string {
	text := q.values[name]
	if err := tollgate.CheckText(name, text, max); err != nil {
		q.faults.addError(err)
	}
	return text
}

// payee and currency filter by what a payment has; as filters they are wrong
// in form, not in meaning. What is no payee any more is one that an earlier
// release may have stored.
func (q *queryReader) payee(name string) string {
	text, ok := q.values[name]
	if !ok {
		return ""
	}
	payee, err := tollgate.ParsePayee(text)
	canonical := payee.String()
	if err != nil {
		if canonical, ok = tollgate.EarlierPayee(text); !ok {
			q.faults.add(tollgate.Invalid(name, "%s", problem.From(err).Message))
			return ""
		}
	}
	q.values[name] = canonical
	return canonical
}

func (q *queryReader) currency(name string) string {
	text, ok := q.values[name]
	if !ok {
		return ""
	}
	if _, err := tollgate.ParseCurrency(text); err != nil {
		q.faults.add(tollgate.Invalid(name, "%s", problem.From(err).Message))
	}
	return text
}

// eventTypes is the filter of events by type, in order and each once.
func (q *queryReader) eventTypes() tollgate.TypeFilter {
	text, ok := q.values["types"]
	if !ok {
		return nil
	}
	filter, err := tollgate.ParseTypeFilter("types", text)
	if err != nil {
		q.faults.addError(err)
	}
	slices.Sort(filter)
	filter = slices.Compact(filter)
	q.values["types"] = strings.Join(filter, ",")
	return filter
}

// deliveredType is an event type of which there can be deliveries.
func (q *queryReader) deliveredType(name string) string {
	text, ok := q.values[name]
	if !ok {
		return ""
	}
	for _, t := range tollgate.EventTypes {
		if t.Deliverable() && string(t) == text {
			return text
		}
	}
	q.wrong(name, "is one event type that is delivered, such as payment.captured")
	return ""
}

// words is a comma-separated list of words of letters, dots and underscores.
func (q *queryReader) words(name string) []string {
	text, ok := q.values[name]
	if !ok {
		return nil
	}
	list := strings.Split(text, ",")
	for _, word := range list {
		if word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_.") != "" {
			q.wrong(name, "is a comma-separated list of types such as payment.create")
			return nil
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	q.values[name] = strings.Join(list, ",")
	return list
}
