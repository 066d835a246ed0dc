package tollgate

import (
	"reflect"
	"slices"
	"strings"
)

// Dataset is what an export holds.
type Dataset string

// The datasets of interface §10.
const (
	DatasetTransactions Dataset = "transactions"
	DatasetPayments     Dataset = "payments"
	DatasetTickets      Dataset = "tickets"
	DatasetEvents       Dataset = "events"
	DatasetPayouts      Dataset = "payouts"
	DatasetAudit        Dataset = "audit"
)

// DatasetKind is a row of the table of datasets.
type DatasetKind struct {
	Name     Dataset
	Filters  []string // of a request: those of the list, where there is one
	Statuses []string // that the filter status takes
	Whole    bool     // its rows are about the whole organization, and for nobody who sees only some accounts

	// Row is the zero value of a row, and Columns name members of its JSON:
	// perimeter_id is the member id of the object perimeter, and actor.client_id
	// that of the object actor, in a column client_id. What is neither text, a
	// number, an amount nor a time is JSON in one column.
	Row     any
	Columns []string

	selects func(*ExportFilter, any) bool
}

// DatasetKinds is the one table of the datasets. Where their rows are found, the
// store knows. The columns are in an order that does not change; new ones are
// added at the end.
var DatasetKinds = []DatasetKind{
	{
		Name: DatasetTransactions, Statuses: TransactionStatuses, selects: selects((*ExportFilter).transaction),
		Filters: words("status type merchant_account_id payment_id payout_id payee currency reference created_after created_before"),
		Row:     Transaction{}, Columns: transactionColumns,
	},
	{
		Name: DatasetPayments, Statuses: PaymentStatuses, selects: selects((*ExportFilter).payment),
		Filters: words("status merchant_account_id payment_id payee currency reference created_after created_before"),
		Row:     Payment{}, Columns: columnsOf(reflect.TypeFor[Payment](), ""),
	},
	{
		Name: DatasetTickets, selects: selects((*ExportFilter).ticket),
		Filters: words("merchant_account_id payment_id payee currency created_after created_before"),
		Row:     Ticket{}, Columns: words(`id created_at payment_id merchant_account_id amount currency payee total decision perimeter_id
			perimeter_version perimeter_decision perimeter_reason lines evaluations event_ids`),
	},
	{
		Name: DatasetEvents, selects: selects((*ExportFilter).event),
		Filters: words("types merchant_account_id object_id created_after created_before"),
		Row:     Event{}, Columns: words("id created_at type schema_version sequence organization_id merchant_account_id request_id data"),
	},
	{
		Name: DatasetPayouts, Statuses: PayoutStatuses, selects: selects((*ExportFilter).payout), // their transactions
		Filters: words("status merchant_account_id payout_id currency created_after created_before"),
		Row:     Transaction{}, Columns: transactionColumns,
	},
	{
		Name: DatasetAudit, Whole: true, selects: selects((*ExportFilter).entry),
		Filters: words("types outcome created_after created_before"),
		Row:     AuditEntry{}, Columns: words(`id time type outcome seq reason actor.client_id actor.grant_id actor.kid request_id request_method
			request_route request_status target_type target_id`),
	},
}

var transactionColumns = columnsOf(reflect.TypeFor[Transaction](), "")

// columnsOf are the members of a row's JSON in their order, but for those with
// csv:"-"; those of an object in it have its name in front.
func columnsOf(t reflect.Type, within string) (names []string) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "object", name == "-", f.Tag.Get("csv") == "-":
		case f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[Money]():
			names = append(names, columnsOf(f.Type, name+"_")...)
		default:
			names = append(names, within+name)
		}
	}
	return names
}

func words(list string) []string { return strings.Fields(list) }

// selects is a filter of one type of rows as one of any.
func selects[T any](by func(*ExportFilter, *T) bool) func(*ExportFilter, any) bool {
	return func(f *ExportFilter, row any) bool { return by(f, row.(*T)) }
}

// Datasets lists the names of the table.
var Datasets = func() (names []string) {
	for _, k := range DatasetKinds {
		names = append(names, string(k.Name))
	}
	return names
}()

// Kind is the row of a dataset, the zero value of one that there is not.
func (d Dataset) Kind() DatasetKind {
	if i := slices.Index(Datasets, string(d)); i >= 0 {
		return DatasetKinds[i]
	}
	return DatasetKind{}
}

// Columns are the names of a dataset's columns in CSV.
func (d Dataset) Columns() (names []string) {
	for _, path := range d.Kind().Columns {
		names = append(names, path[strings.IndexByte(path, '.')+1:])
	}
	return names
}
