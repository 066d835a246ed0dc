package handlers

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"tollgate"
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
			found.add(tollgate.Invalid(name, "%s may stand once.", name))
		case valueErr != nil || !utf8.ValidString(value) || strings.Contains(rawValue, ";"):
			found.add(tollgate.Invalid(name, "%s is not percent-encoded UTF-8.", name))
		case value == "":
			found.add(tollgate.Invalid(name, "%s is empty; leave it out instead.", name))
		case strings.ContainsFunc(value, unicode.IsControl):
			found.add(tollgate.Invalid(name, "%s must not hold control characters.", name))
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

// limit is the page size, 1–100, by default 20 (interface §0).
func (q *queryReader) limit() int { return q.number("limit", 20, 1, 100) }

func (q *queryReader) number(name string, fallback, least, most int) int {
	text, ok := q.values[name]
	if !ok {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most || strconv.Itoa(n) != text {
		q.faults.add(tollgate.Invalid(name, "%s is a whole number from %d to %d.", name, least, most))
	}
	return n
}

// id is an identifier to filter by; one that does not exist selects nothing.
func (q *queryReader) id(name string) string {
	text, ok := q.values[name]
	if ok && !tollgate.ValidID(text) {
		q.faults.add(tollgate.Invalid(name, "%s is an identifier.", name))
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
		q.faults.add(tollgate.Invalid(name, "%s is an RFC 3339 time such as 2026-11-21T18:16:28Z.", name))
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
			q.faults.add(tollgate.Invalid(name, "%s is a comma-separated list of %s.", name, strings.Join(known, ", ")))
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
		q.faults.add(tollgate.Invalid(name, "%s is one of %s.", name, strings.Join(known, ", ")))
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
