package ledger

import (
	"strconv"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/hashes"
	"tollgate/rediskv/record"
)

var transactionTable = hashes.New[tollgate.Transaction]()

// TransactionFields is the transaction's hash; its position is added by the
// script that commits it.
func TransactionFields(t *tollgate.Transaction) rediskv.Pairs { return transactionTable.Pairs(t, true) }

// Repeated is what the later transactions of a payment repeat of its first one, as its hash
// has it (record.Kind.Repeats).
func Repeated(p *tollgate.Payment) []string {
	reference := ""
	if p.Reference != nil {
		reference = *p.Reference
	}
	return []string{rediskv.Milli(p.CreatedAt), p.ID, p.MerchantAccountID, strconv.FormatInt(p.Amount.Minor, 10), string(p.Currency), string(p.Payee), reference}
}

// TransactionOf reads a hash back. A payout's amount can have more digits than a payment's.
func TransactionOf(id string, f rediskv.Fields) (*tollgate.Transaction, *rediskv.Stored) {
	r, t := record.ReadHash("transaction", id, f), &tollgate.Transaction{Object: "transaction", ID: id}
	transactionTable.Read(r, t)
	if t.Status != "" {
		r.Word("st", tollgate.TransactionStatuses...)
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
		if !record.Summed(f[rediskv.EnvelopeField]) { // else it was erased
			r.Text("payee")
		}
		r.Amount("amt", t.Currency)
	}
	t.Damaged = len(r.Faults) > 0
	return t, r
}
