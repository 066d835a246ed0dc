package tollgate

import (
	"io"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// Prefixes of identifiers. An identifier is opaque to clients (interface §0): a
// prefix and 26 lower-case characters that sort by time (a ULID).
const (
	PrefixOrganization    = "org_"
	PrefixLegalEntity     = "le_"
	PrefixMerchantAccount = "ma_"
	PrefixGrant           = "grt_"
	PrefixClient          = "cli_"
	PrefixPayment         = "pay_"
	PrefixCapture         = "cap_"
	PrefixRefund          = "rfd_"
	PrefixTransaction     = "txn_"
	PrefixTicket          = "tkt_"
	PrefixEvent           = "evt_"
	PrefixPerimeter       = "per_"
	PrefixRuleSet         = "rs_"
	PrefixPayout          = "po_"
	PrefixRule            = "rul_"
	PrefixRuleSigner      = "sig_"
	PrefixActivation      = "act_"
	PrefixShadow          = "shd_"
	PrefixDivergence      = "div_"
	PrefixInstance        = "ins_"
	PrefixRequest         = "req_"
	PrefixAudit           = "aud_"
	PrefixHistory         = "his_"
)

// NewID makes an identifier for time t from 10 bytes of entropy.
func NewID(prefix string, t time.Time, entropy io.Reader) string {
	return prefixed(prefix, ulid.MustNew(ulid.Timestamp(t), entropy))
}

func prefixed(prefix string, id ulid.ULID) string {
	var room [64]byte
	text := append(append(room[:0], prefix...), make([]byte, ulid.EncodedSize)...)
	of := text[len(prefix):]
	_ = id.MarshalTextTo(of) // errs for another size only
	for i := range of {
		of[i] |= 'a' - 'A' // which digits have already
	}
	return string(text)
}

// FirstID is the least identifier that NewID can make for a moment, to look
// others up by their time.
func FirstID(prefix string, at Instant) string {
	var id ulid.ULID
	if err := id.SetTime(uint64(max(0, at))); err != nil {
		panic(err) // for years beyond 10889
	}
	return prefixed(prefix, id)
}

// What belongs to a payment has identifiers that end in the payment's own characters and
// then two that number it, behind a time of their own: so they say where it is kept. 0 is
// the payment itself, its ticket and its authorization.
const timeSize, numberSize = 10, 2

// NumberedID is the identifier of what a payment made at a moment, by its number.
func NumberedID(prefix string, at Instant, payment string, number int) string {
	of, _, _ := NumberIn(payment)
	const base = len(ulid.Encoding)
	return PartID(prefix, at, of, strings.ToLower(ulid.Encoding[number/base:][:1]+ulid.Encoding[number%base:][:1]))
}

// PartID is NumberedID by what NumberIn splits off.
func PartID(prefix string, at Instant, of, number string) string {
	return FirstID(prefix, at)[:len(prefix)+timeSize] + of + number
}

// NumberIn splits an identifier of NumberedID: what all of a payment share, and the
// number. Of any other identifier it is false, or nobody's.
func NumberIn(id string) (of, number string, ok bool) {
	_, text, _ := strings.Cut(id, "_")
	if len(text) != ulid.EncodedSize || !ValidID(text) {
		return "", "", false
	}
	return text[timeSize : len(text)-numberSize], text[len(text)-numberSize:], true
}

// FirstNumber is the number of the payment itself.
const FirstNumber = "00"

// ValidID reports whether s has the shape that every identifier has:
// 1–64 of [A-Za-z0-9_]. Anything else is a 404 before Redis is asked.
func ValidID(s string) bool {
	if len(s) == 0 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// IDTime is the moment in an identifier, to the millisecond; false for an
// identifier that was not made by NewID.
func IDTime(id string) (time.Time, bool) {
	_, text, ok := strings.Cut(id, "_")
	if !ok {
		return time.Time{}, false
	}
	u, err := ulid.ParseStrict(strings.ToUpper(text))
	if err != nil {
		return time.Time{}, false
	}
	return ulid.Time(u.Time()).UTC(), true
}
