package payments

import (
	"testing"

	"tollgate"
	"tollgate/rediskv"
)

// What was remembered stays readable: the fields that change stand in this order. A new one
// goes behind all others.
func TestShownOf(t *testing.T) {
	why := "no, thanks"
	p := &tollgate.Payment{
		ID: "pay_01m6vt5y3d4mkqfmn681hf5v00", Status: tollgate.Canceled, CancellationReason: &why,
		AmountCapturable: eur(1), AmountCaptured: eur(2), AmountReleased: eur(3), AmountRefunded: eur(4), FeeTotal: eur(5),
		AuthorizedAt: 6, CapturedAt: 7, CanceledAt: 8, ExpiredAt: 9, UpdatedAt: 10, Revision: 11, Captures: 12, Refunds: 13, Numbers: 14,
	}
	refund := &tollgate.PaymentChange{Action: "refund", Payment: p, Refund: &tollgate.Refund{ID: "rfd_01m6vt5y3d4mkqfmn681hf5v0d"}}
	want := "2 e3069283 pay_01m6vt5y3d4mkqfmn681hf5v00 rfd_0d\ncanceled\n1\n2\n3\n4\n5\nno, thanks\n6\n7\n8\n9\n10\n11\n12\n13\n14"
	if got := shownOf(refund, []byte("123456789")); got != want {
		t.Errorf("%q", got)
	}
	f := rediskv.Fields{"rfd": "100"}
	paymentTable.Change(f, []string{"canceled", "1", "2", "3", ""})
	if f["st"] != "canceled" || f["reld"] != "3" || f["rfd"] != "" || len(f) != 5 {
		t.Errorf("%v", f)
	}
}

func eur(minor int64) tollgate.Money { return tollgate.Money{Minor: minor, Currency: "EUR"} }
