package cli

import "tollgate"

// CodeHelp says what an error code means to whoever gets it.
type CodeHelp struct {
	What string // happened
	Do   string // about it
	Next string // command to try; {payment} and the like stand for what the error names
}

// Codes has a row for every error code of the service.
var Codes = map[tollgate.Code]CodeHelp{
	tollgate.CodeInvalidJSON:              {"The body is not one JSON object in UTF-8.", "Send one object, each member once, nothing behind it.", ""},
	tollgate.CodeParameterMissing:         {"A required member is missing, or a choice was not made.", "Add the parameter that the error names.", ""},
	tollgate.CodeParameterInvalid:         {"A parameter has the wrong type, form, length or value.", "Correct the parameter that the error names.", ""},
	tollgate.CodeParameterUnknown:         {"The route has no such member or parameter.", "Look for a spelling mistake, or leave it out.", ""},
	tollgate.CodeCursorInvalid:            {"The cursor was changed, or belongs to another listing.", "Start the listing again without a cursor.", ""},
	tollgate.CodeCursorMismatch:           {"The cursor belongs to other filters or another order.", "Repeat the filters and the order of the first page.", ""},
	tollgate.CodeIdempotencyKeyRequired:   {"This request needs an Idempotency-Key, so that a repeat is not paid twice.", "Send a key of your own, such as the order's number.", ""},
	tollgate.CodeIdempotencyKeyInvalid:    {"The Idempotency-Key is not 1 to 255 visible ASCII characters.", "Send a shorter or simpler key.", ""},
	tollgate.CodeTokenMissing:             {"The request has no Authorization header.", "Get a token and send it as a bearer token.", "token"},
	tollgate.CodeTokenInvalid:             {"The token or the assertion is not good: not genuine, or its client or grant has changed or ended.", "Check client id, key, issuer and clock, then get a new token.", "doctor"},
	tollgate.CodeTokenExpired:             {"The token's ten minutes are over.", "Get a new token.", "token"},
	tollgate.CodeScopeMissing:             {"The token lacks the scope that this route needs.", "Ask for the scope when you get the token, or have it added to the grant.", "whoami"},
	tollgate.CodeMerchantAccountForbidden: {"The grant does not cover this merchant account.", "Use an account that the grant covers.", "accounts"},
	tollgate.CodePerimeterDenied:          {"The perimeter denies the payment. It is kept as declined, with its ticket.", "Read the reason, and pay what the perimeter allows.", "perimeter {perimeter}"},
	tollgate.CodeNotFound:                 {"There is no such object or address, or none in this organization.", "Check the id and whose key you use.", "whoami"},
	tollgate.CodeMethodNotAllowed:         {"The address exists and does not take this method.", "Use a method from the Allow header.", ""},
	tollgate.CodeNotAcceptable:            {"The Accept header allows nothing that the route answers with.", "Accept application/json.", ""},
	tollgate.CodeCursorExpired:            {"The events after the cursor are no longer kept: events are kept for 30 days.", "Start again without a cursor, and export what is older.", "events"},
	tollgate.CodeExportExpired:            {"The export's file is no longer kept.", "Make a new export.", "exports"},
	tollgate.CodeHistoryChanged:           {"The token or cursor is from before Redis lost data. Nothing was done.", "Get a new token, and read again what happened since.", "whoami"},
	tollgate.CodeBodyTooLarge:             {"The body is larger than this route takes.", "Send less.", ""},
	tollgate.CodeURITooLong:               {"The address with its query is too long.", "Use fewer or shorter filters.", ""},
	tollgate.CodeMediaTypeUnsupported:     {"The Content-Type or Content-Encoding is not one that the route takes.", "Send application/json without an encoding.", ""},
	tollgate.CodeRangeNotSatisfiable:      {"The file has nothing at this range.", "Read the length from Content-Range and ask again.", ""},
	tollgate.CodeHeadersTooLarge:          {"The headers are too large.", "Send fewer or shorter headers.", ""},
	tollgate.CodePaymentStateInvalid:      {"The payment is not in a state that allows this.", "Look at its status and what can be done now.", "explain {payment}"},
	tollgate.CodeAuthorizationExpired:     {"The time to capture or review this payment has passed.", "Make a new payment.", "explain {payment}"},
	tollgate.CodeDeliveryInProgress:       {"An attempt of this delivery is under way.", "Wait up to 15 seconds, then try again.", ""},
	tollgate.CodeMerchantAccountInactive:  {"The account is paused or closed, or its organization is not active.", "Use an active account, or have this one activated.", "accounts"},
	tollgate.CodeExportStateInvalid:       {"The export has no file yet, will never have one, or has nothing to delete.", "Look at the export's status.", "exports"},
	tollgate.CodeGrantStateInvalid:        {"Nobody could manage clients and grants any more after this.", "Give another client a grant with access:write first.", "grant list"},
	tollgate.CodePayoutStateInvalid:       {"The payout is not held, or cannot be released.", "Look at the payout's status and the reason.", "payout list --status held"},
	tollgate.CodeRuleExists:               {"This version is published with other content or by another signer.", "Publish the next version: versions never change.", "rule published"},
	tollgate.CodeActivationStateInvalid:   {"The rule set or shadow is not in a state that allows this.", "Look at what is scheduled and in force.", "rule published"},
	tollgate.CodeTLSRequired:              {"The request came over plain http. Nothing was done.", "Use the https address, and get a new token: the one that you sent may have been read.", "doctor"},
	tollgate.CodeAmountInvalid:            {"The amount is zero, too large, or not a decimal string such as \"10.00\".", "Send a positive decimal string.", ""},
	tollgate.CodeAmountScaleInvalid:       {"The amount has more decimal places than the currency.", "Round it to the currency's places: JPY 0, EUR 2, BHD 3.", ""},
	tollgate.CodeCurrencyUnsupported:      {"There is no such currency, or the account does not take it.", "Use a currency of the account.", "accounts"},
	tollgate.CodePayeeInvalid:             {"The payee is not a name that Tollgate can compare.", "Send a host name such as shop.example.", ""},
	tollgate.CodeCaptureExceeds:           {"The capture is larger than what is left to capture.", "Capture at most amount_capturable.", "explain {payment}"},
	tollgate.CodeCaptureLimitReached:      {"The payment has its 50 captures.", "Make a new payment for the rest.", "explain {payment}"},
	tollgate.CodeRefundExceeds:            {"The refund is larger than what was captured and is not refunded.", "Refund at most amount_refundable.", "explain {payment}"},
	tollgate.CodeRefundLimitReached:       {"The payment has its 50 refunds.", "Nothing more can be refunded here.", "explain {payment}"},
	tollgate.CodeIdempotencyKeyReused:     {"The key belongs to another request, or to another client's.", "Use a new key for a new request.", ""},
	tollgate.CodeRuleRejected:             {"A pricing rule refuses this payment. Nothing is kept of it.", "Read the rule's message and its golden cases.", "explain {rule}"},
	tollgate.CodeRuleInvalid:              {"The module, its golden cases or its version cannot be taken.", "Check the rule on this machine first.", "help rule check"},
	tollgate.CodeRuleSignatureInvalid:     {"The rule is not signed by a rule signer of this organization.", "Check TOLLGATE_RULE_SIGNER and TOLLGATE_RULE_KEY.", "help rule publish"},
	tollgate.CodeWebhookURLInvalid:        {"Deliveries may not go to this URL.", "Use https on port 443 or 8443, and a public host name.", "help webhooks create"},
	tollgate.CodeCutoffInvalid:            {"The proposed cutoff or its window cannot be used.", "Correct the parameter that the error names.", "help cutoff preview"},
	tollgate.CodeQuotaExceeded:            {"The organization has all that its quota allows.", "Remove what is not needed, or ask the operator.", ""},
	tollgate.CodeRateLimited:              {"More requests than the rate limit allows, or export files without room.", "Repeat after Retry-After; for exports, delete some or wait.", "exports"},
	tollgate.CodeShareExhausted:           {"Your organization uses its whole share of the service right now.", "Send fewer requests at once; repeat after Retry-After.", ""},
	tollgate.CodeInternal:                 {"Something went wrong in the service.", "Give the operator the request id: it finds the cause in the log.", "doctor"},
	tollgate.CodeRecordDamaged:            {"A stored object cannot be read. Nothing was changed.", "Give the operator the id of the object.", "events --types integrity.failed"},
	tollgate.CodePublishingUnavailable:    {"This instance cannot examine rules.", "Publish to an instance that runs natively.", ""},
	tollgate.CodeRuleFailed:               {"A pricing rule crashed, ran out of fuel or cannot be loaded. Nothing was written.", "Have the rule's team run its golden cases, or roll it back.", "explain {rule}"},
	tollgate.CodeStoreUnavailable:         {"Redis does not answer or takes no writes.", "Repeat the request with the same Idempotency-Key.", "doctor"},
	tollgate.CodeArchiveUnavailable:       {"It was moved to the archive, which cannot be read at the moment.", "Have the operator look at TOLLGATE_ARCHIVE_URL and where it points.", "archive status"},
	tollgate.CodeCapacityReached:          {"Redis is filling up, and what only adds data is refused.", "Have the operator raise maxmemory.", "doctor"},
	tollgate.CodeHistoryLost:              {"Redis has lost data, and nobody has decided yet how to go on.", "The operator decides with 'tollgate history'.", "doctor"},
}

// reasons are what perimeters and deliveries say besides.
var reasons = map[string]CodeHelp{
	"unknown_constraint":      {"The perimeter has a constraint that this build does not know, so it denies every payment.", "Update the service, or provision the perimeter without it.", "perimeters"},
	"currency_not_allowed":    {"The perimeter does not allow this currency.", "Pay in one of its currencies.", "perimeters"},
	"payee_blocked":           {"The perimeter blocks this payee.", "Pay another payee.", "perimeters"},
	"payee_not_allowed":       {"The perimeter has a list of payees, and this one is not in it.", "Pay a payee of the list.", "perimeters"},
	"amount_below_minimum":    {"The amount is below the perimeter's minimum.", "Pay at least minimum_amount.", "perimeters"},
	"amount_above_maximum":    {"The amount is above the perimeter's maximum.", "Pay at most maximum_amount.", "perimeters"},
	"outside_schedule":        {"The perimeter allows payments at other hours.", "Pay within its schedule.", "perimeters"},
	"budget_currency_missing": {"The perimeter has budgets, and none for this currency.", "Pay in a currency with a budget.", "perimeters"},
	"amount_needs_review":     {"The amount is above review_above: somebody has to approve the payment.", "Approve or reject it within 24 hours.", "payments --status requires_review"},
	"budget_exhausted":        {"The payment would exceed a budget of the perimeter.", "Pay less, or wait until the budget resets.", "perimeters"},
	"frequency_exceeded":      {"There were as many payments as the perimeter allows in this time.", "Wait until the window resets.", "perimeters"},

	"egress_blocked":   {"The endpoint's URL leads to an address that deliveries must not go to.", "Give the endpoint a public address.", "webhooks list"},
	"dns_failed":       {"The endpoint's host name could not be resolved.", "Correct the name or its DNS records.", "webhooks list"},
	"connect_failed":   {"Nothing listens at the endpoint's address.", "Start the receiver, then resend or recover.", "webhooks list"},
	"tls_failed":       {"The endpoint offers no TLS 1.2, or its certificate is not valid for its name.", "Renew or correct the certificate.", "webhooks list"},
	"timeout":          {"The receiver did not answer within 15 seconds.", "Answer first, then do the work.", "webhooks list"},
	"response_invalid": {"The receiver's answer is not HTTP, broke off or is too large.", "Answer with a short 2xx.", "webhooks list"},
	"event_expired":    {"The event is no longer kept, so it cannot be delivered.", "Read the object itself.", "events"},
	"event_damaged":    {"The stored event cannot be read. Tollgate tries again; this costs no retry.", "Give the operator the event's id.", "events --types integrity.failed"},
	"signing_failed":   {"The delivery could not be signed. Tollgate tries again; this costs no retry.", "Tell the operator.", "webhooks list"},
}

// HelpOf finds what a code means: an error code, a perimeter's reason, or the error of
// an attempt.
func HelpOf(code string) (CodeHelp, bool) {
	if h, ok := Codes[tollgate.Code(code)]; ok {
		return h, true
	}
	h, ok := reasons[code]
	return h, ok
}
