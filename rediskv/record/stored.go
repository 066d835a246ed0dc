package record

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tollgate"
)

// Stored reads the fields of one stored object, strictly: what is missing, is
// not written as this service writes it, or cannot be, makes the object a
// damaged one. Nothing is read as zero because it cannot be read.
type Stored struct {
	Fields
	object, id string
	Faults     []string // names of fields that cannot be read
}

// ReadHash begins to read an object from the fields of its hash.
func ReadHash(object, id string, f Fields) *Stored {
	r := &Stored{Fields: f, object: object, id: id}
	if Check(f[Field]) != nil {
		r.Fault(Field)
	}
	return r
}

// Err is nil, or the damage of the object.
func (r *Stored) Err() error {
	if len(r.Faults) == 0 {
		return nil
	}
	d := tollgate.Damage(r.object, r.id, fmt.Errorf("%s %s: unreadable: %s", r.object, r.id, strings.Join(r.Faults, ", ")))
	d.Damaged.MerchantAccountID = r.account()
	return d
}

func (r *Stored) account() string {
	if ma := r.Fields["ma"]; !slices.Contains(r.Faults, "ma") && strings.HasPrefix(ma, tollgate.PrefixMerchantAccount) && tollgate.ValidID(ma) {
		return ma
	}
	return ""
}

// Fault notes a field that cannot be what was written.
func (r *Stored) Fault(name string) { r.Faults = append(r.Faults, name) }

// Unreadable reports whether a field has a fault. With another checksum it may be any.
func (r *Stored) Unreadable(name string) bool {
	return slices.Contains(r.Faults, name) || slices.Contains(r.Faults, Field)
}

// Signed is an integer in its one decimal form.
func (r *Stored) Signed(name string) int64 {
	n, err := strconv.ParseInt(r.Fields[name], 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != r.Fields[name] {
		r.Fault(name)
		return 0
	}
	return n
}

// Int is an integer that is not negative; count is one that is 0 while it is
// not there.
func (r *Stored) Int(name string) int64 {
	n := r.Signed(name)
	if n < 0 {
		r.Fault(name)
	}
	return n
}

// Count reads a number that is not negative.
func (r *Stored) Count(name string) int64 {
	if r.Fields[name] == "" {
		return 0
	}
	return r.Int(name)
}

// Amount is money of at most 15 digits.
func (r *Stored) Amount(name string, c tollgate.Currency) tollgate.Money {
	n := r.Int(name)
	if n > tollgate.MaxMinor {
		r.Fault(name)
	}
	return tollgate.Money{Minor: n, Currency: c}
}

// latest is the end of the year 9999: no moment is written beyond it.
const latest = 253_402_300_799_999

// Instant must be there; moment is zero while it is not.
func (r *Stored) Instant(name string) tollgate.Instant {
	n := r.Int(name)
	if n == 0 || n > latest {
		r.Fault(name)
	}
	return tollgate.Instant(n)
}

// Moment reads an instant, in milliseconds.
func (r *Stored) Moment(name string) tollgate.Instant {
	if r.Fields[name] == "" || r.Fields[name] == "0" {
		return 0
	}
	return r.Instant(name)
}

// Text must be there.
func (r *Stored) Text(name string) string {
	if r.Fields[name] == "" {
		r.Fault(name)
	}
	return r.Fields[name]
}

// Word is one of those that are known.
func (r *Stored) Word(name string, known ...string) string {
	if !slices.Contains(known, r.Fields[name]) {
		r.Fault(name)
	}
	return r.Fields[name]
}

// Currency reads a currency by its code.
func (r *Stored) Currency(name string) tollgate.Currency {
	c, err := tollgate.ParseCurrency(r.Fields[name])
	if err != nil {
		r.Fault(name)
	}
	return c
}

// Of is an identifier of a kind.
func (r *Stored) Of(name, prefix string) string {
	if !strings.HasPrefix(r.Fields[name], prefix) || !tollgate.ValidID(r.Fields[name]) {
		r.Fault(name)
	}
	return r.Fields[name]
}

// JSON reads a field's JSON, which must be there.
func (r *Stored) JSON(name string, into any) {
	if Decode(r.Fields[name], into) != nil {
		r.Fault(name)
	}
}
