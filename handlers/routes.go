package handlers

import (
	"net/http"
	"strings"

	"github.com/julienschmidt/httprouter"

	"tollgate"
	"tollgate/handlers/access"
	"tollgate/handlers/auth"
	"tollgate/handlers/input"
	"tollgate/handlers/share"
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
	body  input.Body
	limit int64 // of the body in bytes; 0: that of interface §8
	key   input.KeyUse
	use   share.Use // of what all tenants share
	near  bool      // a replica may answer
	adds  bool      // nothing but data: refused when Redis fills up
	// sandbox: there is nothing at this address elsewhere.
	sandbox bool
	do      func(*Server, *call) (*answer, error)
}

// rows is the one route table, in the order of the specification. The address
// of the metadata is that of RFC 8414 for an issuer without a path.
var rows = []row{
	{Route: Route{"POST", "/oauth2/token", ""}, body: input.Form, do: (*Server).issueToken},
	{Route: Route{"POST", "/oauth2/revoke", ""}, body: input.Form, do: (*Server).revokeToken},
	{Route: Route{"POST", "/oauth2/introspect", ""}, body: input.Form, do: (*Server).introspectToken},
	{Route: Route{"GET", "/.well-known/jwks.json", ""}, do: (*Server).getKeys},
	{Route: Route{"GET", "/.well-known/oauth-authorization-server", ""}, do: (*Server).getMetadata},
	{Route: Route{"GET", "/v1/organizations/{organization_id}", auth.ScopeAccountsRead}, do: (*Server).getOrganization},
	{Route: Route{"GET", "/v1/legal-entities/{legal_entity_id}", auth.ScopeAccountsRead}, do: (*Server).getLegalEntity},
	{Route: Route{"GET", "/v1/merchant-accounts/{merchant_account_id}", auth.ScopeAccountsRead}, do: (*Server).getMerchantAccount},
	{Route: Route{"GET", "/v1/merchant-accounts", auth.ScopeAccountsRead}, query: pageParameters, use: share.Searches, do: (*Server).listMerchantAccounts},
	{Route: Route{"POST", "/v1/clients", auth.ScopeAccessWrite}, body: input.JSON, key: input.KeyAccepted, adds: true, do: withBody((*Server).createClient, access.ParseClient)},
	{Route: Route{"GET", "/v1/clients", auth.ScopeAccessRead}, query: []string{"status", "limit", "cursor"}, use: share.Searches, do: (*Server).listClients},
	{Route: Route{"GET", "/v1/clients/{client_id}", auth.ScopeAccessRead}, do: (*Server).getClient},
	{Route: Route{"PATCH", "/v1/clients/{client_id}", auth.ScopeAccessWrite}, body: input.JSON, do: withBody((*Server).updateClient, access.ParseClientChange)},
	{Route: Route{"POST", "/v1/clients/{client_id}/keys", auth.ScopeAccessWrite}, body: input.JSON, key: input.KeyAccepted, do: withBody((*Server).addKey, access.ParseNewKey)},
	{Route: Route{"DELETE", "/v1/clients/{client_id}/keys/{kid}", auth.ScopeAccessWrite}, do: (*Server).removeKey},
	{Route: Route{"POST", "/v1/grants", auth.ScopeAccessWrite}, body: input.JSON, key: input.KeyAccepted, adds: true, do: withBody((*Server).createGrant, access.ParseGrant)},
	{Route: Route{"GET", "/v1/grants", auth.ScopeAccessRead}, query: []string{"client_id", "status", "limit", "cursor"}, use: share.Searches, do: (*Server).listGrants},
	{Route: Route{"GET", "/v1/grants/{grant_id}", auth.ScopeGrantsRead}, do: (*Server).getGrant},
	{Route: Route{"POST", "/v1/grants/{grant_id}/revoke", auth.ScopeAccessWrite}, key: input.KeyAccepted, do: (*Server).revokeGrant},
	{Route: Route{"GET", "/v1/perimeters", auth.ScopeAccountsRead}, query: perimeterParameters, use: share.Pages, do: (*Server).listPerimeters},
	{Route: Route{"GET", "/v1/perimeters/{perimeter_id}", auth.ScopeAccountsRead}, query: []string{"version", "merchant_account_id", "payee"}, do: (*Server).getPerimeter},
	{Route: Route{"POST", "/v1/quotes", auth.ScopeQuotesRead}, body: input.JSON, use: share.Quotes, do: withBody((*Server).quote, parseQuote)},
	{Route: Route{"POST", "/v1/payments", auth.ScopePaymentsWrite}, body: input.JSON, key: input.KeyRequired, do: withBody((*Server).createPayment, parsePayment)},
	{Route: Route{"GET", "/v1/payments", auth.ScopePaymentsRead}, near: true, query: paymentParameters, use: share.Searches, do: (*Server).listPayments},
	{Route: Route{"GET", "/v1/payments/{payment_id}", auth.ScopePaymentsRead}, near: true, do: (*Server).getPayment},
	{Route: Route{"POST", "/v1/payments/{payment_id}/captures", auth.ScopePaymentsCapture}, body: input.OptionalJSON, key: input.KeyAccepted, do: withBody((*Server).capturePayment, parseCapture)},
	{Route: Route{"POST", "/v1/payments/{payment_id}/cancel", auth.ScopePaymentsWrite}, body: input.OptionalJSON, key: input.KeyAccepted, do: withBody((*Server).cancelPayment, parseCancel)},
	{Route: Route{"POST", "/v1/payments/{payment_id}/reviews", auth.ScopePaymentsReview}, body: input.JSON, key: input.KeyAccepted, do: withBody((*Server).reviewPayment, parseReview)},
	{Route: Route{"POST", "/v1/payments/{payment_id}/refunds", auth.ScopePaymentsRefund}, body: input.OptionalJSON, key: input.KeyRequired, do: withBody((*Server).refundPayment, parseRefund)},
	{Route: Route{"GET", "/v1/payments/{payment_id}/refunds", auth.ScopePaymentsRead}, near: true, query: pageParameters, use: share.Pages, do: (*Server).listRefunds},
	{Route: Route{"GET", "/v1/refunds/{refund_id}", auth.ScopePaymentsRead}, near: true, do: (*Server).getRefund},
	{Route: Route{"GET", "/v1/transactions", auth.ScopeTransactionsRead}, near: true, query: transactionParameters, use: share.Searches, do: (*Server).listTransactions},
	{Route: Route{"GET", "/v1/tickets/{ticket_id}", auth.ScopeTicketsRead}, near: true, do: (*Server).getTicket},
	{Route: Route{"POST", "/v1/cutoffs/preview", auth.ScopePayoutsRead}, body: input.JSON, use: share.Previews, do: withBody((*Server).previewCutoff, parsePreview)},
	{Route: Route{"GET", "/v1/payouts", auth.ScopePayoutsRead}, near: true, query: payoutParameters, use: share.Searches, do: (*Server).listPayouts},
	{Route: Route{"GET", "/v1/payouts/{payout_id}", auth.ScopePayoutsRead}, near: true, do: (*Server).getPayout},
	{Route: Route{"POST", "/v1/payouts/{payout_id}/release", auth.ScopePayoutsWrite}, body: input.JSON, key: input.KeyAccepted, do: withBody((*Server).releasePayout, parseRelease)},
	{Route: Route{"POST", "/v1/exports/preview", auth.ScopeExportsWrite}, body: input.JSON, key: input.KeyAccepted, adds: true, do: withBody((*Server).createExport, parseExportRequest)},
	{Route: Route{"GET", "/v1/exports", auth.ScopeExportsRead}, near: true, query: pageParameters, use: share.Searches, do: (*Server).listExports},
	{Route: Route{"GET", "/v1/exports/{job_id}", auth.ScopeExportsRead}, near: true, do: (*Server).getExport},
	{Route: Route{"GET", "/v1/exports/{job_id}/file", auth.ScopeExportsRead}, media: fileMedia, use: share.Downloads, do: (*Server).getExportFile},
	{Route: Route{"DELETE", "/v1/exports/{job_id}", auth.ScopeExportsWrite}, do: (*Server).deleteExport},
	{Route: Route{"GET", "/v1/events", auth.ScopeEventsRead}, near: true, query: eventParameters, use: share.Waits, do: (*Server).listEvents},
	{Route: Route{"GET", "/v1/events/{event_id}", auth.ScopeEventsRead}, near: true, use: share.Searches, do: (*Server).getEvent},
	{Route: Route{"GET", "/v1/audit", auth.ScopeAuditRead}, query: auditParameters, use: share.Searches, do: (*Server).listAudit},
	{Route: Route{"GET", "/v1/audit/checkpoints", auth.ScopeAuditRead}, query: treeParameters, use: share.Searches, do: (*Server).listCheckpoints},
	{Route: Route{"GET", "/v1/audit/leaves", auth.ScopeAuditRead}, query: treeParameters, use: share.Searches, do: (*Server).listLeaves},
	{Route: Route{"GET", "/v1/audit/proofs/{audit_entry_id}", auth.ScopeAuditRead}, use: share.Searches, do: (*Server).getAuditProof},
	{Route: Route{"POST", "/v1/webhooks", auth.ScopeWebhooksWrite}, body: input.JSON, key: input.KeyAccepted, adds: true, do: withBody((*Server).createWebhook, parseWebhook)},
	{Route: Route{"GET", "/v1/webhooks", auth.ScopeWebhooksRead}, near: true, query: pageParameters, use: share.Pages, do: (*Server).listWebhooks},
	{Route: Route{"GET", "/v1/webhooks/{webhook_id}", auth.ScopeWebhooksRead}, near: true, do: (*Server).getWebhook},
	{Route: Route{"PATCH", "/v1/webhooks/{webhook_id}", auth.ScopeWebhooksWrite}, body: input.JSON, do: withBody((*Server).updateWebhook, parseWebhookChange)},
	{Route: Route{"DELETE", "/v1/webhooks/{webhook_id}", auth.ScopeWebhooksWrite}, do: (*Server).deleteWebhook},
	{Route: Route{"POST", "/v1/webhooks/{webhook_id}/secrets", auth.ScopeWebhooksWrite}, body: input.OptionalJSON, key: input.KeyAccepted, do: withBody((*Server).rotateWebhook, parseRotation)},
	{Route: Route{"POST", "/v1/webhooks/{webhook_id}/test", auth.ScopeWebhooksWrite}, key: input.KeyAccepted, do: (*Server).testWebhook},
	{Route: Route{"POST", "/v1/webhooks/{webhook_id}/recoveries", auth.ScopeWebhooksWrite}, body: input.JSON, key: input.KeyAccepted, do: withBody((*Server).recoverWebhook, parseRecoveryRequest)},
	{Route: Route{"GET", "/v1/webhooks/{webhook_id}/recoveries/{recovery_id}", auth.ScopeWebhooksRead}, near: true, do: (*Server).getRecovery},
	{Route: Route{"GET", "/v1/webhooks/{webhook_id}/deliveries", auth.ScopeWebhooksRead}, near: true, query: deliveryParameters, use: share.Searches, do: (*Server).listDeliveries},
	{Route: Route{"GET", "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/attempts", auth.ScopeWebhooksRead}, near: true, query: pageParameters, use: share.Pages, do: (*Server).listAttempts},
	{Route: Route{"POST", "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/replays", auth.ScopeWebhooksWrite}, body: input.OptionalJSON, key: input.KeyAccepted, do: withBody((*Server).replayDelivery, parseReplay)},
	{Route: Route{"GET", "/v1/sandbox/clock", auth.ScopePaymentsRead}, sandbox: true, do: (*Server).getClock},
	{Route: Route{"POST", "/v1/sandbox/clock", auth.ScopePaymentsWrite}, sandbox: true, body: input.JSON, do: withBody((*Server).moveClock, parseClockRequest)},
	{Route: Route{"POST", "/v1/rules", auth.ScopeRulesWrite}, body: input.JSON, limit: maxRuleBody, key: input.KeyAccepted, use: share.Publishes, adds: true, do: withBody((*Server).publishRule, parsePublication)},
	{Route: Route{"GET", "/v1/rules", auth.ScopeRulesRead}, near: true, query: ruleParameters, use: share.Pages, do: (*Server).listRules},
	{Route: Route{"GET", "/v1/rules/{rule_id}", auth.ScopeRulesRead}, near: true, do: (*Server).getRule},
	{Route: Route{"GET", "/v1/rules/{rule_id}/module", auth.ScopeRulesRead}, near: true, media: []string{mediaWasm}, do: (*Server).getModule},
	{Route: Route{"POST", "/v1/rule-sets/{rule_set_id}/activations", auth.ScopeRulesWrite}, body: input.JSON, key: input.KeyAccepted, use: share.Compares, do: withBody((*Server).activate, parseActivationRequest)},
	{Route: Route{"GET", "/v1/rule-sets/{rule_set_id}/activations", auth.ScopeRulesRead}, near: true, query: pageParameters, use: share.Pages, do: (*Server).listActivations},
	{Route: Route{"GET", "/v1/rule-sets/{rule_set_id}/activations/{activation_id}", auth.ScopeRulesRead}, near: true, do: (*Server).getActivation},
	{Route: Route{"POST", "/v1/rule-sets/{rule_set_id}/activations/{activation_id}/cancel", auth.ScopeRulesWrite}, key: input.KeyAccepted, do: (*Server).cancelActivation},
	{Route: Route{"POST", "/v1/rule-sets/{rule_set_id}/rollback", auth.ScopeRulesWrite}, body: input.OptionalJSON, key: input.KeyAccepted, use: share.Compares, do: withBody((*Server).rollBack, parseRollback)},
	{Route: Route{"POST", "/v1/shadows", auth.ScopeRulesWrite}, body: input.JSON, key: input.KeyAccepted, do: withBody((*Server).startShadow, parseShadowRequest)},
	{Route: Route{"GET", "/v1/shadows", auth.ScopeRulesRead}, near: true, query: pageParameters, use: share.Pages, do: (*Server).listShadows},
	{Route: Route{"GET", "/v1/shadows/{shadow_id}", auth.ScopeRulesRead}, near: true, do: (*Server).getShadow},
	{Route: Route{"POST", "/v1/shadows/{shadow_id}/stop", auth.ScopeRulesWrite}, key: input.KeyAccepted, do: (*Server).stopShadow},
	{Route: Route{"GET", "/v1/shadows/{shadow_id}/divergences", auth.ScopeRulesRead}, near: true, query: pageParameters, use: share.Pages, do: (*Server).listDivergences},
	{Route: Route{"GET", "/openapi.json", ""}, do: (*Server).getOpenAPI},
	{Route: Route{"GET", "/healthz", ""}, do: (*Server).health},
	{Route: Route{"GET", "/readyz", ""}, query: []string{"for"}, do: (*Server).ready},
}

// Door is what a process answers beside the API, to people and to programs that
// speak something else: a page, say. A request goes through the limits of every
// request, the log and the metrics; Handler does the rest, and it reads no Redis
// but through the API.
type Door struct {
	Methods []string // GET is HEAD, too
	Path    string   // as httprouter has it, "/docs/*page"; the API's routes come first
	Handler http.Handler
}

// Open adds doors to what the server answers. It is called before the first request.
func (s *Server) Open(doors ...Door) {
	for _, d := range doors {
		for _, method := range d.Methods {
			open := func(w http.ResponseWriter, req *http.Request, _ httprouter.Params) {
				c := w.(*call)
				c.door = d.Path
				d.Handler.ServeHTTP(c, req)
			}
			s.router.Handle(method, d.Path, open)
			if method == http.MethodGet {
				s.router.Handle(http.MethodHead, d.Path, open)
			}
		}
	}
}

// Explain has every problem lead to the page that explains its code: at a path of this
// service, and the code is the end of it. It is called before the first request, by
// those that serve such a page.
func (s *Server) Explain(path string) { s.help = s.oauth.Issuer.Name + path }

// helpOn is the link to the explanation of a code (RFC 8288), or empty.
func (s *Server) helpOn(code tollgate.Code) string {
	if s.help == "" || code == "" {
		return ""
	}
	return "<" + s.help + string(code) + `>; rel="help"`
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
