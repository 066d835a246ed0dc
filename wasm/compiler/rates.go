package compiler

import "tollgate/wasm/abi"

// rates sets rate, fixed, minimum and maximum for the currency and the amount,
// or replies with no line or a refusal when no fee fits.
func (t *tableCode) rates(p *plan) {
	t.begin(abi.OpBlock)
	for i := range p.rows {
		t.isOneOf(p.rows[i].currencies)
		t.begin(abi.OpIf)
		t.row(&p.rows[i])
		t.op(abi.OpBr, 1, abi.OpEnd)
	}
	switch {
	case p.rest != nil:
		t.row(p.rest)
	case p.refuseRest != nil:
		t.refuse(*p.refuseRest)
	default:
		t.reply(0)
	}
	t.op(abi.OpEnd)
}

func (t *tableCode) row(r *row) {
	t.i64(r.maximum).set(locMaximum)
	if r.minimum != 0 {
		t.i64(r.minimum).set(locMinimum)
	}
	for _, tier := range r.tiers {
		if tier.upTo != unlimited {
			t.get(locAmount).i64(tier.upTo).op(abi.OpI64LeS).begin(abi.OpIf)
		}
		t.i64(tier.rate).set(locRate).i64(tier.fixed).set(locFixed)
		if tier.upTo != unlimited {
			t.op(abi.OpElse)
		}
	}
	for range len(r.tiers) - 1 {
		t.op(abi.OpEnd)
	}
}

// fee computes the fee and replies with it unless it is zero.
//
// amount × rate has up to 21 digits, more than 64 bits hold. With amount =
// high × 10^6 + low, amount × rate / 10^6 = high × rate + low × rate / 10^6:
// the first term is whole and below 10^15, the product in the second is below
// 10^12, and only that second term needs rounding.
func (t *tableCode) fee() {
	t.get(locAmount).i64(rateUnit).op(abi.OpI64DivU).set(locHigh)
	t.get(locAmount).get(locHigh).i64(rateUnit).op(abi.OpI64Mul, abi.OpI64Sub).
		get(locRate).op(abi.OpI64Mul).set(locLow)
	// Rounded down first: fee = high × rate + low / 10^6, low = the remainder.
	t.get(locLow).i64(rateUnit).op(abi.OpI64DivU).set(locFee)
	t.get(locLow).get(locFee).i64(rateUnit).op(abi.OpI64Mul, abi.OpI64Sub).set(locLow)
	t.get(locFee).get(locHigh).get(locRate).op(abi.OpI64Mul, abi.OpI64Add).set(locFee)
	// Half to even: up when 2 × remainder + (1 if odd) > 10^6.
	t.get(locFee)
	t.get(locLow).get(locLow).op(abi.OpI64Add).get(locFee).i64(1).op(abi.OpI64And, abi.OpI64Add)
	t.i64(rateUnit).op(abi.OpI64GtS, abi.OpI64ExtendU, abi.OpI64Add)
	t.get(locFixed).op(abi.OpI64Add).set(locFee)

	t.clamp(locMinimum, abi.OpI64LtS)
	t.clamp(locMaximum, abi.OpI64GtS)
	t.get(locFee).op(abi.OpI64Eqz, abi.OpI32Eqz).begin(abi.OpIf)
	t.reply(1)
	t.op(abi.OpEnd)
}

// clamp sets the fee to a bound when compare says that it is beyond it.
func (t *tableCode) clamp(bound, compare byte) {
	t.get(bound).get(locFee)
	t.get(locFee).get(bound).op(compare, abi.OpSelect).set(locFee)
}
