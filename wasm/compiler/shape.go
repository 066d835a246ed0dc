package compiler

import (
	"slices"

	"tollgate"
)

// Shape is how a table's fee for one currency is put together: where it can
// bend, in minor units.
type Shape struct {
	Tiers   []ShapeTier // rising; one without a limit last
	Minimum int64       // 0: none
	Maximum int64       // MaxMinor or more: none
}

// ShapeTier charges amounts up to UpTo, which the tiers before do not.
type ShapeTier struct {
	UpTo int64 // above MaxMinor in the last one
	Rate int64 // millionths of the amount
}

// Shape returns the shape for a currency. A currency without a fee has one of
// a single tier that charges nothing.
func (t *Table) Shape(c tollgate.Currency) (Shape, error) {
	p, err := t.plan()
	if err != nil {
		return Shape{}, err
	}
	r := p.rest
	for i := range p.rows {
		if slices.Contains(p.rows[i].currencies, c) {
			r = &p.rows[i]
		}
	}
	if r == nil {
		return Shape{Tiers: []ShapeTier{{UpTo: unlimited}}, Maximum: unlimited}, nil
	}
	s := Shape{Minimum: r.minimum, Maximum: r.maximum}
	for _, tier := range r.tiers {
		s.Tiers = append(s.Tiers, ShapeTier{tier.upTo, tier.rate})
	}
	return s, nil
}
