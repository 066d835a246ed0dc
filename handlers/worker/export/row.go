package export

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
)

// AppendHeader appends what stands before the first row of an export's file.
func AppendHeader(b []byte, e *tollgate.Export) []byte {
	if e.Format != tollgate.FormatCSV {
		return b
	}
	l := csvLine{b: b}
	for _, name := range e.Dataset.Columns() {
		l.plain(name)
	}
	return l.end()
}

// AppendRow appends a row in the export's format, with its line's end.
func AppendRow(b []byte, e *tollgate.Export, r tollgate.ExportRow) ([]byte, error) {
	if e.Format != tollgate.FormatCSV {
		text, err := r.JSON()
		return append(append(b, text...), '\n'), err
	}
	l := csvLine{b: b}
	columns := columnsOf[e.Dataset]
	if r.Damaged != nil {
		l.damaged(r.Damaged, len(columns))
		return l.end(), nil
	}
	row := reflect.ValueOf(r.Value).Elem()
	for _, field := range columns {
		l.cell(row.FieldByIndex(field))
	}
	return l.end(), l.err
}

// damaged is the row of what cannot be read: its id, and a word in every other
// column that no program takes for an amount and nobody overlooks.
func (l *csvLine) damaged(d *tollgate.DamagedObject, columns int) {
	l.plain(d.ID)
	for range columns - 1 {
		l.plain("damaged")
	}
}

// columnsOf are the fields of each dataset's columns in its rows.
var columnsOf = func() map[tollgate.Dataset][][]int {
	all := map[tollgate.Dataset][][]int{}
	for _, k := range tollgate.DatasetKinds {
		for _, path := range k.Columns {
			field, ok := fieldOf(reflect.TypeOf(k.Row), path)
			if !ok {
				panic(fmt.Sprintf("worker: %T has no member for the column %s", k.Row, path))
			}
			all[k.Name] = append(all[k.Name], field)
		}
	}
	return all
}()

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
	case *tollgate.Money:
		l.separate()
		l.b = value.AppendText(l.b)
	case *tollgate.Instant:
		l.separate()
		if *value != 0 {
			l.b = append(l.b, value.String()...)
		}
	case **string:
		text := ""
		if *value != nil {
			text = **value
		}
		l.text(text)
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
