package handlers

import (
	"net/http"
	"strings"

	"tollgate/handlers/auth"
)

// Route is one row of interface §4.
type Route struct {
	Method string
	Path   string     // "/v1/payments/{payment_id}"
	Scope  auth.Scope // empty: no access token is needed
}

// row is a route and what serve has to know of it.
type row struct {
	Route
	query []string // names that may stand in the query; the reader reads them
	media []string // of its answers, beside JSON
	body  bodyKind
	limit int64 // of the body in bytes; 0: that of interface §8
	key   keyUse
	use   use  // of what all tenants share
	adds  bool // nothing but data: refused when Redis fills up
	// sandbox: there is nothing at this address elsewhere.
	sandbox bool
	do      func(*Server, *call) (*answer, error)
}

// bodyKind is what a route takes as body.
type bodyKind int

const (
	noBody bodyKind = iota
	jsonBody
	optionalJSONBody // every field is optional, so no body at all will do
	formBody
)

// keyUse is what a route does with Idempotency-Key (interface §4).
type keyUse int

const (
	keyIgnored keyUse = iota
	keyAccepted
	keyRequired
)

// rows is the one route table, in the order of the specification. The address
// of the metadata is that of RFC 8414 for an issuer without a path.
var rows = []row{
	{Route: Route{"POST", "/oauth2/token", ""}, body: formBody, do: (*Server).issueToken},
	{Route: Route{"GET", "/.well-known/jwks.json", ""}, do: (*Server).readKeys},
	{Route: Route{"GET", "/.well-known/oauth-authorization-server", ""}, do: (*Server).readMetadata},
	{Route: Route{"GET", "/v1/organizations/{organization_id}", auth.ScopeAccountsRead}, do: (*Server).readOrganization},
	{Route: Route{"GET", "/v1/legal-entities/{legal_entity_id}", auth.ScopeAccountsRead}, do: (*Server).readLegalEntity},
	{Route: Route{"GET", "/v1/merchant-accounts/{merchant_account_id}", auth.ScopeAccountsRead}, do: (*Server).readMerchantAccount},
	{Route: Route{"GET", "/v1/merchant-accounts", auth.ScopeAccountsRead}, query: pageParameters, use: searches, do: (*Server).listMerchantAccounts},
	{Route: Route{"GET", "/v1/grants/{grant_id}", auth.ScopeGrantsRead}, do: (*Server).readGrant},
	{Route: Route{"GET", "/v1/perimeters", auth.ScopeAccountsRead}, query: perimeterParameters, use: pages, do: (*Server).listPerimeters},
	{Route: Route{"GET", "/v1/perimeters/{perimeter_id}", auth.ScopeAccountsRead}, query: []string{"version", "merchant_account_id", "payee"}, do: (*Server).readPerimeter},
	{Route: Route{"POST", "/v1/quotes", auth.ScopeQuotesRead}, body: jsonBody, use: quotes, do: withBody((*Server).quote, readQuote)},
	{Route: Route{"POST", "/v1/payments", auth.ScopePaymentsWrite}, body: jsonBody, key: keyRequired, do: withBody((*Server).createPayment, readPayment)},
	{Route: Route{"GET", "/v1/payments", auth.ScopePaymentsRead}, query: paymentParameters, use: searches, do: (*Server).listPayments},
	{Route: Route{"GET", "/v1/payments/{payment_id}", auth.ScopePaymentsRead}, do: (*Server).readPayment},
	{Route: Route{"POST", "/v1/payments/{payment_id}/captures", auth.ScopePaymentsCapture}, body: optionalJSONBody, key: keyAccepted, do: withBody((*Server).capturePayment, readCapture)},
	{Route: Route{"POST", "/v1/payments/{payment_id}/cancel", auth.ScopePaymentsWrite}, body: optionalJSONBody, key: keyAccepted, do: withBody((*Server).cancelPayment, readCancel)},
	{Route: Route{"POST", "/v1/payments/{payment_id}/reviews", auth.ScopePaymentsReview}, body: jsonBody, key: keyAccepted, do: withBody((*Server).reviewPayment, readReview)},
	{Route: Route{"POST", "/v1/payments/{payment_id}/refunds", auth.ScopePaymentsRefund}, body: optionalJSONBody, key: keyRequired, do: withBody((*Server).refundPayment, readRefundRequest)},
	{Route: Route{"GET", "/v1/payments/{payment_id}/refunds", auth.ScopePaymentsRead}, query: pageParameters, use: pages, do: (*Server).listRefunds},
	{Route: Route{"GET", "/v1/refunds/{refund_id}", auth.ScopePaymentsRead}, do: (*Server).readRefund},
	{Route: Route{"GET", "/v1/transactions", auth.ScopeTransactionsRead}, query: transactionParameters, use: searches, do: (*Server).listTransactions},
	{Route: Route{"GET", "/v1/tickets/{ticket_id}", auth.ScopeTicketsRead}, do: (*Server).readTicket},
	{Route: Route{"POST", "/v1/cutoffs/preview", auth.ScopePayoutsRead}, body: jsonBody, use: previews, do: withBody((*Server).previewCutoff, readPreview)},
	{Route: Route{"GET", "/v1/payouts", auth.ScopePayoutsRead}, query: payoutParameters, use: searches, do: (*Server).listPayouts},
	{Route: Route{"GET", "/v1/payouts/{payout_id}", auth.ScopePayoutsRead}, do: (*Server).readPayout},
	{Route: Route{"POST", "/v1/payouts/{payout_id}/release", auth.ScopePayoutsWrite}, body: jsonBody, key: keyAccepted, do: withBody((*Server).releasePayout, readRelease)},
	{Route: Route{"POST", "/v1/exports/preview", auth.ScopeExportsWrite}, body: jsonBody, key: keyAccepted, adds: true, do: withBody((*Server).createExport, readExportRequest)},
	{Route: Route{"GET", "/v1/exports", auth.ScopeExportsRead}, query: pageParameters, use: searches, do: (*Server).listExports},
	{Route: Route{"GET", "/v1/exports/{job_id}", auth.ScopeExportsRead}, do: (*Server).readExport},
	{Route: Route{"GET", "/v1/exports/{job_id}/file", auth.ScopeExportsRead}, media: fileMedia, use: downloads, do: (*Server).readExportFile},
	{Route: Route{"DELETE", "/v1/exports/{job_id}", auth.ScopeExportsWrite}, do: (*Server).deleteExport},
	{Route: Route{"GET", "/v1/events", auth.ScopeEventsRead}, query: eventParameters, use: waits, do: (*Server).listEvents},
	{Route: Route{"GET", "/v1/events/{event_id}", auth.ScopeEventsRead}, use: searches, do: (*Server).readEvent},
	{Route: Route{"POST", "/v1/webhooks", auth.ScopeWebhooksWrite}, body: jsonBody, key: keyAccepted, adds: true, do: withBody((*Server).createWebhook, readWebhook)},
	{Route: Route{"GET", "/v1/webhooks", auth.ScopeWebhooksRead}, query: pageParameters, use: pages, do: (*Server).listWebhooks},
	{Route: Route{"GET", "/v1/webhooks/{webhook_id}", auth.ScopeWebhooksRead}, do: (*Server).readWebhook},
	{Route: Route{"PATCH", "/v1/webhooks/{webhook_id}", auth.ScopeWebhooksWrite}, body: jsonBody, do: withBody((*Server).updateWebhook, readWebhookChange)},
	{Route: Route{"DELETE", "/v1/webhooks/{webhook_id}", auth.ScopeWebhooksWrite}, do: (*Server).deleteWebhook},
	{Route: Route{"POST", "/v1/webhooks/{webhook_id}/secrets", auth.ScopeWebhooksWrite}, body: optionalJSONBody, key: keyAccepted, do: withBody((*Server).rotateWebhook, readRotation)},
	{Route: Route{"POST", "/v1/webhooks/{webhook_id}/test", auth.ScopeWebhooksWrite}, key: keyAccepted, do: (*Server).testWebhook},
	{Route: Route{"POST", "/v1/webhooks/{webhook_id}/recoveries", auth.ScopeWebhooksWrite}, body: jsonBody, key: keyAccepted, do: withBody((*Server).recoverWebhook, readRecoveryRequest)},
	{Route: Route{"GET", "/v1/webhooks/{webhook_id}/recoveries/{recovery_id}", auth.ScopeWebhooksRead}, do: (*Server).readRecovery},
	{Route: Route{"GET", "/v1/webhooks/{webhook_id}/deliveries", auth.ScopeWebhooksRead}, query: deliveryParameters, use: searches, do: (*Server).listDeliveries},
	{Route: Route{"GET", "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/attempts", auth.ScopeWebhooksRead}, query: pageParameters, use: pages, do: (*Server).listAttempts},
	{Route: Route{"POST", "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/replays", auth.ScopeWebhooksWrite}, body: optionalJSONBody, key: keyAccepted, do: withBody((*Server).replayDelivery, readReplay)},
	{Route: Route{"GET", "/v1/sandbox/clock", auth.ScopePaymentsRead}, sandbox: true, do: (*Server).readClock},
	{Route: Route{"POST", "/v1/sandbox/clock", auth.ScopePaymentsWrite}, sandbox: true, body: jsonBody, do: withBody((*Server).moveClock, readClockRequest)},
	{Route: Route{"POST", "/v1/rules", auth.ScopeRulesWrite}, body: jsonBody, limit: maxRuleBody, key: keyAccepted, use: publishes, adds: true, do: withBody((*Server).publishRule, readPublication)},
	{Route: Route{"GET", "/v1/rules", auth.ScopeRulesRead}, query: ruleParameters, use: pages, do: (*Server).listRules},
	{Route: Route{"GET", "/v1/rules/{rule_id}", auth.ScopeRulesRead}, do: (*Server).readRule},
	{Route: Route{"GET", "/v1/rules/{rule_id}/module", auth.ScopeRulesRead}, media: []string{mediaWasm}, do: (*Server).readModule},
	{Route: Route{"POST", "/v1/rule-sets/{rule_set_id}/activations", auth.ScopeRulesWrite}, body: jsonBody, key: keyAccepted, use: compares, do: withBody((*Server).activate, readActivationRequest)},
	{Route: Route{"GET", "/v1/rule-sets/{rule_set_id}/activations", auth.ScopeRulesRead}, query: pageParameters, use: pages, do: (*Server).listActivations},
	{Route: Route{"GET", "/v1/rule-sets/{rule_set_id}/activations/{activation_id}", auth.ScopeRulesRead}, do: (*Server).readActivation},
	{Route: Route{"POST", "/v1/rule-sets/{rule_set_id}/activations/{activation_id}/cancel", auth.ScopeRulesWrite}, key: keyAccepted, do: (*Server).cancelActivation},
	{Route: Route{"POST", "/v1/rule-sets/{rule_set_id}/rollback", auth.ScopeRulesWrite}, body: optionalJSONBody, key: keyAccepted, use: compares, do: withBody((*Server).rollBack, readRollback)},
	{Route: Route{"POST", "/v1/shadows", auth.ScopeRulesWrite}, body: jsonBody, key: keyAccepted, do: withBody((*Server).startShadow, readShadowRequest)},
	{Route: Route{"GET", "/v1/shadows", auth.ScopeRulesRead}, query: pageParameters, use: pages, do: (*Server).listShadows},
	{Route: Route{"GET", "/v1/shadows/{shadow_id}", auth.ScopeRulesRead}, do: (*Server).readShadow},
	{Route: Route{"POST", "/v1/shadows/{shadow_id}/stop", auth.ScopeRulesWrite}, key: keyAccepted, do: (*Server).stopShadow},
	{Route: Route{"GET", "/v1/shadows/{shadow_id}/divergences", auth.ScopeRulesRead}, query: pageParameters, use: pages, do: (*Server).listDivergences},
	{Route: Route{"GET", "/openapi.json", ""}, do: (*Server).readOpenAPI},
	{Route: Route{"GET", "/healthz", ""}, do: (*Server).health},
	{Route: Route{"GET", "/readyz", ""}, do: (*Server).ready},
}

// Routes lists what the API answers, in the order of the specification. HEAD
// is answered wherever GET is, and has no row of its own.
func (s *Server) Routes() []Route {
	routes := make([]Route, len(rows))
	for i := range rows {
		routes[i] = rows[i].Route
	}
	return routes
}

// pattern is the path as httprouter spells it.
func (r *row) pattern() string {
	return strings.NewReplacer("{", ":", "}", "").Replace(r.Path)
}

// name is the route as audit entries, metrics and logs name it: the pattern,
// never a path with somebody's id in it. A HEAD goes by the name of its GET.
func (r *row) name() string { return r.Method + " " + r.Path }

// allowed lists the methods that an address takes. httprouter's own list adds
// OPTIONS, which is not answered.
func (s *Server) allowed(path string) string {
	var methods []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodDelete} {
		if handle, _, _ := s.router.Lookup(method, path); handle != nil {
			methods = append(methods, method)
		}
	}
	return strings.Join(methods, ", ")
}
