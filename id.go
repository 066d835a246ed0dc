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
	return prefix + strings.ToLower(ulid.MustNew(ulid.Timestamp(t), entropy).String())
}

// FirstID is the least identifier that NewID can make for a moment, to look
// others up by their time.
func FirstID(prefix string, at Instant) string {
	var id ulid.ULID
	if err := id.SetTime(uint64(max(0, at))); err != nil {
		panic(err) // for years beyond 10889
	}
	return prefix + strings.ToLower(id.String())
}

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
