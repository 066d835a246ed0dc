package rediskv

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"

	"tollgate"
)

// paymentFields is the payment's hash. Values are short, so that Redis keeps
// it as one block of memory; what a client did not send takes no room.
func paymentFields(p *tollgate.Payment, isNew bool) (f pairs) {
	f.int("v", p.Revision)
	f.set("st", string(p.Status))
	f.int("capd", p.AmountCaptured.Minor)
	f.int("capb", p.AmountCapturable.Minor)
	f.int("reld", p.AmountReleased.Minor)
	f.int("capn", int64(p.Captures))
	f.int("fee", p.FeeTotal.Minor)
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

func paymentOf(id string, f fields) (*tollgate.Payment, error) {
	cur := tollgate.Currency(f["cur"])
	money := func(name string) tollgate.Money { return tollgate.Money{Minor: f.int(name), Currency: cur} }
	p := &tollgate.Payment{
		Object: "payment", ID: id, CreatedAt: f.instant("crt"), UpdatedAt: f.instant("upd"),
		MerchantAccountID: f["ma"], Status: tollgate.PaymentStatus(f["st"]), Amount: money("amt"), Currency: cur, Payee: f["payee"],
		AmountCapturable: money("capb"), AmountCaptured: money("capd"), AmountReleased: money("reld"),
		CaptureMethod: tollgate.CaptureMethod(f["cm"]), CaptureBefore: f.instant("bef"), FeeTotal: money("fee"), TicketID: tollgate.TicketOf(id),
		Perimeter: tollgate.PerimeterDecision{
			ID: f["per"], Version: f.int("perv"), Decision: tollgate.Decision(f["perd"]), Reason: tollgate.Reason(f["perr"]),
		},
		Reference: f.optional("ref"), Description: f.optional("desc"), CancellationReason: f.optional("why"),
		AuthorizedAt: f.instant("aut"), CapturedAt: f.instant("cpt"), CanceledAt: f.instant("can"), ExpiredAt: f.instant("exp"),
		Revision: f.int("v"), Captures: int(f.int("capn")),
	}
	for i := 0; f[useField(i)] != ""; i++ {
		p.Counters = append(p.Counters, f[useField(i)])
	}
	if text := f["meta"]; text != "" {
		if err := json.Unmarshal([]byte(text), &p.Metadata); err != nil {
			return nil, fmt.Errorf("payment %s: metadata: %w", id, err)
		}
	}
	return p, nil
}
