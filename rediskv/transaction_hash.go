package rediskv

import "tollgate"

// transactionFields is the transaction's hash; its position is added by the
// script that commits it.
func transactionFields(t *tollgate.Transaction) (f pairs) {
	f.set(envelopeField, envelope)
	f.set("ty", string(t.Type))
	f.set("st", t.Status)
	f.set("ma", t.MerchantAccountID)
	f.int("amt", t.Amount.Minor)
	f.set("cur", string(t.Currency))
	f.int("crt", int64(t.CreatedAt))
	f.int("upd", int64(t.UpdatedAt))
	f.pointer("pay", t.PaymentID)
	f.pointer("cap", t.CaptureID)
	f.pointer("rfd", t.RefundID)
	f.pointer("po", t.PayoutID)
	f.pointer("tkt", t.TicketID)
	f.pointer("payee", t.Payee)
	f.pointer("ref", t.Reference)
	f.pointer("bd", t.BatchDate)
	f.pointer("av", t.AvailableOn)
	return f
}

// readTransaction reads a hash back. A payout's amount can have more digits than a payment's.
func readTransaction(id string, f fields) (*tollgate.Transaction, *stored) {
	r := read("transaction", id, f)
	cur := r.currency("cur")
	t := &tollgate.Transaction{
		Object: "transaction", ID: id, CreatedAt: r.instant("crt"), UpdatedAt: r.instant("upd"),
		Type: tollgate.TransactionType(r.word("ty", transactionTypes...)), Status: r.word("st", tollgate.TransactionStatuses...),
		PaymentID: r.ofOne("pay", tollgate.PrefixPayment), CaptureID: r.ofOne("cap", tollgate.PrefixCapture), RefundID: r.ofOne("rfd", tollgate.PrefixRefund),
		PayoutID: r.ofOne("po", tollgate.PrefixPayout), TicketID: r.ofOne("tkt", tollgate.PrefixTicket),
		MerchantAccountID: r.of("ma", tollgate.PrefixMerchantAccount), Amount: tollgate.Money{Minor: r.int("amt"), Currency: cur}, Currency: cur,
		Payee: f.optional("payee"), Reference: f.optional("ref"), BatchDate: r.date("bd"), AvailableOn: r.date("av"),
	}
	if (t.BatchDate == nil) != (t.AvailableOn == nil) {
		r.fault("bd")
		r.fault("av")
	}
	r.int("pos")
	switch { // each belongs to something
	case t.Type == tollgate.TransactionPayout:
		r.of("po", tollgate.PrefixPayout)
	case t.Type == tollgate.TransactionRefund:
		r.of("rfd", tollgate.PrefixRefund)
	case t.Type == tollgate.TransactionCapture, t.Type == tollgate.TransactionFee && t.RefundID == nil:
		r.of("cap", tollgate.PrefixCapture)
	}
	if t.Type != tollgate.TransactionPayout {
		r.of("pay", tollgate.PrefixPayment)
		r.of("tkt", tollgate.PrefixTicket)
		r.text("payee")
		r.amount("amt", cur)
	}
	t.Damaged = len(r.faults) > 0
	return t, r
}

var transactionTypes = func() (names []string) {
	for _, t := range tollgate.TransactionTypes {
		names = append(names, string(t))
	}
	return names
}()
