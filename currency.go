package tollgate

import "fmt"

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
