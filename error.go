package tollgate

import (
	"errors"
	"fmt"
)

// Code is the kind of an error, for programs (interface §7). Package handlers/problem
// has the HTTP status of each.
type Code string

// The codes, in the order of their HTTP status.
const (
	CodeInvalidJSON              Code = "invalid_json"
	CodeParameterMissing         Code = "parameter_missing"
	CodeParameterInvalid         Code = "parameter_invalid"
	CodeParameterUnknown         Code = "parameter_unknown"
	CodeCursorInvalid            Code = "cursor_invalid"
	CodeCursorMismatch           Code = "cursor_mismatch"
	CodeIdempotencyKeyRequired   Code = "idempotency_key_required"
	CodeIdempotencyKeyInvalid    Code = "idempotency_key_invalid"
	CodeTokenMissing             Code = "token_missing"
	CodeTokenInvalid             Code = "token_invalid"
	CodeTokenExpired             Code = "token_expired"
	CodeScopeMissing             Code = "scope_missing"
	CodeMerchantAccountForbidden Code = "merchant_account_forbidden"
	CodePerimeterDenied          Code = "perimeter_denied"
	CodeNotFound                 Code = "not_found"
	CodeMethodNotAllowed         Code = "method_not_allowed"
	CodeNotAcceptable            Code = "not_acceptable"
	CodeCursorExpired            Code = "cursor_expired"
	CodeExportExpired            Code = "export_expired"
	CodeHistoryChanged           Code = "history_changed"
	CodeBodyTooLarge             Code = "body_too_large"
	CodeURITooLong               Code = "uri_too_long"
	CodeMediaTypeUnsupported     Code = "media_type_unsupported"
	CodeRangeNotSatisfiable      Code = "range_not_satisfiable"
	CodeHeadersTooLarge          Code = "headers_too_large"
	CodePaymentStateInvalid      Code = "payment_state_invalid"
	CodeAuthorizationExpired     Code = "authorization_expired"
	CodeDeliveryInProgress       Code = "delivery_in_progress"
	CodeMerchantAccountInactive  Code = "merchant_account_inactive"
	CodeExportStateInvalid       Code = "export_state_invalid"
	CodeGrantStateInvalid        Code = "grant_state_invalid"
	CodePayoutStateInvalid       Code = "payout_state_invalid"
	CodeRuleExists               Code = "rule_exists"
	CodeActivationStateInvalid   Code = "activation_state_invalid"
	CodeTLSRequired              Code = "tls_required"
	CodeAmountInvalid            Code = "amount_invalid"
	CodeAmountScaleInvalid       Code = "amount_scale_invalid"
	CodeCurrencyUnsupported      Code = "currency_unsupported"
	CodePayeeInvalid             Code = "payee_invalid"
	CodeCaptureExceeds           Code = "capture_amount_exceeds_capturable"
	CodeCaptureLimitReached      Code = "capture_limit_reached"
	CodeRefundExceeds            Code = "refund_amount_exceeds_refundable"
	CodeRefundLimitReached       Code = "refund_limit_reached"
	CodeIdempotencyKeyReused     Code = "idempotency_key_reused"
	CodeRuleRejected             Code = "rule_rejected"
	CodeRuleInvalid              Code = "rule_invalid"
	CodeRuleSignatureInvalid     Code = "rule_signature_invalid"
	CodeWebhookURLInvalid        Code = "webhook_url_invalid"
	CodeCutoffInvalid            Code = "cutoff_invalid"
	CodeQuotaExceeded            Code = "quota_exceeded"
	CodeRateLimited              Code = "rate_limited"
	CodeShareExhausted           Code = "share_exhausted"
	CodeInternal                 Code = "internal"
	CodeRecordDamaged            Code = "record_damaged"
	CodePublishingUnavailable    Code = "publishing_unavailable"
	CodeRuleFailed               Code = "rule_failed"
	CodeStoreUnavailable         Code = "store_unavailable"
	CodeArchiveUnavailable       Code = "archive_unavailable"
	CodeCapacityReached          Code = "capacity_reached"
	CodeHistoryLost              Code = "history_lost"
)

// Error is one that a caller sees: all of it is in the answer but the cause, which is logged.
type Error struct {
	Code    Code
	Message string
	Param   string         // request parameter at fault, dotted from the body's root
	Details []Detail       // when several parameters are at fault
	Rule    *Citation      // the rule that caused it (spec §7)
	Cause   error          // for the log, never for the caller
	Damaged *DamagedObject // of CodeRecordDamaged
	Context ErrorContext
}

// Detail is one of several faults in a request.
type Detail struct {
	Param   string `json:"param"`
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// ErrorContext is what some errors carry beside code and message: the
// perimeter's decision (spec §7), the payment it concerns and that payment's
// status, the rules in force.
type ErrorContext struct {
	Perimeter *PerimeterDecision
	PaymentID string
	TicketID  string
	Status    PaymentStatus
	// Of the rule set, where an activation does not say which of them it
	// replaces; nil elsewhere.
	RulesInForce []Citation
	// In which a rule charges nothing without saying that this is meant; nil
	// elsewhere.
	Currencies []Currency
	// The merchant accounts to choose from, where none was named.
	Accounts []string
	// The JSON of a quote for an account that takes no payments at the moment.
	Quote []byte
	// From when on data of an earlier history may be missing; 0: not known, or nothing is.
	Since Instant
}

func (e *Error) Error() string {
	text := string(e.Code) + ": " + e.Message
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.Cause }

// quoted prints hostile text for a message: escaped and cut.
func quoted(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%q…", s[:40])
	}
	return fmt.Sprintf("%q", s)
}

// NotFound says that there is no such object, or none for this caller.
func NotFound() *Error { return &Error{Code: CodeNotFound, Message: "There is no such object."} }

// Invalid is a CodeParameterInvalid error for one parameter.
func Invalid(param, format string, args ...any) *Error {
	return &Error{Code: CodeParameterInvalid, Param: param, Message: fmt.Sprintf(format, args...)}
}

// DamagedObject stands in a list or an export in the place of an object that
// is stored and cannot be read (interface §11, "damage"). It has nothing of
// the object but its name: what can still be read of it is not to be trusted.
type DamagedObject struct {
	Object  string `json:"object"`
	ID      string `json:"id"`
	Damaged bool   `json:"damaged"` // true

	MerchantAccountID string `json:"-"` // as far as it is known
}

// Damage is the error of a stored object that cannot be read: code
// record_damaged, whatever the cause is. A fault in what is stored is never the
// client's, so no error of the cause gets through.
func Damage(object, id string, cause error) *Error {
	if known := DamageOf(cause); known != nil {
		object, id = known.Object, known.ID
	}
	return &Error{
		Code: CodeRecordDamaged, Cause: cause, Damaged: &DamagedObject{Object: object, ID: id, Damaged: true},
		Message: fmt.Sprintf("The %s %s is stored and cannot be read. Nothing was changed; ask the operator of the service, and name it.", object, id),
	}
}

// DamageOf is the object that an error is about because it cannot be read, nil
// for any other error.
func DamageOf(err error) *DamagedObject {
	if e, ok := errors.AsType[*Error](err); ok && e.Code == CodeRecordDamaged {
		return e.Damaged
	}
	return nil
}

// Event is the one event of a damaged object, integrity.failed: its data names
// the object and nothing of what is in it.
func (d *DamagedObject) Event(newID NewIDFunc, org string, at Instant) (Event, error) {
	return NewEvent(newID(PrefixEvent), IntegrityFailed, at, org, d.MerchantAccountID, "", IntegrityData{d.ID, d.Object})
}

// IntegrityData is the data of integrity.failed.
type IntegrityData struct {
	ObjectID   string `json:"object_id"`
	ObjectType string `json:"object_type"`
}
