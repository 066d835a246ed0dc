package ledger

import (
	"tollgate"
	"tollgate/rediskv"
)

// TransactionFields is the transaction's hash; its position is added by the
// script that commits it.
func TransactionFields(t *tollgate.Transaction) (f rediskv.Pairs) {
	f.Set(rediskv.EnvelopeField, rediskv.Envelope)
	f.Set("ty", string(t.Type))
	f.Set("st", t.Status)
	f.Set("ma", t.MerchantAccountID)
	f.Int("amt", t.Amount.Minor)
	f.Set("cur", string(t.Currency))
	f.Int("crt", int64(t.CreatedAt))
	f.Int("upd", int64(t.UpdatedAt))
	f.Pointer("pay", t.PaymentID)
	f.Pointer("cap", t.CaptureID)
	f.Pointer("rfd", t.RefundID)
	f.Pointer("po", t.PayoutID)
	f.Pointer("tkt", t.TicketID)
	f.Pointer("payee", t.Payee)
	f.Pointer("ref", t.Reference)
	f.Pointer("bd", t.BatchDate)
	f.Pointer("av", t.AvailableOn)
	return f
}

// readTransaction reads a hash back. A payout's amount can have more digits than a payment's.
func readTransaction(id string, f rediskv.Fields) (*tollgate.Transaction, *rediskv.Stored) {
	r := rediskv.ReadHash("transaction", id, f)
	cur := r.Currency("cur")
	t := &tollgate.Transaction{
		Object: "transaction", ID: id, CreatedAt: r.Instant("crt"), UpdatedAt: r.Instant("upd"),
		Type: tollgate.TransactionType(r.Word("ty", transactionTypes...)), Status: r.Word("st", tollgate.TransactionStatuses...),
		PaymentID: r.OfOne("pay", tollgate.PrefixPayment), CaptureID: r.OfOne("cap", tollgate.PrefixCapture), RefundID: r.OfOne("rfd", tollgate.PrefixRefund),
		PayoutID: r.OfOne("po", tollgate.PrefixPayout), TicketID: r.OfOne("tkt", tollgate.PrefixTicket),
		MerchantAccountID: r.Of("ma", tollgate.PrefixMerchantAccount), Amount: tollgate.Money{Minor: r.Int("amt"), Currency: cur}, Currency: cur,
		Payee: f.Optional("payee"), Reference: f.Optional("ref"), BatchDate: r.Date("bd"), AvailableOn: r.Date("av"),
	}
	if (t.BatchDate == nil) != (t.AvailableOn == nil) {
		r.Fault("bd")
		r.Fault("av")
	}
	r.Int("pos")
	switch { // each belongs to something
	case t.Type == tollgate.TransactionPayout:
		r.Of("po", tollgate.PrefixPayout)
	case t.Type == tollgate.TransactionRefund:
		r.Of("rfd", tollgate.PrefixRefund)
	case t.Type == tollgate.TransactionCapture, t.Type == tollgate.TransactionFee && t.RefundID == nil:
		r.Of("cap", tollgate.PrefixCapture)
	}
	if t.Type != tollgate.TransactionPayout {
		r.Of("pay", tollgate.PrefixPayment)
		r.Of("tkt", tollgate.PrefixTicket)
		r.Text("payee")
		r.Amount("amt", cur)
	}
	t.Damaged = len(r.Faults) > 0
	return t, r
}

var transactionTypes = func() (names []string) {
	for _, t := range tollgate.TransactionTypes {
		names = append(names, string(t))
	}
	return names
}()
