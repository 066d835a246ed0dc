package record

import (
	"strings"

	"tollgate"
)

// objects are the types of objects by the prefix of their identifiers.
var objects = map[string]string{
	tollgate.PrefixOrganization: "organization", tollgate.PrefixLegalEntity: "legal_entity", tollgate.PrefixMerchantAccount: "merchant_account",
	tollgate.PrefixGrant: "grant", tollgate.PrefixClient: "client", tollgate.PrefixPayment: "payment", tollgate.PrefixCapture: "capture", tollgate.PrefixRefund: "refund",
	tollgate.PrefixTransaction: "transaction", tollgate.PrefixTicket: "ticket", tollgate.PrefixEvent: "event", tollgate.PrefixPerimeter: "perimeter",
	tollgate.PrefixRuleSet: "rule_set", tollgate.PrefixPayout: "payout", tollgate.PrefixRuleSigner: "rule_signer",
	tollgate.PrefixActivation: "activation", tollgate.PrefixShadow: "shadow", tollgate.PrefixWebhook: "webhook_endpoint",
	tollgate.PrefixDelivery: "delivery", tollgate.PrefixExport: "export", tollgate.PrefixRecovery: "recovery", tollgate.PrefixAttempt: "attempt",
}

// ObjectAt is the object that a key belongs to, and its organization.
func ObjectAt(key string) (org, object, id string, ok bool) {
	part := strings.SplitN(key, ":", 4)
	if len(part) < 2 {
		return "", "", "", false
	}
	id = part[1]
	if len(part) > 2 && strings.Contains(part[2], "_") {
		id = part[2]
	}
	object = "record"
	if prefix, _, ok := strings.Cut(id, "_"); ok && objects[prefix+"_"] != "" {
		object = objects[prefix+"_"]
	}
	if len(part) > 3 && part[2] == "use" {
		object, id = "counter", part[3]
	}
	if len(part) > 2 && part[2] == "tree" {
		object = "audit_tree"
	}
	if len(part) > 2 && part[2] == "postings" {
		object = "postings"
	}
	if strings.HasSuffix(key, ":shadowing") {
		object = "shadows"
	}
	if len(part) > 3 && part[2] == "idem" {
		object, id = "idempotency_record", part[3]
	}
	if len(part) > 3 && part[2] == "rule" {
		if cited, err := tollgate.ParseCitation(part[2] + ":" + part[3]); err == nil {
			object, id = "rule", tollgate.RuleID(cited)
		}
	}
	return part[1], object, id, true
}
