package explain

import (
	"tollgate"
)

// kind is what a prefix of ids stands for.
type kind struct {
	prefix, name, about string
	list                string // command that lists such objects
	path                bool   // the API can find one
	// read finds out about one and reports whether it is there.
	read func(r *reader, id string) bool
}

// kinds has every prefix of the contract.
var kinds = []kind{
	{tollgate.PrefixPayment, "payment", "a payment", "payments", true, (*reader).payment},
	{tollgate.PrefixTicket, "ticket", "a ticket: the account of a payment's fees", "payments", true, (*reader).ticket},
	{tollgate.PrefixCapture, "capture", "a capture of a payment", "transactions --type capture", true, (*reader).capture},
	{tollgate.PrefixRefund, "refund", "a refund of a payment", "transactions --type refund", true, (*reader).refund},
	{tollgate.PrefixTransaction, "transaction", "a transaction: one movement of money", "transactions", true, (*reader).transaction},
	{tollgate.PrefixEvent, "event", "an event, frozen when it happened", "events", true, (*reader).event},
	{tollgate.PrefixPayout, "payout", "a payout: what an account is paid for its sales days", "payout list", true, (*reader).payout},
	{tollgate.PrefixExport, "export", "an export: a file made of a dataset", "exports", true, (*reader).export},
	{tollgate.PrefixWebhook, "webhook_endpoint", "a webhook endpoint: where events are delivered", "webhooks list", true, (*reader).webhook},
	{tollgate.PrefixDelivery, "delivery", "a delivery: one event on its way to one endpoint", "webhooks list", true, (*reader).delivery},
	{tollgate.PrefixAttempt, "attempt", "one attempt of a delivery; 'tollgate attempts' lists those of a delivery", "webhooks list", false, (*reader).nothing},
	{tollgate.PrefixReplay, "replay", "a delivery that was sent again on request", "events --types delivery.replayed", true, (*reader).told},
	{tollgate.PrefixRecovery, "recovery", "a recovery: it sends what an endpoint missed", "webhooks list", true, (*reader).recovery},
	{tollgate.PrefixRule, "rule", "one version of a pricing rule", "rule published", true, (*reader).rule},
	{tollgate.PrefixRuleSet, "rule_set", "a rule set: the rules that price an account's payments, in order", "accounts", true, (*reader).ruleSet},
	{tollgate.PrefixActivation, "activation", "an activation: it moves accounts to another version of a rule set", "accounts", true, (*reader).activation},
	{tollgate.PrefixShadow, "shadow", "a shadow: a rule priced beside the one in force, and never charged", "rule shadow list", true, (*reader).shadow},
	{tollgate.PrefixDivergence, "divergence", "an input that a shadow's rule prices in another way; 'tollgate rule shadow show' lists them", "rule shadow list", false, (*reader).nothing},
	{tollgate.PrefixPerimeter, "perimeter", "a perimeter: what payments an account may make", "perimeters", true, (*reader).perimeter},
	{tollgate.PrefixMerchantAccount, "merchant_account", "a merchant account: where payments are made", "accounts", true, (*reader).account},
	{tollgate.PrefixOrganization, "organization", "an organization: it owns all the rest", "whoami", true, (*reader).organization},
	{tollgate.PrefixLegalEntity, "legal_entity", "a legal entity: the company or person behind accounts", "accounts", true, (*reader).legalEntity},
	{tollgate.PrefixGrant, "grant", "a grant: what a client may do, and for which accounts", "whoami", true, (*reader).grant},
	{tollgate.PrefixClient, "client", "a client: who signs requests for tokens", "client list", true, (*reader).client},
	{tollgate.PrefixRuleSigner, "rule_signer", "a rule signer: who may publish rules. The operator provisions it; the API does not show it", "rule published", false, (*reader).nothing},
	{tollgate.PrefixRequest, "request", "a request, as answers and the log of the service name it. The operator finds it in the log", "events", false, (*reader).request},
	{tollgate.PrefixAudit, "audit_entry", "an entry of the audit record: who did what, and what came of it", "audit search", false, (*reader).nothing},
	{tollgate.PrefixInstance, "instance", "an instance of the service; the operator's log and 'tollgate rule activate' name it", "accounts", false, (*reader).nothing},
	{tollgate.PrefixHistory, "history", "a history of the log: a new one begins where Redis has lost data. The operator sees it with 'tollgate history show'", "events", false, (*reader).nothing},
}

// nothing is for what no address answers.
func (r *reader) nothing(string) bool { return false }
