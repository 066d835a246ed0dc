// Package hashes says which fields of a struct its hash in Redis has, and how.
package hashes

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
)

// Table is the fields of a struct that its hash has; those that change stand
// first. It is made of the struct's tags, hash:"name[,changes][,form]": a field that
// changes is written by every change of the object, and form is optional (empty
// while it is not there), date, sum (more digits than an amount) or the prefix of an
// identifier.
type Table []column

type column struct {
	name     string
	argument any // the name, boxed once
	index    []int
	changes  bool
	form     string
	optional bool     // it is empty while it is not there
	known    []string // the words that it can be
}

// knownWords are what fields of a type can be.
var knownWords = map[reflect.Type][]string{
	reflect.TypeFor[tollgate.PaymentStatus]():   tollgate.PaymentStatuses,
	reflect.TypeFor[tollgate.CaptureMethod]():   {string(tollgate.CaptureManual), string(tollgate.CaptureAutomatic)},
	reflect.TypeFor[tollgate.Decision]():        {string(tollgate.DecisionAllow), string(tollgate.DecisionDeny), string(tollgate.DecisionReview)},
	reflect.TypeFor[tollgate.TransactionType](): tollgate.TransactionTypes,
}

// New reads the tags of a struct, and of the structs in it.
func New[T any]() Table { return tableOf(reflect.TypeFor[T]()) }

func tableOf(t reflect.Type, within ...int) (table Table) {
	var rest Table
	for f := range t.Fields() {
		h := column{index: append(slices.Clone(within), f.Index...), known: knownWords[f.Type]}
		tag, stored := f.Tag.Lookup("hash")
		if !stored {
			if f.Type.Kind() == reflect.Struct {
				rest = append(rest, tableOf(f.Type, h.index...)...)
			}
			continue
		}
		h.name, h.form, _ = strings.Cut(tag, ",")
		h.form, h.changes = strings.CutPrefix(h.form, "changes")
		h.argument, h.form = h.name, strings.TrimPrefix(h.form, ",")
		h.optional = h.form == "optional" || slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Map, reflect.Int}, f.Type.Kind())
		if h.changes {
			table = append(table, h)
		} else {
			rest = append(rest, h)
		}
	}
	return append(table, rest...)
}

// Pairs are the envelope and the fields of an object, or of a change of it. What is
// empty takes no room.
func (t Table) Pairs(object any, isNew bool) rediskv.Pairs {
	f, row := make(rediskv.Pairs, 0, 2*len(t)+4), reflect.ValueOf(object).Elem()
	f.Set(rediskv.EnvelopeField, rediskv.Envelope)
	for i := range t {
		h := &t[i]
		if !isNew && !h.changes {
			break
		}
		if text := h.textOf(row.FieldByIndex(h.index)); text != "" {
			f = append(f, h.argument, text)
		}
	}
	return f
}

// Changing are the fields of an object that change, without their names.
func (t Table) Changing(object any) (texts []string) {
	texts = make([]string, 0, len(t))
	row := reflect.ValueOf(object).Elem()
	for i := range t {
		if t[i].changes {
			texts = append(texts, t[i].textOf(row.FieldByIndex(t[i].index)))
		}
	}
	return texts
}

// Change puts what Changing has said into the fields of an object.
func (t Table) Change(f rediskv.Fields, texts []string) {
	for i := range t {
		if t[i].changes && i < len(texts) {
			f[t[i].name] = texts[i]
		}
	}
}

func (h *column) textOf(field reflect.Value) string {
	if h.form == "optional" && field.IsZero() {
		return ""
	}
	switch v := field.Addr().Interface().(type) {
	case *tollgate.Money:
		if h.form == "optional" && v.Minor == 0 {
			return ""
		}
		return strconv.FormatInt(v.Minor, 10)
	case *tollgate.Instant:
		return rediskv.Milli(*v)
	case *int64, *int:
		return strconv.FormatInt(field.Int(), 10)
	case **string:
		if *v == nil {
			return ""
		}
		return **v
	case *tollgate.Metadata:
		if len(*v) == 0 {
			return ""
		}
		b, err := json.Marshal(v, json.Deterministic(true))
		if err != nil {
			panic(err) // strings only, checked to be UTF-8
		}
		return string(b)
	default:
		return field.String()
	}
}

// Read reads the fields into an object.
func (t Table) Read(r *rediskv.Stored, object any) {
	currency, row := r.Currency("cur"), reflect.ValueOf(object).Elem()
	for i := range t {
		h := &t[i]
		if h.optional && r.Fields[h.name] == "" {
			continue
		}
		field := row.FieldByIndex(h.index)
		switch v := field.Addr().Interface().(type) {
		case *tollgate.Money:
			*v = tollgate.Money{Minor: r.Int(h.name), Currency: currency}
			if h.form != "sum" && v.Minor > tollgate.MaxMinor {
				r.Fault(h.name)
			}
		case *tollgate.Currency:
			*v = currency
		case *tollgate.Instant:
			if h.optional {
				*v = r.Moment(h.name)
			} else {
				*v = r.Instant(h.name)
			}
		case *int64, *int:
			field.SetInt(r.Int(h.name))
		case *tollgate.Metadata:
			r.JSON(h.name, v)
		case **string:
			text := h.text(r)
			*v = &text
		default:
			field.SetString(h.text(r))
		}
	}
}

func (h *column) text(r *rediskv.Stored) string {
	switch {
	case strings.HasSuffix(h.form, "_"):
		return r.Of(h.name, h.form)
	case h.known != nil:
		return r.Word(h.name, h.known...)
	case h.form == "date":
		if _, err := tollgate.ParseDate(r.Fields[h.name]); err != nil {
			r.Fault(h.name)
		}
	}
	return r.Text(h.name)
}
