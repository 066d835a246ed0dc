package rediskv

import (
	"strconv"

	"github.com/go-json-experiment/json"

	"tollgate"
)

// paymentFields is the payment's hash. Values are short, so that Redis keeps
// it as one block of memory; what a client did not send takes no room.
func paymentFields(p *tollgate.Payment, isNew bool) (f pairs) {
	f.set(envelopeField, envelope)
	f.int("v", p.Revision)
	f.set("st", string(p.Status))
	f.int("capd", p.AmountCaptured.Minor)
	f.int("capb", p.AmountCapturable.Minor)
	f.int("reld", p.AmountReleased.Minor)
	f.int("capn", int64(p.Captures))
	f.int("fee", p.FeeTotal.Minor)
	if p.Refunds > 0 {
		f.int("rfd", p.AmountRefunded.Minor)
		f.int("rfn", int64(p.Refunds))
	}
	f.set("due", milli(p.Deadline()))
	f.int("upd", int64(p.UpdatedAt))
	f.add("aut", milli(p.AuthorizedAt))
	f.add("cpt", milli(p.CapturedAt))
	f.add("can", milli(p.CanceledAt))
	f.add("exp", milli(p.ExpiredAt))
	f.pointer("why", p.CancellationReason)
	if !isNew {
		return f
	}
	f.set("ma", p.MerchantAccountID)
	f.int("amt", p.Amount.Minor)
	f.set("cur", string(p.Currency))
	f.set("payee", p.Payee)
	f.set("cm", string(p.CaptureMethod))
	f.int("bef", int64(p.CaptureBefore))
	f.int("crt", int64(p.CreatedAt))
	f.set("per", p.Perimeter.ID)
	f.int("perv", p.Perimeter.Version)
	f.set("perd", string(p.Perimeter.Decision))
	f.add("perr", string(p.Perimeter.Reason))
	for i, counter := range p.Counters {
		f.set(useField(i), counter)
	}
	f.pointer("ref", p.Reference)
	f.pointer("desc", p.Description)
	if len(p.Metadata) > 0 {
		text, err := json.Marshal(p.Metadata, json.Deterministic(true))
		if err != nil {
			panic(err) // strings only, checked to be UTF-8
		}
		f.set("meta", string(text))
	}
	return f
}

// useField holds one of the counters that a payment was counted in.
func useField(i int) string { return "use" + strconv.Itoa(i) }

// uncounted stands for a counter that did not exist (tollgate.Use, Earlier). The
// build before looks for one of that name, which there is not.
const uncounted = "-"

func paymentOf(id string, f fields) (*tollgate.Payment, error) {
	r := read("payment", id, f)
	cur := r.currency("cur")
	p := &tollgate.Payment{
		Object: "payment", ID: id, CreatedAt: r.instant("crt"), UpdatedAt: r.instant("upd"),
		MerchantAccountID: r.of("ma", tollgate.PrefixMerchantAccount), Status: tollgate.PaymentStatus(r.word("st", tollgate.PaymentStatuses...)),
		Amount: r.amount("amt", cur), Currency: cur, Payee: r.text("payee"),
		AmountCapturable: r.amount("capb", cur), AmountCaptured: r.amount("capd", cur), AmountReleased: r.amount("reld", cur),
		CaptureMethod: tollgate.CaptureMethod(r.word("cm", string(tollgate.CaptureManual), string(tollgate.CaptureAutomatic))),
		CaptureBefore: r.instant("bef"), FeeTotal: r.amount("fee", cur), TicketID: tollgate.TicketOf(id),
		Perimeter: tollgate.PerimeterDecision{
			ID: r.of("per", tollgate.PrefixPerimeter), Version: r.int("perv"),
			Decision: tollgate.Decision(r.word("perd", string(tollgate.Allow), string(tollgate.Deny), string(tollgate.Review))), Reason: tollgate.Reason(f["perr"]),
		},
		Reference: f.optional("ref"), Description: f.optional("desc"), CancellationReason: f.optional("why"),
		AuthorizedAt: r.moment("aut"), CapturedAt: r.moment("cpt"), CanceledAt: r.moment("can"), ExpiredAt: r.moment("exp"),
		Revision: r.int("v"), Captures: int(r.count("capn")), Refunds: int(r.count("rfn")),
	}
	r.moment("due") // of the scripts
	for i := 0; f[useField(i)] != ""; i++ {
		if f[useField(i)] != uncounted {
			p.Counters = append(p.Counters, f[useField(i)])
		}
	}
	if f["meta"] != "" {
		r.json("meta", &p.Metadata)
	}
	p.AmountRefunded = tollgate.Money{Minor: r.count("rfd"), Currency: cur}
	p.AmountRefundable = tollgate.Money{Minor: p.AmountCaptured.Minor - p.AmountRefunded.Minor, Currency: cur}
	if (p.Refunds == 0) != (p.AmountRefunded.Minor == 0) || p.Refunds > tollgate.MaxRefunds {
		r.fault("rfn")
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	if err := p.CheckInvariant(); err != nil {
		d := tollgate.Damage("payment", id, err)
		d.Damaged.MerchantAccountID = p.MerchantAccountID
		return nil, d
	}
	return p, nil
}
