package tollgate

import (
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
		Row:     Payment{}, Columns: words(`id created_at merchant_account_id status amount currency payee amount_capturable amount_captured
			amount_released capture_method capture_before fee_total ticket_id perimeter_id perimeter_version perimeter_decision
			perimeter_reason reference description metadata cancellation_reason authorized_at captured_at canceled_at expired_at
			updated_at`),
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

var transactionColumns = words(`id created_at type status payment_id capture_id payout_id ticket_id
	merchant_account_id amount currency payee reference batch_date available_on updated_at`)

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
