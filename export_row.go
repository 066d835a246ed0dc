package tollgate

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ExportRow is one row of an export.
type ExportRow struct {
	Value   any            // *Transaction, *Payment, *Ticket, *Event or *AuditEntry
	Text    jsontext.Value // of events and audit entries, as they were written
	Damaged *DamagedObject // stands in the place of what cannot be read
}

// JSON is the row as the API answers the object, without a line's end.
func (r ExportRow) JSON() (jsontext.Value, error) {
	switch {
	case r.Damaged != nil:
		return json.Marshal(r.Damaged)
	case r.Text != nil:
		return r.Text, nil
	default:
		return json.Marshal(r.Value, json.Deterministic(true))
	}
}

// AppendHeader appends what stands before the first row.
func (e *Export) AppendHeader(b []byte) []byte {
	if e.Format != FormatCSV {
		return b
	}
	l := csvLine{b: b}
	for _, c := range e.Dataset.Kind().columns {
		l.plain(c.name)
	}
	return l.end()
}

// AppendRow appends a row in the export's format, with its line's end.
func (e *Export) AppendRow(b []byte, r ExportRow) ([]byte, error) {
	if e.Format != FormatCSV {
		text, err := r.JSON()
		return append(append(b, text...), '\n'), err
	}
	l := csvLine{b: b}
	columns := e.Dataset.Kind().columns
	if r.Damaged != nil {
		l.damaged(r.Damaged, len(columns))
		return l.end(), nil
	}
	row := reflect.ValueOf(r.Value).Elem()
	for _, c := range columns {
		l.cell(row.FieldByIndex(c.field))
	}
	return l.end(), l.err
}

// damaged is the row of what cannot be read: its id, and a word in every other
// column that no program takes for an amount and nobody overlooks.
func (l *csvLine) damaged(d *DamagedObject, columns int) {
	l.plain(d.ID)
	for range columns - 1 {
		l.plain("damaged")
	}
}

// column is a column of a dataset, and the field whose value it has.
type column struct {
	name  string
	field []int
}

// columnsOf finds the fields of columns in a row. A column has the name of a
// member of its JSON; perimeter_id is the member id of the object perimeter, and
// actor.client_id is that of the object actor, in a column client_id. What is
// neither text, a number, an amount nor a time is JSON in one column.
func columnsOf(row any, names string) (list []column) {
	for _, name := range words(names) {
		field, ok := fieldOf(reflect.TypeOf(row), name)
		if !ok {
			panic(fmt.Sprintf("tollgate: %T has no member for the column %s", row, name))
		}
		list = append(list, column{name[strings.IndexByte(name, '.')+1:], field})
	}
	return list
}

func fieldOf(t reflect.Type, name string) (field []int, ok bool) {
	for f := range t.Fields() {
		member, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if member == name {
			return f.Index, true
		}
		if rest, inside := strings.CutPrefix(name, member); inside && f.Type.Kind() == reflect.Struct && (rest[0] == '_' || rest[0] == '.') {
			if inner, ok := fieldOf(f.Type, rest[1:]); ok {
				return append(f.Index, inner...), true
			}
		}
	}
	return nil, false
}

// cell appends the value of a field, which can be addressed.
func (l *csvLine) cell(v reflect.Value) {
	switch value := v.Addr().Interface().(type) {
	case *Money:
		l.separate()
		l.b = value.AppendText(l.b)
	case *Instant:
		l.separate()
		if *value != 0 {
			l.b = value.Time().AppendFormat(l.b, instantLayout)
		}
	case **string:
		l.text(given(*value))
	case *jsontext.Value:
		l.plain(string(*value))
	default:
		switch v.Kind() {
		case reflect.String:
			l.text(v.String())
		case reflect.Int, reflect.Int64:
			l.separate()
			l.b = strconv.AppendInt(l.b, v.Int(), 10)
		default:
			text, err := json.Marshal(value, json.Deterministic(true))
			l.plain(string(text)) // begins with a bracket, never as a formula
			if l.err == nil {
				l.err = err
			}
		}
	}
}
