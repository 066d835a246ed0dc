package tollgate_test

import (
	"errors"
	"math/big"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"tollgate"
)

// form is the pattern of the interface, section 0, as it stands there.
var form = regexp.MustCompile(`^(0|[1-9][0-9]{0,14})(\.[0-9]{1,4})?$`)

// judge reads an amount with math/big alone and says which code it deserves.
func judge(s string, c tollgate.Currency) (minor *big.Int, code tollgate.Code) {
	if !form.MatchString(s) {
		return nil, tollgate.CodeAmountInvalid
	}
	_, fraction, _ := strings.Cut(s, ".")
	if len(fraction) > c.Exponent() {
		return nil, tollgate.CodeAmountScaleInvalid
	}
	r, _ := new(big.Rat).SetString(s)
	r.Mul(r, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(c.Exponent())), nil)))
	if r.Num().Cmp(big.NewInt(999_999_999_999_999)) > 0 {
		return nil, tollgate.CodeAmountInvalid
	}
	return r.Num(), ""
}

func checkAmount(t *testing.T, s string, c tollgate.Currency) {
	t.Helper()
	m, err := tollgate.ParseMoney(s, c)
	want, code := judge(s, c)
	var e *tollgate.Error
	switch {
	case code != "":
		if !errors.As(err, &e) || e.Code != code || e.Param != "amount" {
			t.Errorf("%q %s: %v, want %s", s, c, err, code)
		}
	case err != nil || big.NewInt(m.Minor).Cmp(want) != 0 || m.Currency != c:
		t.Errorf("%q %s: %d %v, want %s", s, c, m.Minor, err, want)
	default:
		again, err := tollgate.ParseMoney(m.String(), c)
		_, fraction, _ := strings.Cut(m.String(), ".")
		if err != nil || again != m || len(fraction) != c.Exponent() {
			t.Errorf("%q %s prints as %q", s, c, m)
		}
	}
}

var scales = []tollgate.Currency{"JPY", "EUR", "BHD", "CLF"}

func TestMoneyAgreesWithMathBig(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const digits = "0123456789"
	number := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = digits[r.IntN(10)]
		}
		return string(b)
	}
	for range 100_000 {
		s := number(1 + r.IntN(17))
		if r.IntN(3) > 0 {
			s += "." + number(r.IntN(6))
		}
		if r.IntN(20) == 0 {
			i := r.IntN(len(s))
			s = s[:i] + string([]rune("-+eE, .x١\x00_")[r.IntN(11)]) + s[i:]
		}
		checkAmount(t, s, scales[r.IntN(4)])
	}
}

func TestMoneyAtTheEdges(t *testing.T) {
	for _, s := range []string{
		"", "0", "0.0", "0.00", "0.0001", "00", "01", "1.", ".1", "1.00000", "-1", "+1", "1e3", "NaN", "Inf", "1,5", "1_0", " 1", "1 ", "1\n",
		"9.995", "99999999999999", "100000000000000", "999999999999999", "1000000000000000", "9999999999999.99", "10000000000000.00",
		"999999999999.999", "99999999999.9999", "١", "１", "0x1", "1e999999999", "infinity",
	} {
		for _, c := range scales {
			checkAmount(t, s, c)
		}
	}
	for minor, want := range map[int64]string{0: "0.00", 1: "0.01", 10: "0.10", 100: "1.00", tollgate.MaxMinor: "9999999999999.99"} {
		if got := (tollgate.Money{Minor: minor, Currency: "EUR"}).String(); got != want {
			t.Errorf("%d cents print as %q, want %q", minor, got, want)
		}
	}
}

func TestCurrencies(t *testing.T) {
	for code, digits := range map[string]int{"EUR": 2, "USD": 2, "JPY": 0, "BHD": 3, "CLF": 4, "UYW": 4, "ISK": 0, "KWD": 3, "ZWG": 2} {
		c, err := tollgate.ParseCurrency(code)
		if err != nil || c.Exponent() != digits {
			t.Errorf("%s: %d places, %v", code, c.Exponent(), err)
		}
	}
	for _, code := range []string{"", "eur", "EURO", "EU", "XXX", "XAU", "ABC", " EUR", "EUR\x00", "ÉUR"} {
		if _, err := tollgate.ParseCurrency(code); err == nil {
			t.Errorf("%q is accepted", code)
		}
	}
	if n := len(tollgate.Currencies()); n < 150 {
		t.Errorf("%d currencies", n)
	}
}

func FuzzMoney(f *testing.F) {
	f.Add("10.00", uint8(1))
	f.Add("1e999999999", uint8(0))
	f.Fuzz(func(t *testing.T, s string, c uint8) { checkAmount(t, s, scales[c%4]) })
}

func BenchmarkParseMoney(b *testing.B) {
	for b.Loop() {
		if _, err := tollgate.ParseMoney("12345.67", "EUR"); err != nil {
			b.Fatal(err)
		}
	}
}
