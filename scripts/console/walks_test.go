package console

import (
	"strings"
	"testing"
	"time"
)

// From the list of payments to the rule that made a fee, by clicks alone: the module
// runs in the browser and gives the ticket's digest.
func TestWhyIsThisFee(t *testing.T) {
	t.Parallel()
	s := dev(t)
	payment := s.pay(nil)
	s.ask("POST", "/v1/payments/"+payment.text("id")+"/captures", object{"amount": "60.00"})
	b := launch(t)
	b.open(s.entry)
	b.click("tbody .row-link", "20") // its time
	b.shows("100.00 EUR to shop.example", "✓ Your browser gets the same", "Choose a fee to see why it is what it is.")
	b.within(`[...document.querySelectorAll("tr")].some((e) => /Card fee\s+1.39 EUR/.test(e.innerText))`)
	b.click("tr:has(td.number) .row-link", "Card fee")
	b.shows("Card fee is 1.39 EUR, because rule:card_fee@v2 charges that for 60.00 EUR to shop.example.", "✓ Your browser gets the same", "In your browser Card fee: 1.39 EUR")
	ticket := s.ask("GET", "/v1/tickets/"+payment.text("ticket_id"), nil)
	digest := ticket.list("evaluations")[1].text("lines_sha256")
	b.within(`document.querySelector(".check.good").title === "SHA-256 of the lines: " + %s`, digest)
	b.shows(digest)
	b.quiet("the walk")
}

// / goes to the search, j and k walk, g and a letter opens a section.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	s := dev(t)
	s.rows(3)
	b := launch(t)
	b.open(s.entry)
	at := func(row int) {
		t.Helper()
		b.within(`document.activeElement === document.querySelectorAll(".row-link")[%s]`, row)
	}
	b.press("j")
	at(0)
	b.press("j")
	at(1)
	b.press("k")
	at(0)
	b.press("/")
	b.within(`document.activeElement.name === "payee"`)
	b.press("jk/")
	b.within(`document.activeElement.value.endsWith("jk/")`)
	eval[any](b, `void document.activeElement.blur()`)
	b.press("ge")
	b.within(`document.title === "Events · Tollgate"`)
	b.quiet("the keyboard")
}

// A rule that never ends is stopped in the page, which then goes on.
func TestRuleThatNeverEnds(t *testing.T) {
	t.Parallel()
	s := dev(t)
	b := launch(t)
	b.open(s.entry)
	b.open(s.console + "/rul_sandbox_v1")
	b.fill(`.filters input:not([type])`, "loop.test")
	b.shows("A rule did not end within 5 s. The service stops such a rule by its fuel.")
	b.fill(`.filters input:not([type])`, "shop.example")
	b.within(`document.querySelector(".plot") && !document.querySelector(".fault")`)
	b.open(s.console + "/rul_card_fee_v2")
	b.shows("Fees at amounts")
	b.quiet("the rule")
}

// A backtest prices past tickets with another version, beginning with a rule to replace.
func TestBacktest(t *testing.T) {
	t.Parallel()
	s := dev(t)
	s.rows(5)
	b := launch(t)
	b.open(s.entry)
	for _, id := range []string{"rul_card_fee_v1", "rul_card_fee_v2"} {
		b.open(s.console + "/" + id)
		b.within(`/^rule:card_fee@v[12]$/.test([...document.querySelectorAll("label")].find((e) => e.innerText.startsWith("In the place of")).querySelector("select").value)`)
		b.click("button", "Price tickets again")
		b.shows("5 tickets, ")
		b.quiet(id)
	}
}

// An event arrives while the page is open.
func TestLiveEvents(t *testing.T) {
	t.Parallel()
	s := dev(t)
	b := launch(t)
	b.open(s.entry)
	b.open(s.console + "/events")
	b.click("button", "Follow live")
	b.shows("Waiting for the next event…")
	// An event before the page's first question is not one from now on: pay until one shows.
	for began := time.Now(); !eval[bool](b, `Boolean(document.querySelector("tbody .row-link"))`) && time.Since(began) < patience; {
		s.pay(nil)
	}
	b.within(`[...document.querySelectorAll("tbody tr")].some((e) => e.innerText.includes("payment.authorized"))`)
	b.quiet("live events")
}

// The deliveries of an endpoint, and the attempts of the one that is open, as they are
// made.
func TestLiveDeliveries(t *testing.T) {
	t.Parallel()
	s := dev(t)
	s.pay(nil)
	path := "/v1/webhooks/" + s.env["TOLLGATE_WEBHOOK"] + "/deliveries"
	b := launch(t)
	b.open(s.entry)
	b.open(s.console + "/" + s.env["TOLLGATE_WEBHOOK"])
	b.click("button", "Follow live")
	b.shows("Stop following")
	s.pay(nil)
	b.within(`document.querySelectorAll("tbody tr").length === 2`)
	b.click("tbody tr:first-child button", "payment.authorized")
	b.shows("Delivery", "1. succeeded")
	first := s.ask("GET", path+"?limit=1", nil).list("data")[0].text("id")
	s.ask("POST", path+"/"+first+"/replays", object{})
	b.shows("2. succeeded")
	b.click("button", "Stop following")
	b.shows("Follow live")
	b.quiet("live deliveries")
}

// Who did what, searched and as it happens.
func TestAudit(t *testing.T) {
	t.Parallel()
	s := dev(t)
	paid := s.pay(nil).text("id")
	b := launch(t)
	b.open(s.entry)
	b.open(s.console + "/audit?target=" + paid)
	b.shows("payment.create succeeded " + paid)
	if rows := eval[int](b, `document.querySelectorAll("tbody tr").length`); rows != 1 {
		t.Errorf("%d entries are about the payment", rows)
	}
	b.click("button", "Follow live")
	b.shows("Stop following")
	s.ask("POST", "/v1/payments/"+paid+"/cancel", object{})
	b.shows("payment.cancel succeeded " + paid)
	_, _ = s.try("POST", "/v1/payments", object{"amount": "1.00", "currency": "EUR", "payee": "deny.test"})
	b.open(s.console + "/audit?outcome=refused")
	b.shows("payment.create refused payee_blocked")
	b.quiet("audit")
}

// The cutoff's slider asks what another one would change, and changes nothing.
func TestCutoffPreview(t *testing.T) {
	t.Parallel()
	s := dev(t)
	// At noon of the next day all captures are before the cutoff of 17:00.
	s.ask("POST", "/v1/sandbox/clock", object{"to": time.Now().UTC().AddDate(0, 0, 1).Format("2006-01-02") + "T10:00:00Z"})
	s.renew()
	s.rows(5)
	b := launch(t)
	b.open(s.entry)
	b.open(s.console + "/payouts")
	b.shows("What another cutoff would change", "0 of 5 captures would join another day")
	before := s.ask("GET", "/v1/merchant-accounts/"+s.env["TOLLGATE_MERCHANT_ACCOUNT"], nil)["cutoff"].(map[string]any)["cutoff_time"]
	eval[any](b, `void ((e) => { e.value = "0"; e.dispatchEvent(new Event("input", { bubbles: true })); })(document.querySelector("input[type=range]"))`)
	b.shows("The sales day ends at 00:00", "5 of 5 captures would join another day")
	if after := s.ask("GET", "/v1/merchant-accounts/"+s.env["TOLLGATE_MERCHANT_ACCOUNT"], nil)["cutoff"].(map[string]any)["cutoff_time"]; after != before {
		t.Errorf("the cutoff is %v, was %v", after, before)
	}
	b.quiet("the cutoff")
}

// What the calendar says is due is what is paid on that day, and its sum is of all
// accounts' captures, refunds and fees.
func TestDueIsWhatIsPaid(t *testing.T) {
	t.Parallel()
	s := dev(t)
	s.ask("POST", "/v1/sandbox/clock", object{"to": time.Now().UTC().AddDate(0, 0, 40).Format("2006-01-02") + "T10:00:00Z"})
	s.renew()
	s.rows(7)
	id := s.pay(object{"capture_method": "automatic"}).text("id")
	s.ask("POST", "/v1/payments/"+id+"/refunds", object{"amount": "30.00"})
	now := s.ask("GET", "/v1/sandbox/clock", nil).text("now")[:10]
	b := launch(t)
	b.open(s.entry)
	b.open(s.console + "/payouts")
	b.shows("Europe "+now+" 17:00 Europe/Berlin", "North America "+now+" 20:00 America/New_York")
	b.within(`document.querySelector(".calendar .due .money")`)
	if today := eval[string](b, `document.querySelector(".calendar .today time").dateTime`); today != now {
		t.Errorf("today is %s, and the sandbox's day is %s", today, now)
	}
	date := eval[string](b, `document.querySelector(".calendar .due time").dateTime`)
	due := eval[string](b, `document.querySelector(".calendar .due .money").innerText`)
	b.quiet("what is due")
	s.ask("POST", "/v1/sandbox/clock", object{"advance": "240h"})
	s.renew()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if paid := s.ask("GET", "/v1/payouts?status=paid", nil).list("data"); len(paid) > 0 {
			if got := paid[0].text("amount") + " EUR"; len(paid) > 1 || got != strings.Join(strings.Fields(due), " ") || paid[0].text("payout_date") != date {
				t.Errorf("%s was due on %s; %s was paid on %s, in %d payouts", due, date, got, paid[0].text("payout_date"), len(paid))
			}
			break
		}
		if time.Since(began) > patience {
			t.Fatal("nothing is paid")
		}
	}
}
