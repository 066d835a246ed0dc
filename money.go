package tollgate

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/ericlagergren/decimal"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxMinor is the largest amount in minor units: 15 digits (interface §0, "money").
// Sums of two such amounts still fit an int64 and a double's 53 bits.
const MaxMinor = 999_999_999_999_999

// Money is an exact amount in the minor unit of its currency: 10.00 EUR is
// {1000, "EUR"}, 10 JPY is {10, "JPY"}.
type Money struct {
	Minor    int64
	Currency Currency
}

// decimals is the one context that every decimal operation goes through. A
// zero Big works with 16 digits and an operating mode that hides conditions;
// 34 digits (decimal128) hold any product of an amount and a rate.
var decimals = decimal.Context{
	Precision:     34,
	RoundingMode:  decimal.ToNearestEven,
	OperatingMode: decimal.GDA,
}

// ParseMoney reads a decimal string of the form
// ^(0|[1-9][0-9]{0,14})(\.[0-9]{1,4})?$ in a currency. Errors:
// CodeAmountInvalid for any other form or more than 15 digits in minor units,
// CodeAmountScaleInvalid for more decimal places than the currency has.
func ParseMoney(s string, c Currency) (Money, error) {
	if !decimalForm(s) {
		return Money{}, &Error{
			Code: CodeAmountInvalid, Param: "amount",
			Message: `An amount is a decimal string such as "10.00": no sign, no exponent, no leading zeros, at most 15 digits before the point and 4 after it.`,
		}
	}
	places := 0
	if dot := strings.IndexByte(s, '.'); dot >= 0 {
		places = len(s) - dot - 1
	}
	if places > c.Exponent() {
		return Money{}, &Error{
			Code: CodeAmountScaleInvalid, Param: "amount",
			Message: fmt.Sprintf("%s has %d decimal places; this amount has %d.", c, c.Exponent(), places),
		}
	}
	// The form is checked, so SetString can see neither NaN nor an exponent.
	d, ok := decimals.SetString(new(decimal.Big), s)
	if !ok {
		return Money{}, fmt.Errorf("money: decimal refused %q", s)
	}
	minor, ok := toMinor(d, c.Exponent())
	if !ok {
		return Money{}, &Error{
			Code: CodeAmountInvalid, Param: "amount",
			Message: "An amount has at most 15 digits, counted in the currency's minor unit.",
		}
	}
	return Money{minor, c}, nil
}

// toMinor scales an exact decimal by 10^exponent; false when the result is
// not an integer or has more than 15 digits.
func toMinor(d *decimal.Big, exponent int) (int64, bool) {
	scaled := decimals.Mul(new(decimal.Big), d, decimal.New(1, -exponent))
	if !scaled.IsInt() {
		return 0, false
	}
	n, ok := scaled.Int64()
	if !ok || n < 0 || n > MaxMinor {
		return 0, false
	}
	return n, true
}

// decimalForm matches ^(0|[1-9][0-9]{0,14})(\.[0-9]{1,4})?$. It runs before
// any decimal library sees the text.
func decimalForm(s string) bool {
	whole, fraction, dotted := strings.Cut(s, ".")
	if len(whole) == 0 || len(whole) > 15 || !digits(whole) || (whole[0] == '0' && len(whole) > 1) {
		return false
	}
	return !dotted || (len(fraction) >= 1 && len(fraction) <= 4 && digits(fraction))
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// String prints the amount with all places of its currency: "10.00", "10",
// "0.005". It is the only form in which amounts leave the service.
func (m Money) String() string { return string(m.AppendText(nil)) }

// AppendText appends what String returns.
func (m Money) AppendText(b []byte) []byte {
	exp := m.Currency.Exponent()
	n := m.Minor
	if n < 0 {
		b = append(b, '-')
		n = -n
	}
	var buf [24]byte
	i := len(buf)
	for place := 0; n > 0 || place <= exp; place++ {
		if place == exp && exp > 0 {
			i--
			buf[i] = '.'
		}
		i--
		buf[i] = byte('0' + n%10)
		n /= 10
	}
	return append(b, buf[i:]...)
}

// MarshalText makes an amount a JSON string; its currency stands beside it.
func (m Money) MarshalText() ([]byte, error) { return m.AppendText(nil), nil }

// placesRead stand for the currency of an amount that has been read, by its
// decimal places: which currency it is, only its object knows (Currency.amounts,
// Currency.sums).
var placesRead = [...]Currency{"0 places", "1 place", "2 places", "3 places", "4 places"}

// UnmarshalText reads what MarshalText prints, and nothing else.
func (m *Money) UnmarshalText(text []byte) error {
	s := string(text)
	whole, fraction, dotted := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	minor, err := strconv.ParseInt(strings.Replace(s, ".", "", 1), 10, 64)
	if err != nil || !digits(whole) || whole == "" || (whole[0] == '0' && len(whole) > 1) || dotted != (fraction != "") ||
		len(fraction) >= len(placesRead) || (minor == 0 && s[0] == '-') {
		return fmt.Errorf("%s is not an amount as it is printed", quoted(s))
	}
	*m = Money{minor, placesRead[len(fraction)]}
	return nil
}

// amounts gives amounts that have been read their currency. Each has its decimal
// places, at most 15 digits and no sign.
func (c Currency) amounts(read ...*Money) error {
	for _, m := range read {
		if m != nil && (m.Minor < 0 || m.Minor > MaxMinor) {
			return fmt.Errorf("an amount in %s has a sign or more than 15 digits", quoted(string(c)))
		}
	}
	return c.sums(read...)
}

// sums gives sums and differences that have been read their currency. They may
// be negative and have more digits. What has neither amounts nor a currency, as
// a DamagedObject in a list, stays so.
func (c Currency) sums(read ...*Money) error {
	for _, m := range read {
		switch _, known := exponents[c]; {
		case m == nil, c == "" && *m == Money{}:
		case !known || m.Currency != placesRead[c.Exponent()]:
			return fmt.Errorf("an amount is missing or not in %s", quoted(string(c)))
		default:
			m.Currency = c
		}
	}
	return nil
}

// readMoney reads an object and gives the amounts and lines that are its fields
// their currency, which is read with them: by Currency.amounts or Currency.sums.
func readMoney(d *jsontext.Decoder, object any, c *Currency, give func(Currency, ...*Money) error) error {
	if err := json.UnmarshalDecode(d, object); err != nil {
		return err
	}
	return c.of(reflect.ValueOf(object).Elem(), give)
}

func (c Currency) of(v reflect.Value, give func(Currency, ...*Money) error) (err error) {
	for i := 0; err == nil && i < v.NumField(); i++ {
		switch m := v.Field(i).Addr().Interface().(type) {
		case *Money:
			err = give(c, m)
		case **Money:
			err = give(c, *m)
		case *FeeOutcome:
			err = c.of(v.Field(i), give)
		case *[]FeeLine:
			for i := range *m {
				err = cmp.Or(err, c.amounts(&(*m)[i].Amount))
			}
		case *[]TicketLine:
			for i := range *m {
				err = cmp.Or(err, c.amounts(&(*m)[i].Amount))
			}
		}
	}
	return err
}

// Currency is an ISO 4217 alphabetic code in upper case, such as "EUR".
type Currency string

// exponents lists the active ISO 4217 codes by their number of minor-unit
// digits. Codes without a minor unit of account (XAU, XDR, XXX, XTS …) are not
// payable and not listed.
var exponents = func() map[Currency]uint8 {
	byDigits := [...]string{
		0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
		2: "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD " +
			"CAD CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS " +
			"GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD " +
			"LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN " +
			"PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB " +
			"TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG",
		3: "BHD IQD JOD KWD LYD OMR TND",
		4: "CLF UYW",
	}
	m := make(map[Currency]uint8, 180)
	for digits, codes := range byDigits {
		for i := 0; i+3 <= len(codes); i += 4 {
			m[Currency(codes[i:i+3])] = uint8(digits)
		}
	}
	return m
}()

// ParseCurrency accepts an active ISO 4217 code in upper case and nothing
// else. The error is an *Error with CodeCurrencyUnsupported.
func ParseCurrency(s string) (Currency, error) {
	c := Currency(s)
	if _, ok := exponents[c]; !ok {
		return "", &Error{
			Code: CodeCurrencyUnsupported, Param: "currency",
			Message: fmt.Sprintf("%s is not an active ISO 4217 currency code in upper case.", quoted(s)),
		}
	}
	return c, nil
}

// Exponent is the number of decimal places of the minor unit: JPY 0, EUR 2,
// BHD 3, CLF 4.
func (c Currency) Exponent() int { return int(exponents[c]) }

// Currencies returns how many codes are known; the list itself is ISO's.
func Currencies() []Currency {
	all := make([]Currency, 0, len(exponents))
	for c := range exponents {
		all = append(all, c)
	}
	return all
}
