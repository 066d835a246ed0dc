package rediskv

import "tollgate"

// transactionFields is the transaction's hash; its position is added by the
// script that commits it.
func transactionFields(t *tollgate.Transaction) (f pairs) {
	f.set("ty", string(t.Type))
	f.set("st", t.Status)
	f.set("ma", t.MerchantAccountID)
	f.int("amt", t.Amount.Minor)
	f.set("cur", string(t.Currency))
	f.int("crt", int64(t.CreatedAt))
	f.int("upd", int64(t.UpdatedAt))
	f.pointer("pay", t.PaymentID)
	f.pointer("cap", t.CaptureID)
	f.pointer("po", t.PayoutID)
	f.pointer("tkt", t.TicketID)
	f.pointer("payee", t.Payee)
	f.pointer("ref", t.Reference)
	f.pointer("bd", t.BatchDate)
	f.pointer("av", t.AvailableOn)
	return f
}

func transactionOf(id string, f fields) tollgate.Transaction {
	cur := tollgate.Currency(f["cur"])
	return tollgate.Transaction{
		Object: "transaction", ID: id, CreatedAt: f.instant("crt"), UpdatedAt: f.instant("upd"),
		Type: tollgate.TransactionType(f["ty"]), Status: f["st"],
		PaymentID: f.optional("pay"), CaptureID: f.optional("cap"), PayoutID: f.optional("po"), TicketID: f.optional("tkt"),
		MerchantAccountID: f["ma"], Amount: tollgate.Money{Minor: f.int("amt"), Currency: cur}, Currency: cur,
		Payee: f.optional("payee"), Reference: f.optional("ref"), BatchDate: f.optional("bd"), AvailableOn: f.optional("av"),
	}
}
