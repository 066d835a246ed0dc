package handlers_test

import (
	"slices"
	"strings"

	"tollgate/handlers"
)

// answer is what a route says to somebody whose token is good and who may not have what
// the request names: its status, and its code. "" is for a write that the reader may make
// of its own. All other identities get one answer everywhere.
type answer struct {
	foreign   string // to another organization
	elsewhere string // to a grant for other merchant accounts
}

// The kinds of routes.
var (
	open   = answer{"200", "200"}
	list   = answer{"200", "200"} // without what is not its reader's
	own    = answer{}
	object = answer{"404 not_found", "403 merchant_account_forbidden"}
	shared = answer{"404 not_found", "200"}               // by all accounts of the organization
	absent = answer{"404 not_found", "404 not_found"}     // it is found by what its reader may see
	wider  = answer{"404 not_found", "403 scope_missing"} // access is changed by who has at least as much
	// Clients have assertions, and nothing beside them.
	asserted = answer{"400 parameter_invalid", "400 parameter_invalid"}
)

// answersOf has a row for every route.
var answersOf = map[string]answer{
	"POST /oauth2/token":                                                  asserted,
	"POST /oauth2/revoke":                                                 asserted,
	"POST /oauth2/introspect":                                             asserted,
	"GET /.well-known/jwks.json":                                          open,
	"GET /.well-known/oauth-authorization-server":                         open,
	"GET /v1/organizations/{organization_id}":                             shared,
	"GET /v1/legal-entities/{legal_entity_id}":                            shared,
	"GET /v1/merchant-accounts/{merchant_account_id}":                     object,
	"GET /v1/merchant-accounts":                                           list,
	"POST /v1/clients":                                                    own,
	"GET /v1/clients":                                                     list,
	"GET /v1/clients/{client_id}":                                         object,
	"PATCH /v1/clients/{client_id}":                                       wider,
	"POST /v1/clients/{client_id}/keys":                                   wider,
	"DELETE /v1/clients/{client_id}/keys/{kid}":                           wider,
	"POST /v1/grants":                                                     wider,
	"GET /v1/grants":                                                      list,
	"GET /v1/grants/{grant_id}":                                           object,
	"POST /v1/grants/{grant_id}/revoke":                                   wider,
	"GET /v1/perimeters":                                                  list,
	"GET /v1/perimeters/{perimeter_id}":                                   absent,
	"POST /v1/quotes":                                                     object,
	"POST /v1/payments":                                                   object,
	"GET /v1/payments":                                                    list,
	"GET /v1/payments/{payment_id}":                                       object,
	"POST /v1/payments/{payment_id}/captures":                             object,
	"POST /v1/payments/{payment_id}/cancel":                               object,
	"POST /v1/payments/{payment_id}/reviews":                              object,
	"POST /v1/payments/{payment_id}/refunds":                              object,
	"GET /v1/payments/{payment_id}/refunds":                               object,
	"GET /v1/refunds/{refund_id}":                                         object,
	"GET /v1/transactions":                                                list,
	"GET /v1/tickets/{ticket_id}":                                         object,
	"POST /v1/cutoffs/preview":                                            object,
	"GET /v1/payouts":                                                     list,
	"GET /v1/payouts/{payout_id}":                                         object,
	"POST /v1/payouts/{payout_id}/release":                                object,
	"POST /v1/exports/preview":                                            own, // of what its reader may see
	"GET /v1/exports":                                                     list,
	"GET /v1/exports/{job_id}":                                            absent,
	"GET /v1/exports/{job_id}/file":                                       absent,
	"DELETE /v1/exports/{job_id}":                                         absent,
	"GET /v1/events":                                                      list,
	"GET /v1/events/{event_id}":                                           absent,
	"GET /v1/audit/checkpoints":                                           {"200", "403 merchant_account_forbidden"},
	"GET /v1/audit/leaves":                                                {"200", "403 merchant_account_forbidden"},
	"GET /v1/audit/proofs/{audit_entry_id}":                               {"404 not_found", "403 merchant_account_forbidden"},
	"GET /v1/audit":                                                       {"200", "403 merchant_account_forbidden"}, // it tells of all accounts
	"POST /v1/webhooks":                                                   object,
	"GET /v1/webhooks":                                                    list,
	"GET /v1/webhooks/{webhook_id}":                                       object,
	"PATCH /v1/webhooks/{webhook_id}":                                     object,
	"DELETE /v1/webhooks/{webhook_id}":                                    object,
	"POST /v1/webhooks/{webhook_id}/secrets":                              object,
	"POST /v1/webhooks/{webhook_id}/test":                                 object,
	"POST /v1/webhooks/{webhook_id}/recoveries":                           object,
	"GET /v1/webhooks/{webhook_id}/recoveries/{recovery_id}":              object,
	"GET /v1/webhooks/{webhook_id}/deliveries":                            object,
	"GET /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/attempts":     object,
	"POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/replays":     object,
	"GET /v1/sandbox/clock":                                               list,
	"POST /v1/sandbox/clock":                                              own,                                // the sandbox has one clock for all
	"POST /v1/rules":                                                      {"422 rule_signature_invalid", ""}, // each organization has its own signers; the published one is there
	"GET /v1/rules":                                                       list,
	"GET /v1/rules/{rule_id}":                                             shared,
	"GET /v1/rules/{rule_id}/module":                                      shared,
	"POST /v1/rule-sets/{rule_set_id}/activations":                        object,
	"GET /v1/rule-sets/{rule_set_id}/activations":                         shared,
	"GET /v1/rule-sets/{rule_set_id}/activations/{activation_id}":         object,
	"POST /v1/rule-sets/{rule_set_id}/activations/{activation_id}/cancel": object,
	"POST /v1/rule-sets/{rule_set_id}/rollback":                           object,
	"POST /v1/shadows":                                                    object,
	"GET /v1/shadows":                                                     list,
	"GET /v1/shadows/{shadow_id}":                                         object,
	"POST /v1/shadows/{shadow_id}/stop":                                   object,
	"GET /v1/shadows/{shadow_id}/divergences":                             object,
	"GET /openapi.json":                                                   open,
	"GET /healthz":                                                        open,
	"GET /readyz":                                                         {"503", "503"}, // nobody loads its rules here
}

// everyRouteHasARow holds table and routes to each other, and to the requests that there are.
func (s *suite) everyRouteHasARow() {
	s.t.Helper()
	routes := s.server.Routes()
	for _, r := range routes {
		name := r.Method + " " + r.Path
		if _, there := answersOf[name]; !there {
			s.t.Errorf("%s has no row in answersOf", name)
		}
		if !slices.ContainsFunc(s.operations, func(o *operation) bool { return s.route(o) == r }) {
			s.t.Errorf("%s has no request in operations", name)
		}
	}
	if len(answersOf) != len(routes) {
		s.t.Errorf("answersOf has %d rows, and there are %d routes", len(answersOf), len(routes))
	}
}

// expected is what a route's row says to an identity, or its answer to everybody.
func (s *suite) expected(who identity, route handlers.Route) string {
	row := answersOf[route.Method+" "+route.Path]
	switch {
	case strings.HasPrefix(route.Path, "/oauth2/") && who.name == "nobody":
		return "" // the next test asks as clients do
	case who.name == "another merchant account":
		return row.elsewhere
	default:
		return row.foreign
	}
}
