package payments

import (
	"strconv"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
)

// paymentFields is the payment's hash. Values are short, so that Redis keeps
// it as one block of memory; what a client did not send takes no room.
func paymentFields(p *tollgate.Payment, isNew bool) (f rediskv.Pairs) {
	f.Set(rediskv.EnvelopeField, rediskv.Envelope)
	f.Int("v", p.Revision)
	f.Set("st", string(p.Status))
	f.Int("capd", p.AmountCaptured.Minor)
	f.Int("capb", p.AmountCapturable.Minor)
	f.Int("reld", p.AmountReleased.Minor)
	f.Int("capn", int64(p.Captures))
	f.Int("fee", p.FeeTotal.Minor)
	if p.Refunds > 0 {
		f.Int("rfd", p.AmountRefunded.Minor)
		f.Int("rfn", int64(p.Refunds))
	}
	f.Set("due", rediskv.Milli(p.Deadline()))
	f.Int("upd", int64(p.UpdatedAt))
	f.Add("aut", rediskv.Milli(p.AuthorizedAt))
	f.Add("cpt", rediskv.Milli(p.CapturedAt))
	f.Add("can", rediskv.Milli(p.CanceledAt))
	f.Add("exp", rediskv.Milli(p.ExpiredAt))
	f.Pointer("why", p.CancellationReason)
	if !isNew {
		return f
	}
	f.Set("ma", p.MerchantAccountID)
	f.Int("amt", p.Amount.Minor)
	f.Set("cur", string(p.Currency))
	f.Set("payee", p.Payee)
	f.Set("cm", string(p.CaptureMethod))
	f.Int("bef", int64(p.CaptureBefore))
	f.Int("crt", int64(p.CreatedAt))
	f.Set("per", p.Perimeter.ID)
	f.Int("perv", p.Perimeter.Version)
	f.Set("perd", string(p.Perimeter.Decision))
	f.Add("perr", string(p.Perimeter.Reason))
	for i, counter := range p.Counters {
		f.Set(useField(i), counter)
	}
	f.Pointer("ref", p.Reference)
	f.Pointer("desc", p.Description)
	if len(p.Metadata) > 0 {
		text, err := json.Marshal(p.Metadata, json.Deterministic(true))
		if err != nil {
			panic(err) // strings only, checked to be UTF-8
		}
		f.Set("meta", string(text))
	}
	return f
}

// useField holds one of the counters that a payment was counted in.
func useField(i int) string { return "use" + strconv.Itoa(i) }

// uncounted stands for a counter that did not exist (tollgate.Use, Earlier). The
// build before looks for one of that name, which there is not.
const uncounted = "-"

// PaymentOf reads a payment's hash; its error is the damage of the payment.
func PaymentOf(id string, f rediskv.Fields) (*tollgate.Payment, error) {
	r := rediskv.ReadHash("payment", id, f)
	cur := r.Currency("cur")
	p := &tollgate.Payment{
		Object: "payment", ID: id, CreatedAt: r.Instant("crt"), UpdatedAt: r.Instant("upd"),
		MerchantAccountID: r.Of("ma", tollgate.PrefixMerchantAccount), Status: tollgate.PaymentStatus(r.Word("st", tollgate.PaymentStatuses...)),
		Amount: r.Amount("amt", cur), Currency: cur, Payee: r.Text("payee"),
		AmountCapturable: r.Amount("capb", cur), AmountCaptured: r.Amount("capd", cur), AmountReleased: r.Amount("reld", cur),
		CaptureMethod: tollgate.CaptureMethod(r.Word("cm", string(tollgate.CaptureManual), string(tollgate.CaptureAutomatic))),
		CaptureBefore: r.Instant("bef"), FeeTotal: r.Amount("fee", cur), TicketID: tollgate.TicketOf(id),
		Perimeter: tollgate.PerimeterDecision{
			ID: r.Of("per", tollgate.PrefixPerimeter), Version: r.Int("perv"),
			Decision: tollgate.Decision(r.Word("perd", string(tollgate.DecisionAllow), string(tollgate.DecisionDeny), string(tollgate.DecisionReview))), Reason: tollgate.Reason(f["perr"]),
		},
		Reference: f.Optional("ref"), Description: f.Optional("desc"), CancellationReason: f.Optional("why"),
		AuthorizedAt: r.Moment("aut"), CapturedAt: r.Moment("cpt"), CanceledAt: r.Moment("can"), ExpiredAt: r.Moment("exp"),
		Revision: r.Int("v"), Captures: int(r.Count("capn")), Refunds: int(r.Count("rfn")),
	}
	r.Moment("due") // of the scripts
	for i := 0; f[useField(i)] != ""; i++ {
		if f[useField(i)] != uncounted {
			p.Counters = append(p.Counters, f[useField(i)])
		}
	}
	if f["meta"] != "" {
		r.JSON("meta", &p.Metadata)
	}
	p.AmountRefunded = tollgate.Money{Minor: r.Count("rfd"), Currency: cur}
	p.AmountRefundable = tollgate.Money{Minor: p.AmountCaptured.Minor - p.AmountRefunded.Minor, Currency: cur}
	if (p.Refunds == 0) != (p.AmountRefunded.Minor == 0) || p.Refunds > tollgate.MaxRefunds {
		r.Fault("rfn")
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if err := p.CheckInvariant(); err != nil {
		d := tollgate.Damage("payment", id, err)
		d.Damaged.MerchantAccountID = p.MerchantAccountID
		return nil, d
	}
	return p, nil
}
