package input

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

// Values are the parameters of a query, each once.
type Values map[string]string

// ParseQuery reads a query strictly: a name that the route does not have, one
// that stands twice, and what is not percent-encoded UTF-8 are faults, not
// things to guess about.
func ParseQuery(raw string, names []string) (Values, error) {
	query := make(Values)
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
			found.Refuse(tollgate.Invalid("query", "The query is not percent-encoded UTF-8."))
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
	return query, found.Err()
}

// Query reads parameters, collecting every fault.
type Query struct {
	Values Values
	faults
}

// limit is the page size, 1–100, by default 20 (interface §0).
func (q *Query) limit() int { return q.Number("limit", 20, 1, 100) }

// Number is a whole number, fallback when absent.
func (q *Query) Number(name string, fallback, least, most int) int {
	text, ok := q.Values[name]
	if !ok {
		return fallback
	}
	n, how := whole(text, least, most)
	if how != "" {
		q.wrong(name, how)
	}
	return n
}

// whole reads a whole number without fraction and exponent; how says what one is.
func whole(text string, least, most int) (n int, how string) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most || strconv.Itoa(n) != text {
		how = fmt.Sprintf("is a whole number from %d to %d", least, most)
	}
	return n, how
}

// ID is an identifier to filter by; one that does not exist selects nothing.
func (q *Query) ID(name string) string {
	text, ok := q.Values[name]
	if ok && !tollgate.ValidID(text) {
		q.wrong(name, "is an identifier")
	}
	return text
}

// IDs is the one identifier to filter by, or nil.
func (q *Query) IDs(name string) []string {
	if id := q.ID(name); id != "" {
		return []string{id}
	}
	return nil
}

const instantForm = "is an RFC 3339 time such as 2026-11-21T18:16:28Z"

// Instant is an RFC 3339 time, 0 when absent.
func (q *Query) Instant(name string) tollgate.Instant {
	text, ok := q.Values[name]
	if !ok {
		return 0
	}
	at, err := tollgate.ParseInstant(text)
	if err != nil {
		q.wrong(name, instantForm)
		return 0
	}
	q.Values[name] = at.String() // one spelling, so that cursors compare
	return at
}

// Choices is a comma-separated list of known words, in order and each once.
func (q *Query) Choices(name string, known []string) []string {
	return q.list(name, "is a comma-separated list of "+strings.Join(known, ", "), func(word string) bool { return slices.Contains(known, word) })
}

// Words is a comma-separated list of words of letters, dots and underscores.
func (q *Query) Words(name string) []string {
	return q.list(name, "is a comma-separated list of types such as payment.create", func(word string) bool {
		return word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_.") == ""
	})
}

// TypePatterns is such a list in which payment.* is all that begins so.
func (q *Query) TypePatterns(name string) []string {
	return q.list(name, "is a comma-separated list of types such as payment.create, or of patterns such as payment.*", func(word string) bool {
		name := strings.TrimSuffix(word, ".*")
		return name != "" && len(name) <= 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_.") == ""
	})
}

func (q *Query) list(name, form string, known func(word string) bool) []string {
	text, ok := q.Values[name]
	if !ok {
		return nil
	}
	list := strings.Split(text, ",")
	for _, word := range list {
		if !known(word) {
			q.wrong(name, form)
			return nil
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	q.Values[name] = strings.Join(list, ",")
	return list
}

// Choice is one of the known words, fallback when absent.
func (q *Query) Choice(name, fallback string, known ...string) string {
	text, ok := q.Values[name]
	if !ok {
		return fallback
	}
	if !slices.Contains(known, text) {
		q.wrong(name, "is one of "+strings.Join(known, ", "))
		return fallback
	}
	return text
}

// Text is free text of at most max characters.
func (q *Query) Text(name string, max int) string {
	text := q.Values[name]
	if err := tollgate.CheckText(name, text, max); err != nil {
		q.Refuse(problem.From(err))
	}
	return text
}

// Payee and currency filter by what a payment has; as filters they are wrong
// in form, not in meaning. What is no payee any more is one that an earlier
// release may have stored.
func (q *Query) Payee(name string) string {
	text, ok := q.Values[name]
	if !ok {
		return ""
	}
	payee, err := tollgate.ParsePayee(text)
	canonical := payee.String()
	if err != nil {
		if canonical, ok = tollgate.EarlierPayee(text); !ok {
			q.Refuse(tollgate.Invalid(name, "%s", problem.From(err).Message))
			return ""
		}
	}
	q.Values[name] = canonical
	return canonical
}

func (q *Query) Currency(name string) string {
	text, ok := q.Values[name]
	if !ok {
		return ""
	}
	if _, err := tollgate.ParseCurrency(text); err != nil {
		q.Refuse(tollgate.Invalid(name, "%s", problem.From(err).Message))
	}
	return text
}

// EventTypes is the filter of events by type, in order and each once.
func (q *Query) EventTypes() tollgate.TypeFilter {
	text, ok := q.Values["types"]
	if !ok {
		return nil
	}
	filter, err := tollgate.ParseTypeFilter("types", text)
	if err != nil {
		q.Refuse(problem.From(err))
	}
	slices.Sort(filter)
	filter = slices.Compact(filter)
	q.Values["types"] = strings.Join(filter, ",")
	return filter
}

// DeliveredType is an event type of which there can be deliveries.
func (q *Query) DeliveredType(name string) string {
	text, ok := q.Values[name]
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
