package tollgate

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// PrefixExport begins the identifier of an export.
const PrefixExport = "exp_"

// Statuses of payments and payouts, for filters and for the indexes: a
// payment's authorization has its status, which no other transaction can have.
var (
	PaymentStatuses = []string{
		string(RequiresReview), string(Authorized), string(PartiallyCaptured), string(Captured), string(Declined), string(Canceled), string(Expired),
	}
	PayoutStatuses = []string{string(PayoutStatusPending), string(PayoutStatusInTransit), string(PayoutStatusPaid), string(PayoutStatusFailed), string(PayoutStatusHeld)}
)

// The formats of a file: RFC 4180 and one JSON object a line.
const (
	FormatCSV    = "csv"
	FormatNDJSON = "ndjson"
)

// ExportStatus is a state of an export.
type ExportStatus string

// The states; nobody is at work any more in the last four.
const (
	ExportStatusPending   ExportStatus = "pending"
	ExportStatusRunning   ExportStatus = "running"
	ExportStatusSucceeded ExportStatus = "succeeded"
	ExportStatusFailed    ExportStatus = "failed"
	ExportStatusCanceled  ExportStatus = "canceled"
	ExportStatusExpired   ExportStatus = "expired"
)

// Export is a file that is being made of a dataset, and the JSON of it.
type Export struct {
	Object     string            `json:"object"` // "export"
	ID         string            `json:"id"`
	CreatedAt  Instant           `json:"created_at"`
	HistoryID  *string           `json:"history_id"` // nil of one that an earlier release made
	Dataset    Dataset           `json:"dataset"`
	Format     string            `json:"format"`
	Filters    map[string]string `json:"filters"`
	Status     ExportStatus      `json:"status"`
	Progress   ExportProgress    `json:"progress"`
	Preview    []jsontext.Value  `json:"preview"` // the first rows, as the API answers them
	Result     *ExportResult     `json:"result"`
	Error      *ExportError      `json:"error"`
	StartedAt  Instant           `json:"started_at"`
	FinishedAt Instant           `json:"finished_at"`

	// Damaged: it is stored and cannot be read; only Object and ID count.
	Damaged bool `json:"-"`
}

// ExportProgress counts rows. The total is how many there may be at most, and
// exact in the end: what the filters left out on the way is taken off.
type ExportProgress struct {
	RowsDone  int64  `json:"rows_done"`
	RowsTotal *int64 `json:"rows_total"` // null in the answer that makes the export
}

// ExportResult is the file that was made.
type ExportResult struct {
	URL       string  `json:"url"`
	Rows      int64   `json:"rows"`
	Bytes     int64   `json:"bytes"`
	SHA256    string  `json:"sha256"` // of the file, in hex
	ExpiresAt Instant `json:"expires_at"`
}

// ExportError is why an export failed.
type ExportError struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Ended reports whether nobody is at work on an export any more.
func (s ExportStatus) Ended() bool { return s != ExportStatusPending && s != ExportStatusRunning }

// At is the export as it stands at a moment: its file expires by itself, and of
// its rows nothing is left.
func (e Export) At(now Instant) Export {
	if e.Status == ExportStatusSucceeded && now >= e.Result.ExpiresAt {
		e.Status, e.Preview = ExportStatusExpired, nil
	}
	return e
}

// ExportEventData is the data of every export.* event.
type ExportEventData struct {
	ExportID  string       `json:"export_id"`
	Dataset   Dataset      `json:"dataset"`
	Format    string       `json:"format"`
	Status    ExportStatus `json:"status"`
	Rows      *int64       `json:"rows"` // these four of export.succeeded, else null
	Bytes     *int64       `json:"bytes"`
	SHA256    *string      `json:"sha256"`
	ExpiresAt Instant      `json:"expires_at"`
	Error     *ExportError `json:"error"` // of export.failed
}

// EventData describes the export as it is.
func (e Export) EventData() ExportEventData {
	d := ExportEventData{ExportID: e.ID, Dataset: e.Dataset, Format: e.Format, Status: e.Status, Error: e.Error}
	if r := e.Result; r != nil {
		d.Rows, d.Bytes, d.SHA256, d.ExpiresAt = &r.Rows, &r.Bytes, &r.SHA256, r.ExpiresAt
	}
	return d
}

// ExportFilter selects the rows of an export; empty members select all. It is
// stored with the job: who may see what was decided when it was made.
type ExportFilter struct {
	Accounts      []string `json:"accounts,omitempty"` // those of the grant, or the one of them that was named
	Statuses      []string `json:"statuses,omitempty"`
	Types         []string `json:"types,omitempty"` // of transactions or audit entries, patterns of events
	PaymentID     string   `json:"payment_id,omitempty"`
	PayoutID      string   `json:"payout_id,omitempty"`
	ObjectID      string   `json:"object_id,omitempty"`
	Payee         string   `json:"payee,omitempty"`
	Currency      string   `json:"currency,omitempty"`
	Reference     string   `json:"reference,omitempty"`
	Outcome       string   `json:"outcome,omitempty"`
	CreatedAfter  Instant  `json:"created_after,omitempty"`  // strictly later
	CreatedBefore Instant  `json:"created_before,omitempty"` // strictly earlier
}

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
}

// DatasetKinds is the one table of the datasets. Where their rows are found and what
// a filter selects, the store knows; their columns, who writes the file.
var DatasetKinds = []DatasetKind{
	{DatasetTransactions, words("status type merchant_account_id payment_id payout_id payee currency reference created_after created_before"), TransactionStatuses, false},
	{DatasetPayments, words("status merchant_account_id payment_id payee currency reference created_after created_before"), PaymentStatuses, false},
	{DatasetTickets, words("merchant_account_id payment_id payee currency created_after created_before"), nil, false},
	{DatasetEvents, words("types merchant_account_id object_id created_after created_before"), nil, false},
	{DatasetPayouts, words("status merchant_account_id payout_id currency created_after created_before"), PayoutStatuses, false}, // their transactions
	{DatasetAudit, words("types outcome created_after created_before"), nil, true},
}

func words(list string) []string { return strings.Fields(list) }

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
