package export

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/rediskv/exports"
)

// AppendHeader appends what stands before the first row of an export's file.
func AppendHeader(b []byte, e *tollgate.Export) []byte {
	if e.Format != tollgate.FormatCSV {
		return b
	}
	l := csvLine{b: b}
	for _, name := range Columns(e.Dataset) {
		l.plain(name)
	}
	return l.end()
}

// AppendRow appends a row in the export's format, with its line's end.
func AppendRow(b []byte, e *tollgate.Export, r exports.Row) ([]byte, error) {
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

// rows are, by dataset, the zero value of a row and its columns, which name members of
// its JSON: perimeter_id is the member id of the object perimeter, and actor.client_id
// that of the object actor, in a column client_id. What is neither text, a number, an
// amount nor a time is JSON in one column. Their order does not change; new ones are
// added at the end.
var rows = map[tollgate.Dataset]struct {
	zero    any
	columns []string
}{
	tollgate.DatasetTransactions: {tollgate.Transaction{}, membersOf(reflect.TypeFor[tollgate.Transaction](), "")},
	tollgate.DatasetPayments:     {tollgate.Payment{}, membersOf(reflect.TypeFor[tollgate.Payment](), "")},
	tollgate.DatasetTickets: {tollgate.Ticket{}, strings.Fields(`id created_at payment_id merchant_account_id amount currency payee total decision perimeter_id
		perimeter_version perimeter_decision perimeter_reason lines evaluations event_ids`)},
	tollgate.DatasetEvents:  {tollgate.Event{}, strings.Fields("id created_at type schema_version sequence organization_id merchant_account_id request_id data")},
	tollgate.DatasetPayouts: {tollgate.Transaction{}, membersOf(reflect.TypeFor[tollgate.Transaction](), "")},
	tollgate.DatasetAudit: {tollgate.AuditEntry{}, strings.Fields(`id time type outcome seq reason actor.client_id actor.grant_id actor.kid request_id request_method
		request_route request_status target_type target_id`)},
}

// membersOf are the members of a row's JSON in their order, but for those with
// csv:"-"; those of an object in it have its name in front.
func membersOf(t reflect.Type, within string) (names []string) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "object", name == "-", f.Tag.Get("csv") == "-":
		case f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[tollgate.Money]():
			names = append(names, membersOf(f.Type, name+"_")...)
		default:
			names = append(names, within+name)
		}
	}
	return names
}

// Columns are the names of a dataset's columns in CSV.
func Columns(d tollgate.Dataset) (names []string) {
	for _, path := range rows[d].columns {
		names = append(names, path[strings.IndexByte(path, '.')+1:])
	}
	return names
}

// columnsOf are the fields of each dataset's columns in its rows.
var columnsOf = func() map[tollgate.Dataset][][]int {
	all := map[tollgate.Dataset][][]int{}
	for d, row := range rows {
		for _, path := range row.columns {
			field, ok := fieldOf(reflect.TypeOf(row.zero), path)
			if !ok {
				panic(fmt.Sprintf("worker: %T has no member for the column %s", row.zero, path))
			}
			all[d] = append(all[d], field)
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
