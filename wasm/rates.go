package wasm

// rates sets rate, fixed, minimum and maximum for the currency and the amount,
// or replies with no line or a refusal when no fee fits.
func (t *tableCode) rates(p *plan) {
	t.begin(opBlock)
	for i := range p.rows {
		t.isOneOf(p.rows[i].currencies)
		t.begin(opIf)
		t.row(&p.rows[i])
		t.op(opBr, 1, opEnd)
	}
	switch {
	case p.rest != nil:
		t.row(p.rest)
	case p.refuseRest:
		t.refuse(notPriced)
	default:
		t.reply(0)
	}
	t.op(opEnd)
}

func (t *tableCode) row(r *row) {
	t.i64(r.maximum).set(locMaximum)
	if r.minimum != 0 {
		t.i64(r.minimum).set(locMinimum)
	}
	for _, tier := range r.tiers {
		if tier.upTo != unlimited {
			t.get(locAmount).i64(tier.upTo).op(opI64LeS).begin(opIf)
		}
		t.i64(tier.rate).set(locRate).i64(tier.fixed).set(locFixed)
		if tier.upTo != unlimited {
			t.op(opElse)
		}
	}
	for range len(r.tiers) - 1 {
		t.op(opEnd)
	}
}

// fee computes the fee and replies with it unless it is zero.
//
// amount × rate has up to 21 digits, more than 64 bits hold. With amount =
// high × 10^6 + low, amount × rate / 10^6 = high × rate + low × rate / 10^6:
// the first term is whole and below 10^15, the product in the second is below
// 10^12, and only that second term needs rounding.
func (t *tableCode) fee() {
	t.get(locAmount).i64(rateUnit).op(opI64DivU).set(locHigh)
	t.get(locAmount).get(locHigh).i64(rateUnit).op(opI64Mul, opI64Sub).
		get(locRate).op(opI64Mul).set(locLow)
	// Rounded down first: fee = high × rate + low / 10^6, low = the remainder.
	t.get(locLow).i64(rateUnit).op(opI64DivU).set(locFee)
	t.get(locLow).get(locFee).i64(rateUnit).op(opI64Mul, opI64Sub).set(locLow)
	t.get(locFee).get(locHigh).get(locRate).op(opI64Mul, opI64Add).set(locFee)
	// Half to even: up when 2 × remainder + (1 if odd) > 10^6.
	t.get(locFee)
	t.get(locLow).get(locLow).op(opI64Add).get(locFee).i64(1).op(opI64And, opI64Add)
	t.i64(rateUnit).op(opI64GtS, opI64ExtendU, opI64Add)
	t.get(locFixed).op(opI64Add).set(locFee)

	t.clamp(locMinimum, opI64LtS)
	t.clamp(locMaximum, opI64GtS)
	t.get(locFee).op(opI64Eqz, opI32Eqz).begin(opIf)
	t.reply(1)
	t.op(opEnd)
}

// clamp sets the fee to a bound when compare says that it is beyond it.
func (t *tableCode) clamp(bound, compare byte) {
	t.get(bound).get(locFee)
	t.get(locFee).get(bound).op(compare, opSelect).set(locFee)
}
