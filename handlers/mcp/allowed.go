package mcp

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
)

// perimeter is what of GET /v1/perimeters/{perimeter_id} says what would be allowed.
type perimeter struct {
	Constraints struct {
		Currencies    []string `json:"currencies"`
		PayeesAllowed []string `json:"payees_allowed"`
		Minimum       string   `json:"minimum_amount"`
		Maximum       string   `json:"maximum_amount"`
		Budgets       []struct {
			Currency string `json:"currency"`
		} `json:"budgets"`
		Schedule *struct {
			TimeZone string   `json:"time_zone"`
			Days     []string `json:"days"`
			From     string   `json:"from"`
			To       string   `json:"to"`
		} `json:"schedule"`
	} `json:"constraints"`
	Usage []usage `json:"usage"`
}

// usage is what is used of one limit in its window.
type usage struct {
	Account  string           `json:"merchant_account_id"`
	Version  int64            `json:"version"`
	Window   string           `json:"window"`
	TimeZone string           `json:"time_zone"`
	Used     *string          `json:"used"`
	Limit    string           `json:"limit"`
	Currency string           `json:"currency"`
	ResetsAt tollgate.Instant `json:"resets_at"`
	Damaged  bool             `json:"damaged"`
}

// wouldBeAllowed says what the perimeter that denies a payment would allow; nothing
// if the token may not read it. paymentID is the declined payment, if there is one.
func (c *call) wouldBeAllowed(d decision, paymentID string) string {
	if d.Decision != "deny" || !c.has("accounts:read") {
		return ""
	}
	asked := struct{ amount, currency, payee, account string }{
		c.arguments.text("amount"), c.arguments.text("currency"), c.arguments.text("payee"), c.arguments.text("merchant_account_id"),
	}
	if asked.payee == "" || asked.currency == "" {
		return ""
	}
	if asked.account == "" {
		asked.account = c.accountOf(paymentID)
	}
	query := url.Values{"version": {strconv.FormatInt(d.Version, 10)}, "payee": {asked.payee}}
	if asked.account != "" {
		query.Set("merchant_account_id", asked.account)
	}
	r, err := c.send(http.MethodGet, "/v1/perimeters/"+url.PathEscape(d.ID)+"?"+query.Encode(), nil, "")
	var p perimeter
	if err != nil || r.status != http.StatusOK || json.Unmarshal(r.body, &p) != nil {
		return ""
	}
	p.Usage = slices.DeleteFunc(p.Usage, func(u usage) bool { return u.Version != d.Version && !u.Damaged })
	return p.allows(d.Reason, asked.currency, asked.payee, asked.account)
}

// accountOf is the merchant account of a payment, as far as the token may read it.
func (c *call) accountOf(payment string) string {
	if payment == "" || !c.has("payments:read") {
		return ""
	}
	var p struct {
		Account string `json:"merchant_account_id"`
	}
	r, err := c.send(http.MethodGet, "/v1/payments/"+url.PathEscape(payment), nil, "")
	if err != nil || r.status != http.StatusOK || json.Unmarshal(r.body, &p) != nil {
		return ""
	}
	return p.Account
}

// allows says what a perimeter would allow where it denies for a reason.
func (p *perimeter) allows(reason, currency, payee, account string) string {
	k := &p.Constraints
	switch reason {
	case "currency_not_allowed":
		return " Allowed currencies: " + listed(k.Currencies) + "."
	case "budget_currency_missing":
		var budgets []string
		for _, b := range k.Budgets {
			if !slices.Contains(budgets, b.Currency) {
				budgets = append(budgets, b.Currency)
			}
		}
		return " There are budgets in " + listed(budgets) + "."
	case "payee_blocked":
		return " No payment to this payee is allowed."
	case "payee_not_allowed":
		return " Allowed payees: " + listed(k.PayeesAllowed) + "."
	case "amount_below_minimum":
		return fmt.Sprintf(" Allowed: from %s %s.", k.Minimum, currency)
	case "outside_schedule":
		if k.Schedule == nil {
			return ""
		}
		days := "every day"
		if k.Schedule.Days != nil {
			days = listed(k.Schedule.Days)
		}
		return fmt.Sprintf(" Allowed: %s from %s to %s (%s).", days, k.Schedule.From, k.Schedule.To, k.Schedule.TimeZone)
	case "amount_above_maximum", "budget_exhausted", "frequency_exceeded":
		return p.room(tollgate.Currency(currency), payee, account)
	}
	return ""
}

// room is how much one payment may be at the moment, and until when that holds.
func (p *perimeter) room(currency tollgate.Currency, payee, account string) string {
	most, bound := int64(-1), (*usage)(nil) // no limit
	if m, err := tollgate.ParseMoney(p.Constraints.Maximum, currency); err == nil && p.Constraints.Maximum != "" {
		most = m.Minor
	}
	accounts := map[string]bool{}
	for _, u := range p.Usage {
		if accounts[u.Account] = true; u.Damaged {
			return "" // nobody knows
		}
	}
	if delete(accounts, ""); account == "" && len(accounts) > 1 {
		return "" // it depends on the account
	}
	for i := range p.Usage {
		u := &p.Usage[i]
		left, ok := u.left(currency)
		switch {
		case !ok || u.Account != "" && account != "" && u.Account != account:
		case u.Currency == "" && left <= 0:
			return fmt.Sprintf(" No more payments to %s are allowed until %s.", payee, u.until())
		case u.Currency != "" && (most < 0 || left < most):
			most, bound = max(left, 0), u
		}
	}
	amount := tollgate.Money{Minor: most, Currency: currency}
	switch {
	case most < 0:
		return ""
	case bound == nil:
		return fmt.Sprintf(" Allowed: up to %s %s in one payment.", amount, currency)
	case most == 0:
		return fmt.Sprintf(" Nothing more in %s to %s is allowed until %s.", currency, payee, bound.until())
	}
	return fmt.Sprintf(" Allowed: up to %s %s to %s until %s.", amount, currency, payee, bound.until())
}

// left is what is left of a limit that a payment in the currency counts towards.
func (u *usage) left(currency tollgate.Currency) (int64, bool) {
	switch {
	case u.Used == nil || u.Currency != "" && u.Currency != string(currency):
		return 0, false
	case u.Currency == "":
		used, err := strconv.ParseInt(*u.Used, 10, 64)
		limit, wrong := strconv.ParseInt(u.Limit, 10, 64)
		return limit - used, err == nil && wrong == nil
	}
	used, err := tollgate.ParseMoney(*u.Used, currency)
	limit, wrong := tollgate.ParseMoney(u.Limit, currency)
	return limit.Minor - used.Minor, err == nil && wrong == nil
}

// until is when the window ends, in its own time zone.
func (u *usage) until() string {
	at := u.ResetsAt.Time()
	if zone, err := tollgate.LoadZone(u.TimeZone); err == nil {
		at = at.In(zone)
	}
	return at.Format("Monday 2006-01-02 15:04 ") + zoneName(at, u.TimeZone) + ", when the " + u.Window + "'s limit starts again"
}

func zoneName(at time.Time, name string) string {
	if name == "" {
		return at.Location().String()
	}
	return name
}

// mostListed bounds a list in a sentence.
const mostListed = 10

func listed(of []string) string {
	switch {
	case len(of) == 0:
		return "none"
	case len(of) > mostListed:
		return strings.Join(of[:mostListed], ", ") + fmt.Sprintf(" and %d more", len(of)-mostListed)
	}
	return strings.Join(of, ", ")
}
