// Package problem is what HTTP says of an error (RFC 9457, interface §7).
package problem

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/rediskv"
)

// kind is what HTTP says of a code.
type kind struct {
	status int
	title  string
}

// kinds gives every code its status (interface §7).
var kinds = map[tollgate.Code]kind{
	tollgate.CodeInvalidJSON:              {http.StatusBadRequest, "Invalid JSON"},
	tollgate.CodeParameterMissing:         {http.StatusBadRequest, "Parameter missing"},
	tollgate.CodeParameterInvalid:         {http.StatusBadRequest, "Parameter invalid"},
	tollgate.CodeParameterUnknown:         {http.StatusBadRequest, "Parameter unknown"},
	tollgate.CodeCursorInvalid:            {http.StatusBadRequest, "Cursor invalid"},
	tollgate.CodeCursorMismatch:           {http.StatusBadRequest, "Cursor belongs to other filters"},
	tollgate.CodeIdempotencyKeyRequired:   {http.StatusBadRequest, "Idempotency-Key required"},
	tollgate.CodeIdempotencyKeyInvalid:    {http.StatusBadRequest, "Idempotency-Key invalid"},
	tollgate.CodeTokenMissing:             {http.StatusUnauthorized, "Access token missing"},
	tollgate.CodeTokenInvalid:             {http.StatusUnauthorized, "Access token invalid"},
	tollgate.CodeTokenExpired:             {http.StatusUnauthorized, "Access token expired"},
	tollgate.CodeScopeMissing:             {http.StatusForbidden, "Scope missing"},
	tollgate.CodeMerchantAccountForbidden: {http.StatusForbidden, "Merchant account outside the grant"},
	tollgate.CodePerimeterDenied:          {http.StatusForbidden, "Denied by the perimeter"},
	tollgate.CodeNotFound:                 {http.StatusNotFound, "Not found"},
	tollgate.CodeMethodNotAllowed:         {http.StatusMethodNotAllowed, "Method not allowed"},
	tollgate.CodeNotAcceptable:            {http.StatusNotAcceptable, "Not acceptable"},
	tollgate.CodeCursorExpired:            {http.StatusGone, "Cursor expired"},
	tollgate.CodeExportExpired:            {http.StatusGone, "Export expired"},
	tollgate.CodeHistoryChanged:           {http.StatusGone, "History changed"},
	tollgate.CodeBodyTooLarge:             {http.StatusRequestEntityTooLarge, "Body too large"},
	tollgate.CodeURITooLong:               {http.StatusRequestURITooLong, "URI too long"},
	tollgate.CodeMediaTypeUnsupported:     {http.StatusUnsupportedMediaType, "Media type unsupported"},
	tollgate.CodeRangeNotSatisfiable:      {http.StatusRequestedRangeNotSatisfiable, "Range not satisfiable"},
	tollgate.CodeHeadersTooLarge:          {http.StatusRequestHeaderFieldsTooLarge, "Headers too large"},
	tollgate.CodePaymentStateInvalid:      {http.StatusConflict, "Not in this state"},
	tollgate.CodeAuthorizationExpired:     {http.StatusConflict, "Authorization expired"},
	tollgate.CodeDeliveryInProgress:       {http.StatusConflict, "Delivery in progress"},
	tollgate.CodeMerchantAccountInactive:  {http.StatusConflict, "Merchant account inactive"},
	tollgate.CodeExportStateInvalid:       {http.StatusConflict, "Not in this state"},
	tollgate.CodeGrantStateInvalid:        {http.StatusConflict, "Not in this state"},
	tollgate.CodePayoutStateInvalid:       {http.StatusConflict, "Not in this state"},
	tollgate.CodeRuleExists:               {http.StatusConflict, "Rule exists"},
	tollgate.CodeActivationStateInvalid:   {http.StatusConflict, "Not in this state"},
	tollgate.CodeTLSRequired:              {http.StatusMisdirectedRequest, "TLS required"},
	tollgate.CodeAmountInvalid:            {http.StatusUnprocessableEntity, "Amount invalid"},
	tollgate.CodeAmountScaleInvalid:       {http.StatusUnprocessableEntity, "Too many decimal places"},
	tollgate.CodeCurrencyUnsupported:      {http.StatusUnprocessableEntity, "Currency unsupported"},
	tollgate.CodePayeeInvalid:             {http.StatusUnprocessableEntity, "Payee invalid"},
	tollgate.CodeCaptureExceeds:           {http.StatusUnprocessableEntity, "More than can be captured"},
	tollgate.CodeCaptureLimitReached:      {http.StatusUnprocessableEntity, "Too many captures"},
	tollgate.CodeRefundExceeds:            {http.StatusUnprocessableEntity, "More than can be refunded"},
	tollgate.CodeRefundLimitReached:       {http.StatusUnprocessableEntity, "Too many refunds"},
	tollgate.CodeIdempotencyKeyReused:     {http.StatusUnprocessableEntity, "Idempotency-Key reused"},
	tollgate.CodeRuleRejected:             {http.StatusUnprocessableEntity, "Refused by a rule"},
	tollgate.CodeRuleInvalid:              {http.StatusUnprocessableEntity, "Rule invalid"},
	tollgate.CodeRuleSignatureInvalid:     {http.StatusUnprocessableEntity, "Rule signature invalid"},
	tollgate.CodeWebhookURLInvalid:        {http.StatusUnprocessableEntity, "Webhook URL invalid"},
	tollgate.CodeCutoffInvalid:            {http.StatusUnprocessableEntity, "Cutoff invalid"},
	tollgate.CodeQuotaExceeded:            {http.StatusUnprocessableEntity, "Quota exceeded"},
	tollgate.CodeRateLimited:              {http.StatusTooManyRequests, "Too many at once"},
	tollgate.CodeShareExhausted:           {http.StatusTooManyRequests, "Share of a common resource in use"},
	tollgate.CodeInternal:                 {http.StatusInternalServerError, "Internal error"},
	tollgate.CodeRecordDamaged:            {http.StatusInternalServerError, "Stored object cannot be read"},
	tollgate.CodePublishingUnavailable:    {http.StatusNotImplemented, "No rule can be published here"},
	tollgate.CodeRuleFailed:               {http.StatusServiceUnavailable, "A rule failed"},
	tollgate.CodeStoreUnavailable:         {http.StatusServiceUnavailable, "Store unavailable"},
	tollgate.CodeArchiveUnavailable:       {http.StatusServiceUnavailable, "The archive cannot be read"},
	tollgate.CodeCapacityReached:          {http.StatusServiceUnavailable, "No room for more"},
	tollgate.CodeHistoryLost:              {http.StatusServiceUnavailable, "Data may be lost"},
}

// kindOf is 500 for a code that is not in the table.
func kindOf(code tollgate.Code) kind {
	if k, ok := kinds[code]; ok {
		return k
	}
	return kind{http.StatusInternalServerError, "Internal error"}
}

// StatusOf is the HTTP status of a code, 500 for one that is not in the table.
func StatusOf(code tollgate.Code) int { return kindOf(code).status }

// Problem is the JSON of an error (RFC 9457, interface §7).
type Problem struct {
	Type      string                      `json:"type"`
	Title     string                      `json:"title"`
	Status    int                         `json:"status"` // of HTTP
	Code      tollgate.Code               `json:"code"`
	Message   string                      `json:"message"`
	RequestID string                      `json:"request_id"`
	Param     string                      `json:"param,omitempty"`
	Errors    []tollgate.Detail           `json:"errors,omitempty"`
	Rule      *tollgate.Citation          `json:"rule,omitempty"`
	Perimeter *tollgate.PerimeterDecision `json:"perimeter,omitempty"`
	PaymentID string                      `json:"payment_id,omitempty"`
	TicketID  string                      `json:"ticket_id,omitempty"`
	// The payment's own status.
	PaymentStatus tollgate.PaymentStatus `json:"payment_status,omitempty"`
	RulesInForce  []tollgate.Citation    `json:"rules_in_force,omitzero"`
	Currencies    []tollgate.Currency    `json:"currencies,omitzero"`
	Accounts      []string               `json:"merchant_account_ids,omitempty"`
	Quote         jsontext.Value         `json:"quote,omitempty"`
	Since         tollgate.Instant       `json:"since,omitzero"`
}

// Of is the answer to an error that a caller is meant to see.
func Of(e *tollgate.Error, requestID string) rediskv.Answer {
	k := kindOf(e.Code)
	body, err := json.Marshal(Problem{
		Type: "urn:tollgate:error:" + string(e.Code), Title: k.title, Status: k.status, Code: e.Code, Message: e.Message,
		RequestID: requestID, Param: e.Param, Errors: e.Details, Rule: e.Rule, Perimeter: e.Context.Perimeter,
		PaymentID: e.Context.PaymentID, TicketID: e.Context.TicketID, PaymentStatus: e.Context.Status,
		RulesInForce: e.Context.RulesInForce, Currencies: e.Context.Currencies, Accounts: e.Context.Accounts, Quote: e.Context.Quote, Since: e.Context.Since,
	}, json.Deterministic(true))
	if err != nil { // text that is not UTF-8 got past every check
		panic(fmt.Errorf("problem %s: %w", e.Code, err))
	}
	return rediskv.Answer{Status: k.status, Body: body}
}

// New is an error that says nothing of a parameter.
func New(code tollgate.Code, message string) *tollgate.Error {
	return &tollgate.Error{Code: code, Message: message}
}

// From finds what a caller may see of an error. What was not meant for a
// caller is CodeInternal, and the log has the cause.
func From(err error) *tollgate.Error {
	if e, ok := errors.AsType[*tollgate.Error](err); ok {
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return &tollgate.Error{Code: tollgate.CodeStoreUnavailable, Message: "The request took too long.", Cause: err}
	}
	if errors.Is(err, rediskv.ErrStale) {
		return &tollgate.Error{Code: tollgate.CodeStoreUnavailable, Message: "What the service is set up with has changed meanwhile, and nothing was done; try again.", Cause: err}
	}
	return &tollgate.Error{Code: tollgate.CodeInternal, Message: "Something went wrong here; the request id finds it in the log.", Cause: err}
}
