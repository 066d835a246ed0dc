package main

import (
	"fmt"
	"strings"
)

// sample is what can be pasted to try an operation while `make dev` runs. A test pastes
// all of them, in the order of the page.
type sample struct {
	Operation string
	Before    string // what the line needs; empty: nothing but the lines above it
	Line      string
	Status    int
	Note      string // if the status needs one
}

// samples are in the order of the operations on the page: a line may use what an
// earlier one has kept in a variable.
var samples = []sample{
	{"issueToken", "", `curl -s "$TOLLGATE_URL/oauth2/token" \
  -d grant_type=client_credentials \
  -d client_assertion_type=urn:ietf:params:oauth:client-assertion-type:jwt-bearer \
  --data-urlencode "client_assertion=${ASSERTION:-none}"`, 401, "It needs an assertion that your client's key has signed. Your OAuth library makes one, and so does `bin/tollgate token`. Without one, the sandbox says what is missing."},
	{"revokeToken", "", own("revoke"), 401, "It needs an assertion, as a token does."},
	{"introspectToken", "", own("introspect"), 401, "It needs an assertion, as a token does."},
	{"readKeys", "", public("/.well-known/jwks.json"), 200, ""},
	{"readServerMetadata", "", public("/.well-known/oauth-authorization-server"), 200, ""},
	{"readOrganization", "", get("/v1/organizations/$TOLLGATE_ORGANIZATION"), 200, ""},
	{"readLegalEntity", "", get("/v1/legal-entities/$TOLLGATE_LEGAL_ENTITY"), 200, ""},
	{"readMerchantAccount", "", get("/v1/merchant-accounts/$TOLLGATE_MERCHANT_ACCOUNT"), 200, ""},
	{"listMerchantAccounts", "", get("/v1/merchant-accounts"), 200, ""},
	{"listPerimeters", "", keepFirst("PERIMETER", "per", get("/v1/perimeters")), 200, ""},
	{"readPerimeter", "", get("/v1/perimeters/$PERIMETER"), 200, ""},

	{"createClient", "", keep("CLIENT", post("/v1/clients", "client-1", `{"name": "Till 4"}`)), 201, ""},
	{"listClients", "", get("/v1/clients?status=active"), 200, ""},
	{"readClient", "", get("/v1/clients/$CLIENT"), 200, ""},
	{"updateClient", "", strings.Replace(post("/v1/clients/$CLIENT", "", `{"name": "Till 5"}`), "curl -s", "curl -s -X PATCH", 1), 200, ""},
	{"addClientKey", "", post("/v1/clients/$CLIENT/keys", "key-1", `{"jwk": {"kty": "EC", "crv": "P-256", "kid": "till-2026", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}}`), 201, ""},
	{"removeClientKey", "", curl("DELETE", "/v1/clients/$CLIENT/keys/till-2026"), 200, ""},
	{"createGrant", "", keep("GRANT", post("/v1/grants", "grant-1", `{"client_id": "'$CLIENT'", "scopes": ["quotes:read", "payments:write"]}`)), 201, ""},
	{"listGrants", "", get("/v1/grants?client_id=$CLIENT"), 200, ""},
	{"readGrant", "", get("/v1/grants/$TOLLGATE_GRANT"), 200, ""},
	{"revokeGrant", "", post("/v1/grants/$GRANT/revoke", "revoke-1", ""), 200, ""},

	{"createQuote", "", post("/v1/quotes", "", `{"amount": "100.00", "currency": "EUR", "payee": "shop.example"}`), 200, ""},

	{"createPayment", "", keep("PAYMENT", pay("order-1", "100.00", "EUR", "")), 201, ""},
	{"listPayments", "", get("/v1/payments?payee=shop.example&limit=10"), 200, ""},
	{"readPayment", "", get("/v1/payments/$PAYMENT"), 200, ""},
	{"capturePayment", "", post("/v1/payments/$PAYMENT/captures", "capture-1", `{"amount": "60.00"}`), 201, ""},
	{"cancelPayment", keep("UNWANTED", pay("order-2", "25.00", "EUR", "")), post("/v1/payments/$UNWANTED/cancel", "cancel-2", `{"reason": "The customer changed their mind."}`), 200, ""},
	{"reviewPayment", keep("LARGE", pay("order-3", "1500.00", "USD", "ma_01kb7z2c000000000000000004")), post("/v1/payments/$LARGE/reviews", "review-3", `{"decision": "approve", "note": "A known customer."}`), 200, ""},
	{"refundPayment", "", keep("REFUND", post("/v1/payments/$PAYMENT/refunds", "refund-1", `{"amount": "20.00", "reason": "One of three was broken."}`)), 201, ""},
	{"listRefunds", "", get("/v1/payments/$PAYMENT/refunds"), 200, ""},
	{"readRefund", "", get("/v1/refunds/$REFUND"), 200, ""},
	{"listTransactions", "", get("/v1/transactions?payment_id=$PAYMENT"), 200, ""},
	{"readTicket", "", get("/v1/tickets/tkt_${PAYMENT#pay_}"), 200, ""},
	{"listEvents", "", keepFirst("EVENT", "evt", get("/v1/events?limit=10")), 200, ""},
	{"readEvent", "", get("/v1/events/$EVENT"), 200, ""},
	{"listAuditEntries", "", keepFirst("ENTRY", "aud", get("/v1/audit?target=$PAYMENT&limit=10")), 200, ""},
	{"listAuditCheckpoints", "# The worker seals entries within a minute.\nuntil " + get("/v1/audit/checkpoints") + " | grep -q '\"note\"'; do sleep 1; done", get("/v1/audit/checkpoints?limit=1"), 200, ""},
	{"listAuditLeaves", "", get("/v1/audit/leaves?limit=10"), 200, ""},
	{"readAuditProof", "", get("/v1/audit/proofs/$ENTRY"), 200, ""},
	{"previewCutoff", "", post("/v1/cutoffs/preview", "", `{"merchant_account_id": "'$TOLLGATE_MERCHANT_ACCOUNT'", "proposed": {"cutoff_time": "23:00"}}`), 200, ""},
	{"listPayouts", "# A week passes, and the worker makes the payout.\n" + post("/v1/sandbox/clock", "", `{"advance": "168h"}`) + "\n" +
		"until " + keepFirst("PAYOUT", "po", get("/v1/payouts")) + "; [ \"$PAYOUT\" ]; do sleep 1; done", get("/v1/payouts?limit=10"), 200, ""},
	{"readPayout", "", get("/v1/payouts/$PAYOUT"), 200, ""},
	{"releasePayout", "", post("/v1/payouts/$PAYOUT/release", "release-1", `{"reason": "Compared with the bank's list."}`), 409, "No payout of the sandbox is held, so this one is refused."},
	{"createExport", "", keep("JOB", post("/v1/exports/preview", "export-1", `{"dataset": "transactions", "format": "csv", "filters": {"status": "captured"}}`)), 202, ""},
	{"listExports", "", get("/v1/exports"), 200, ""},
	{"readExport", "", get("/v1/exports/$JOB"), 200, ""},
	{"deleteExport", keep("UNREAD", post("/v1/exports/preview", "export-2", `{"dataset": "payments", "format": "ndjson"}`)), curl("DELETE", "/v1/exports/$UNREAD"), 200, ""},
	{"readExportFile", "# The worker writes the file.\nuntil " + get("/v1/exports/$JOB") + " | grep -q '\"status\":\"succeeded\"'; do sleep 1; done", get("/v1/exports/$JOB/file"), 200, ""},

	{"createWebhook", "", keep("WEBHOOK", post("/v1/webhooks", "hook-1", `{"url": "http://127.0.0.1:3000/hooks", "event_types": ["payment.*"]}`)), 201, ""},
	{"listWebhooks", "", get("/v1/webhooks"), 200, ""},
	{"readWebhook", "", get("/v1/webhooks/$WEBHOOK"), 200, ""},
	{"updateWebhook", "", strings.Replace(post("/v1/webhooks/$WEBHOOK", "", `{"description": "orders"}`), "curl -s", "curl -s -X PATCH", 1), 200, ""},
	{"deleteWebhook", "", curl("DELETE", "/v1/webhooks/$WEBHOOK"), 200, ""},
	{"rotateWebhookSecrets", "", post("/v1/webhooks/$TOLLGATE_WEBHOOK/secrets", "rotate-1", `{"overlap_seconds": 86400}`), 201, ""},
	{"testWebhook", "", post("/v1/webhooks/$TOLLGATE_WEBHOOK/test", "test-1", ""), 202, ""},
	{"recoverWebhook", "", keep("RECOVERY", post("/v1/webhooks/$TOLLGATE_WEBHOOK/recoveries", "recover-1", `{"since": "'$(date -u +%Y-%m-%d)'T00:00:00Z"}`)), 202, ""},
	{"readRecovery", "", get("/v1/webhooks/$TOLLGATE_WEBHOOK/recoveries/$RECOVERY"), 200, ""},
	{"listDeliveries", "", keepFirst("DELIVERY", "dlv", get("/v1/webhooks/$TOLLGATE_WEBHOOK/deliveries?state=succeeded")), 200, ""},
	{"listAttempts", "", get("/v1/webhooks/$TOLLGATE_WEBHOOK/deliveries/$DELIVERY/attempts"), 200, ""},
	{"replayDelivery", "", post("/v1/webhooks/$TOLLGATE_WEBHOOK/deliveries/$DELIVERY/replays", "replay-1", `{"reason": "The receiver had lost it."}`), 202, ""},

	{"readClock", "", get("/v1/sandbox/clock"), 200, ""},
	{"moveClock", "", post("/v1/sandbox/clock", "", `{"advance": "26h"}`), 200, ""},
	{"readOpenAPI", "", public("/openapi.json"), 200, ""},
	{"readHealth", "", public("/healthz"), 200, ""},
	{"readReadiness", "", public("/readyz"), 200, ""},

	{"publishRule", "", post("/v1/rules", "publish-1", `{"rule": "rule:shop_fee@v1", "module": "AGFzbQEAAAA=", "golden": [{"amount": "100.00", "currency": "EUR", "lines": []}], "signature": "e30.e30.c2ln"}`), 422, "It needs a signature of your team's key. `bin/tollgate rule publish` signs and sends, as the next line does."},
	{"listRules", "bin/tollgate rule new shop_fee\nbin/tollgate rule publish shop_fee --rule rule:shop_fee@v1", keepFirst("RULE", "rul", get("/v1/rules")), 200, ""},
	{"readRule", "", get("/v1/rules/$RULE"), 200, ""},
	{"readRuleModule", "", get("/v1/rules/$RULE/module") + " -o rule.wasm", 200, ""},
	{"createActivation", "", keep("ACTIVATION", post("/v1/rule-sets/$TOLLGATE_RULE_SET/activations", "activate-1", `{"rule": "rule:shop_fee@v1", "replaces": "platform_fee", "at": "2031-01-01T00:00:00Z"}`)), 201, ""},
	{"listActivations", "", get("/v1/rule-sets/$TOLLGATE_RULE_SET/activations"), 200, ""},
	{"readActivation", "", get("/v1/rule-sets/$TOLLGATE_RULE_SET/activations/$ACTIVATION"), 200, ""},
	{"cancelActivation", "", post("/v1/rule-sets/$TOLLGATE_RULE_SET/activations/$ACTIVATION/cancel", "unactivate-1", ""), 200, ""},
	{"rollBackRuleSet", "# An activation is in force once every instance has the rule.\n" + keep("ACTIVATION", post("/v1/rule-sets/$TOLLGATE_RULE_SET/activations", "activate-2", `{"rule": "rule:shop_fee@v1", "replaces": "platform_fee"}`)) +
		"\nuntil " + get("/v1/rule-sets/$TOLLGATE_RULE_SET/activations/$ACTIVATION") + ` | grep -q '"status":"active"'; do sleep 1; done`, post("/v1/rule-sets/$TOLLGATE_RULE_SET/rollback", "rollback-2", "{}"), 201, ""},
	{"startShadow", "", keep("SHADOW", post("/v1/shadows", "shadow-1", `{"rule": "rule:shop_fee@v1", "against": "rule:platform_fee@v1"}`)), 201, ""},
	{"listShadows", "", get("/v1/shadows"), 200, ""},
	{"readShadow", "", get("/v1/shadows/$SHADOW"), 200, ""},
	{"stopShadow", "", post("/v1/shadows/$SHADOW/stop", "unshadow-1", ""), 200, ""},
	{"listDivergences", "", get("/v1/shadows/$SHADOW/divergences"), 200, ""},
}

// samplesByName are all samples, by the operation.
func samplesByName() map[string]sample {
	all := make(map[string]sample, len(samples))
	for _, s := range samples {
		all[s.Operation] = s
	}
	return all
}

const bearer = ` -H "Authorization: Bearer $TOLLGATE_TOKEN"`

// own asks about a token of the client's own.
func own(path string) string {
	return `curl -s "$TOLLGATE_URL/oauth2/` + path + `" \
  -d client_assertion_type=urn:ietf:params:oauth:client-assertion-type:jwt-bearer \
  --data-urlencode "client_assertion=${ASSERTION:-none}" \
  --data-urlencode "token=$TOLLGATE_TOKEN"`
}

// public asks without a token.
func public(path string) string { return `curl -s "$TOLLGATE_URL` + path + `"` }

func get(path string) string { return public(path) + bearer }

func curl(method, path string) string {
	return `curl -s -X ` + method + ` "$TOLLGATE_URL` + path + `"` + bearer
}

// post sends a body. Pasted twice, a line with a key gets the first answer again.
func post(path, key, body string) string {
	line := public(path) + " \\\n " + bearer
	switch {
	case body == "":
		line = strings.Replace(line, "curl -s", "curl -s -X POST", 1)
	default:
		line += " -H 'Content-Type: application/json'"
	}
	if key != "" {
		line += ` -H "Idempotency-Key: ` + key + `"`
	}
	if body != "" {
		quoted := strings.ReplaceAll(body, "bank's", "bank'\\''s")
		line += " \\\n  -d '" + quoted + "'"
	}
	return line
}

func pay(key, amount, currency, account string) string {
	of := ""
	if account != "" {
		of = fmt.Sprintf(`"merchant_account_id": %q, `, account)
	}
	return post("/v1/payments", key, fmt.Sprintf(`{%s"amount": %q, "currency": %q, "payee": "shop.example", "reference": %q}`, of, amount, currency, key))
}

// keep shows an answer, and has a variable be the id in it.
func keep(variable, line string) string {
	return variable + "=$(" + line + ` | tee /dev/stderr | cut -d '"' -f 8)`
}

// keepFirst shows an answer, and has a variable be the first id of a kind in it.
func keepFirst(variable, prefix, line string) string {
	return variable + "=$(" + line + ` | tee /dev/stderr | grep -o '` + prefix + `_[0-9a-z_]*' | head -n 1)`
}
